/** HTML forms: where they may come from, how they are parsed, how their fields are checked, and what is shown at a field that is refused. */
import formbody from '@fastify/formbody';
import { type Static, type TObject, Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isName, maxNameCharacters } from '../core/accounts.ts';
import { ApiError, type ErrorCode } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { checkOf, isObject, isStorable, joinFaults, kind, toNfc, type Values } from '../core/schema.ts';
import type { Exchanges } from '../http/exchange.ts';
import { refuseOtherMethods } from '../http/methods.ts';
import type { App } from '../http/operation.ts';
import { passwordFault } from './password-rules.ts';

/** The values of a field that is sent once, or of one that is sent several times. */
type Fields = Record<string, string | string[]>;

const notValid = 'The form is not valid.';

/**
 * Parses application/x-www-form-urlencoded (URL Standard, section 5.1). Returns a sentence if there are too many fields, if one is not storable
 * text, or if its percent-encoding is not UTF-8. It must not throw: the plugin would not catch the error.
 */
function parse(text: string): Fields | string {
  // Stops at the first field that is too many.
  if (text.split('&', limits.formFields + 1).length > limits.formFields)
    return `The form has more than ${limits.formFields} fields.`;
  const fields: Fields = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    // The decoder replaces what is not UTF-8 by U+FFFD.
    if (!isStorable(value) || /\uFFFD/.test(name + value)) return notValid;
    const before = fields[name];
    if (Array.isArray(before)) before.push(value);
    else fields[name] = before === undefined ? value : [before, value];
  }
  return fields;
}

export interface Fault {
  /** Undefined: no field of the form is at fault. */
  field?: string | undefined;
  /** A sentence. */
  text: string;
}

/** A form that is refused because of what some of its fields contain. */
export class FormError extends ApiError {
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[], code: ErrorCode = 'invalid_body') {
    super(code, faults.map(({ text }) => text).join(' '));
    this.faults = faults;
  }
}

/** What a page shows of a refused form. */
export interface Refusal {
  /** Each sentence, and the id of the control that it links to. */
  summary: { text: string; at?: string | undefined }[];
  /** The sentence at each refused control, by the control's id. */
  faults: Record<string, string>;
}

/** `idOf` returns the id of the control of a field. */
export function refusalOf(error: ApiError, idOf = (field: string): string => field): Refusal {
  if (!(error instanceof FormError)) return { summary: [{ text: error.message }], faults: {} };
  const summary = error.faults.map(({ field, text }) => ({ text, at: field && idOf(field) }));
  return {
    summary,
    faults: Object.fromEntries(summary.flatMap(({ text, at }) => (at === undefined ? [] : [[at, text]]))),
  };
}

export async function installForms(app: App): Promise<void> {
  await app.register(formbody, { parser: (text) => parse(text) as Fields, bodyLimit: limits.formBytes });
}

/** The faults of fields that the form has, each by itself, and those of other fields in one sentence. */
function faultsOf({ properties }: TObject, texts: readonly string[]): Fault[] {
  const faults: Fault[] = [];
  const others: string[] = [];
  for (const text of texts) {
    const [field = ''] = text.split(' ', 1);
    // With a capital, as its label has.
    if (Object.hasOwn(properties, field)) faults.push({ field, text: `${field[0]?.toUpperCase()}${text.slice(1)}.` });
    else others.push(text);
  }
  return others.length > 0 ? [...faults, { text: `${joinFaults(others)}.` }] : faults;
}

/**
 * Returns a function that reads a form. It throws FormError, which names each invalid field and has what `moreFaults` finds, or ApiError
 * `invalid_body` if it is no form.
 */
export function formReader<Schema extends TObject>(
  schema: Schema,
  moreFaults: (fields: Values) => Fault[] = () => [],
): (request: FastifyRequest) => Static<Schema> {
  const check = checkOf({ ...schema, additionalProperties: false });
  return ({ body }) => {
    if (!isObject(body)) throw new ApiError('invalid_body', typeof body === 'string' ? body : notValid);
    const fields: Values = { ...body };
    for (const [name, { type }] of Object.entries(schema.properties)) {
      // A browser sends one ticked box as a single value, and no field if none is ticked.
      if (type === 'array') fields[name] = [fields[name] ?? []].flat();
      else if (name === 'name' && typeof fields[name] === 'string')
        fields[name] = toNfc(fields[name].trim(), maxNameCharacters);
    }
    const faults = [...faultsOf(schema, check(fields)), ...moreFaults(fields)];
    if (faults.length > 0) throw new FormError(faults);
    return fields as Static<Schema>;
  };
}

export const Name = kind<string>(
  'Name',
  (value) => typeof value === 'string' && isName(value),
  'have 1 to 100 printable characters',
  { type: 'string' },
);

/** Any text: checkNewPassword checks a new password, and all others are right or wrong. */
export const Password = kind<string>('Password', (value) => typeof value === 'string', 'be given once', {
  type: 'string',
});

const faultOf = (text: string | undefined): Fault[] =>
  text === undefined ? [] : [{ field: 'password', text: `The password ${text}.` }];

function refuse(faults: Fault[]): void {
  if (faults.length > 0) throw new FormError(faults);
}

/** Reads the name and the password of a new account. Throws FormError with the faults of both. */
export const readNewPerson = formReader(Type.Object({ name: Name, password: Password }), ({ name, password }) =>
  typeof password === 'string' ? faultOf(passwordFault(password, String(name))) : [],
);

/** Throws FormError if a new password is refused at once. */
export function checkNewPassword(password: string, name: string): void {
  refuse(faultOf(passwordFault(password, name)));
}

/**
 * Rejects forms of other sites (cross-site request forgery). Browsers send Sec-Fetch-Site to https addresses and to this machine (Fetch
 * Metadata, section 2.2). Otherwise Origin must be `origin`.
 */
export function isSameOrigin({ headers }: FastifyRequest, origin: string): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined ? headers.origin === origin : site === 'same-origin';
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Shows the page again, with the error that its form caused. */
    showAgain?: (request: FastifyRequest, reply: FastifyReply, error: ApiError) => Promise<FastifyReply>;
  }
}

/** Shows a page. `refusal`: what was wrong with the form that the request sent. */
export type Show = (
  request: FastifyRequest,
  reply: FastifyReply,
  refusal?: Refusal,
) => FastifyReply | Promise<FastifyReply>;

/** Does what a form asks for. An ApiError that it throws is shown on the page of the form. */
export type Act = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

interface FormRoute {
  exchanges: Exchanges;
  /** The response to GET. Default: the same as `show`. */
  get?: Show;
  /** Shows the page of the form. */
  show: Show;
  post: Act;
  /** The id of the control of a field. Default: the name of the field. */
  idOf?: (request: FastifyRequest, field: string) => string;
}

/** Adds GET at `url`. */
export function pageRoute(app: App, url: string, { exchanges, show }: Pick<FormRoute, 'exchanges' | 'show'>): void {
  app.get(url, (request, reply) => exchanges.work(request.exchange, () => show(request, reply)));
  refuseOtherMethods(app);
}

/** Adds GET and POST at `url`. */
export function formRoute(app: App, url: string, { exchanges, show, get = show, post, idOf }: FormRoute): void {
  const showAgain = async (request: FastifyRequest, reply: FastifyReply, error: ApiError) =>
    show(request, reply, refusalOf(error, idOf && ((field) => idOf(request, field))));
  app.get(url, (request, reply) => exchanges.work(request.exchange, () => get(request, reply)));
  app.post(url, { bodyLimit: limits.formBytes, config: { form: true, showAgain } }, (request, reply) =>
    exchanges.work(request.exchange, () => post(request, reply)),
  );
  refuseOtherMethods(app);
}

/** What the person typed into the field `name`, to show it again. Passwords are never shown again. */
export function typedName({ body }: FastifyRequest): string | undefined {
  const name = (body as Fields | undefined)?.name;
  return typeof name === 'string' ? name : undefined;
}

/** The notice that the query names. No text of the query is shown. */
export function noticeOf({ query }: FastifyRequest, texts: Record<string, string>): string | undefined {
  const { done } = query as { done?: unknown };
  return typeof done === 'string' && Object.hasOwn(texts, done) ? texts[done] : undefined;
}
