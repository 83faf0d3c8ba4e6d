/** HTML forms: where they may come from, how they are parsed, and how their fields are checked. */
import formbody from '@fastify/formbody';
import type { Static, TObject } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isName, maxNameCharacters } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { checkOf, isObject, isStorable, joinFaults, kind, toNfc, type Values } from '../core/schema.ts';
import type { Exchanges } from '../http/exchange.ts';
import { refuseOtherMethods } from '../http/methods.ts';
import type { App } from '../http/operation.ts';
import { commonFault, passwordFault } from './password-rules.ts';
import type { Hasher } from './passwords.ts';

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

export async function installForms(app: App): Promise<void> {
  await app.register(formbody, { parser: (text) => parse(text) as Fields, bodyLimit: limits.formBytes });
}

/** Returns a function that reads a form. It throws ApiError `invalid_body`, whose message names each invalid field. */
export function formReader<Schema extends TObject>(schema: Schema): (request: FastifyRequest) => Static<Schema> {
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
    const faults = check(fields);
    if (faults.length > 0) throw new ApiError('invalid_body', `${joinFaults(faults)}.`);
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

function refuse(fault: string | undefined): void {
  if (fault !== undefined) throw new ApiError('invalid_body', `The password ${fault}.`);
}

/** Throws ApiError `invalid_body` if a new password is refused at once. */
export function checkNewPassword(password: string, name: string): void {
  refuse(passwordFault(password, name));
}

/** Rejects with ApiError `invalid_body` if a new password is too common. This costs as much as the hash, so both need the same turn. */
export async function hashNew({ hash }: Hasher, password: string, name: string): Promise<string> {
  refuse(await commonFault(password, name));
  return hash(password);
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
    /** Shows the page again, with the message of the error that its form caused. */
    showAgain?: (request: FastifyRequest, reply: FastifyReply, error: string) => Promise<FastifyReply>;
  }
}

/** Shows a page. `error`: what was wrong with the form that the request sent. */
export type Show = (
  request: FastifyRequest,
  reply: FastifyReply,
  error?: string,
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
}

/** Adds GET at `url`. */
export function pageRoute(app: App, url: string, { exchanges, show }: Pick<FormRoute, 'exchanges' | 'show'>): void {
  app.get(url, (request, reply) => exchanges.work(request.exchange, () => show(request, reply)));
  refuseOtherMethods(app);
}

/** Adds GET and POST at `url`. */
export function formRoute(app: App, url: string, { exchanges, show, get = show, post }: FormRoute): void {
  const showAgain = async (request: FastifyRequest, reply: FastifyReply, error: string) => show(request, reply, error);
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
