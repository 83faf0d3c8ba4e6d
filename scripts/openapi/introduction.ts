/** What a document and its reference page say before the operations. */
import { type ErrorCode, errorTable } from '../../src/core/errors.ts';
import { textOf } from './words.ts';

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
}

/** All codes in the order of their table, except `forbidden`, which only the account pages send. */
const apiErrors = (Object.keys(errorTable) as ErrorCode[]).filter((code) => code !== 'forbidden');

/** The errors of unknown paths and unsupported methods, which belong to no operation. */
const outsideErrors: ErrorCode[] = ['invalid_url', 'route_not_found', 'method_not_allowed'];

/** `exception`: the responses that have no body. */
const errorsWith = (codes: ErrorCode[], exception = ''): Introduction['errors'] => ({
  text: textOf('errors', { exception }),
  rows: codes.map((code) => ({ status: errorTable[code][0], code, message: errorTable[code][1] })),
});

const store: Introduction = {
  lead: textOf('lead of the store'),
  steps: textOf('steps'),
  actions: textOf('actions'),
  general: `${textOf('general')} ${textOf('numbers')}`,
  requests: `${textOf('methods of the store')} ${textOf('requests')}`,
  limits: textOf('limits'),
  errors: errorsWith(apiErrors, textOf('exception of the store')),
};

/** `codes`: those of its operations. */
const introduceQuickstart = (codes: ErrorCode[]): Introduction => ({
  lead: textOf('lead of the quickstart'),
  general: textOf('general'),
  requests: `${textOf('methods of the quickstart')} ${textOf('requests')}`,
  limits: textOf('limits'),
  errors: errorsWith(apiErrors.filter((code) => [...codes, ...outsideErrors].includes(code))),
});

/** The description of a document: 25 lines at most. The codes are in its schema Error, and each response has their messages. */
export function toMarkdown({ lead, steps, actions, general, requests, limits, errors }: Introduction): string {
  const parts = [steps ? `${lead} ${steps}` : lead, actions, general, requests, limits, errors.text];
  return parts.filter((part) => part !== undefined).join('\n\n');
}

export const documents = {
  'openapi.yaml': { prefix: '/v1', introduce: (_codes: ErrorCode[]) => store },
  'openapi.quickstart.yaml': { prefix: '/quickstart', introduce: introduceQuickstart },
};

export const bearerFormat = '^ast_(live|test)_[0-9A-Za-z]{36}$';

/** Where a key comes from, and its form and scopes: the description of the security scheme. The page has steps for the first. */
export const keys = { source: textOf('source'), form: textOf('form of a key') };
