/** HTML forms: how they are parsed, and how their fields are checked. */
import { type Static, type TObject, Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { isName, maxNameCharacters } from '../core/accounts.ts';
import { ApiError, type ErrorCode } from '../core/errors.ts';
import { checkOf, isObject, isStorable, joinFaults, kind, requirement, toNfc, type Values } from '../core/schema.ts';
import { addParser } from '../http/body.ts';
import type { App } from '../http/operation.ts';
import { passwordFault } from './password-rules.ts';

const notValid = 'The form is not valid.';

/**
 * Parses application/x-www-form-urlencoded (URL Standard, section 5.1). A field that is sent several times has a list of values. Returns text,
 * which formReader refuses, if one is not storable text, or if its percent-encoding is not UTF-8.
 */
function parse(text: string): Record<string, string | string[]> | string {
  const fields: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    // The decoder replaces what is not UTF-8 by U+FFFD.
    if (!isStorable(value) || /\uFFFD/.test(name + value)) return notValid;
    const before = fields[name];
    if (Array.isArray(before)) before.push(value);
    else fields[name] = before === undefined ? value : [before, value];
  }
  return fields;
}

export const installForms = (app: App) => addParser(app, (bytes) => parse(bytes.toString()));

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
 * Returns a function that reads a form. It throws FormError, which names each invalid field, or ApiError `invalid_body` if it is no form. If the
 * field `password` is a new password, it must be one that is accepted for the account `name`, by default the field `name`.
 */
export function formReader<Schema extends TObject>(
  schema: Schema,
  { newPassword = false } = {},
): (request: FastifyRequest, name?: string) => Static<Schema> {
  const check = checkOf({ ...schema, additionalProperties: false });
  return ({ body }, name) => {
    if (!isObject(body)) throw new ApiError('invalid_body', notValid);
    const fields: Values = { ...body };
    for (const [field, { type }] of Object.entries(schema.properties)) {
      // A browser sends one ticked box as a single value, and no field if none is ticked.
      if (type === 'array') fields[field] = [fields[field] ?? []].flat();
      else if (field === 'name' && typeof fields[field] === 'string')
        fields[field] = toNfc(fields[field].trim(), maxNameCharacters);
    }
    const faults = faultsOf(schema, check(fields));
    const { password } = fields;
    const fault = newPassword && typeof password === 'string' && passwordFault(password, name ?? String(fields.name));
    if (fault) faults.push({ field: 'password', text: `The password ${fault}.` });
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

/** Any text: `newPassword` of formReader checks a new password, and all others are right or wrong. */
export const Password = Type.String({ ...requirement('be given once') });
