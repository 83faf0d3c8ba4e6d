/** What a document and its reference page say before the operations. */
import { type ErrorCode, errorMessages } from '../../src/core/errors.ts';
import { statuses } from '../../src/http/errors.ts';
import { headers, headersOfQuickstart, textOf } from './words.ts';

/** Markdown. */
export interface Introduction {
  lead: string;
  /** How to begin. The page has steps of its own. */
  steps?: string;
  /** What a client can do. */
  actions?: string;
  general: string;
  requests: string;
  limits: string;
  errors: { text: string; rows: { status: number; code: ErrorCode; message: string }[] };
  numbers?: string;
}

/** `lowerCase`: a method that is none in lower case. */
const requestsOf = (service: string, lowerCase: string) =>
  [`methods of the ${service}`, 'requests', `preconditions of the ${service}`, 'origins']
    .map((title) => textOf(title, { lowerCase }))
    .join('\n\n');

/** All codes in the order of their table, except `forbidden`, which only the account pages send. */
const apiErrors = (Object.keys(errorMessages) as ErrorCode[]).filter((code) => code !== 'forbidden');

/** The errors of unknown paths and unsupported methods, which belong to no operation. */
const outsideErrors: ErrorCode[] = ['invalid_url', 'route_not_found', 'method_not_allowed'];

/** `exception`: the responses that have no body. */
const errorsWith = (codes: ErrorCode[], exception = ''): Introduction['errors'] => ({
  text: textOf('errors', { exception }),
  rows: codes.map((code) => ({ status: statuses[code], code, message: errorMessages[code] })),
});

const store: Introduction = {
  general: textOf('general'),
  requests: requestsOf('store', 'get'),
  limits: `${textOf('limits')}\n${textOf('limits of the store')}`,
  errors: errorsWith(apiErrors, textOf('exception of the store')),
  lead: textOf('lead of the store'),
  steps: textOf('steps'),
  actions: textOf('actions'),
  numbers: textOf('numbers'),
};

/** `codes`: those of its operations. */
const introduceQuickstart = (codes: ErrorCode[]): Introduction => ({
  lead: textOf('lead of the quickstart'),
  general: textOf('general'),
  requests: requestsOf('quickstart', 'post'),
  limits: textOf('limits'),
  errors: errorsWith(apiErrors.filter((code) => [...codes, ...outsideErrors].includes(code))),
});

/** The description of a document. */
export function toMarkdown({ lead, steps, actions, general, requests, limits, errors, numbers }: Introduction): string {
  const rows = errors.rows.map(({ status, code, message }) => `| ${status} | \`${code}\` | ${message} |`);
  const parts = [
    steps ? `${lead} ${steps}` : lead,
    actions,
    general,
    `## Requests\n\n${requests}`,
    `## Limits\n\n${limits}`,
    `## Errors\n\n${errors.text} The schema Error lists the codes for programs, in \`x-extensible-enum\`.`,
    ['| status | code | message |', '|---|---|---|', ...rows].join('\n'),
    numbers && `## Numbers\n\n${numbers}`,
  ];
  return parts.filter((part) => part !== undefined).join('\n\n');
}

export const documents = {
  'openapi.yaml': { prefix: '/v1', introduce: (_codes: ErrorCode[]) => store, headers },
  'openapi.quickstart.yaml': { prefix: '/quickstart', introduce: introduceQuickstart, headers: headersOfQuickstart },
};

export const bearerFormat = '^ast_(live|test)_[0-9A-Za-z]{36}$';

const list = new Intl.ListFormat('en-GB');

/** Where a key comes from, and its form and scopes: the description of the security scheme. The page has steps for the first. */
export function describeKeys(operations: { operationId: string; scope?: string | undefined }[]) {
  const sentences = [...Map.groupBy(operations, ({ scope }) => scope)]
    .sort(([scope], [other]) => Number(scope === undefined) - Number(other === undefined))
    .map(([scope, some]) => {
      const ids = list.format(some.map(({ operationId }) => operationId));
      if (scope !== undefined) return `\`${scope}\` is needed by ${ids}.`;
      return `${ids} ${some.length > 1 ? 'need' : 'needs'} no scope.`;
    });
  return { source: textOf('source'), form: `${textOf('form of a key')} ${sentences.join(' ')}` };
}
