/** Schemas with human-readable requirements, and the error messages made from them. */
import { Kind, type TObject, type TSchema, Type, TypeRegistry } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { Value } from '@sinclair/typebox/value';
import type { ErrorCode } from './errors.ts';

/** A symbol key keeps the text out of openapi.yaml. */
const must = Symbol('must');

/** Attaches the text that completes the sentence "<field> must …". */
export function requirement(text: string): object {
  return { [must]: text };
}

export function requirementOf(schema: TSchema): string {
  return Reflect.get(schema, must);
}

const parameter = Symbol('parameter');

/** How a parameter of a custom schema is read: of the path, the query or a header. */
export interface Parameter {
  /** The value of a text; the text itself if it has none. */
  read: (text: string) => unknown;
  /** The error code, if a parameter with a fault has one of its own. */
  code?: ErrorCode;
}

/**
 * A custom TypeBox schema: `check` validates, `keywords` appear in openapi.yaml, `text` completes "<field> must …". Without `given`, the value
 * of a parameter is its text.
 */
export function kind<Value>(
  name: string,
  check: (value: unknown) => boolean,
  text: string,
  keywords: object,
  given?: Parameter,
) {
  TypeRegistry.Set(name, (_schema, value) => check(value));
  return Type.Unsafe<Value>({ [Kind]: name, ...requirement(text), ...(given && { [parameter]: given }), ...keywords });
}

/** Undefined if the schema is not a custom one, or its values are texts. */
export function parameterOf(schema: TSchema): Parameter | undefined {
  return Reflect.get(schema, parameter);
}

/** SQLite would cut text at NUL, PostgreSQL rejects NUL, and neither can store a lone surrogate. */
export function isStorable(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0') && value.isWellFormed();
}

/** UTF-16 code units that NFC can join into one character: U+16126 is three pairs. */
const unitsPerCharacter = 6;

/**
 * Text in NFC if that can have at most `maxCharacters`. Longer text is returned unchanged: to sort combining marks takes time that grows with
 * the square of their number.
 */
export function toNfc(text: string, maxCharacters: number): string {
  return text.length > unitsPerCharacter * maxCharacters ? text : text.normalize('NFC');
}

/** Quotes a client's text for an error message: shortened to 64 characters, and well-formed Unicode, as JSON requires. */
export function quoted(given: string): string {
  // The text may be a misplaced API key, which must not appear in logs and error messages.
  const name = given.replace(/ast_(live|test)_\w+/g, 'ast_$1_…');
  return JSON.stringify((name.length > 64 ? `${name.slice(0, 64)}…` : name).toWellFormed());
}

export type Values = Record<string, unknown>;

export function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Compiles a check of objects against `schema`. The check returns one text per fault, known fields first. If there are no faults, it adds
 * the defaults of missing fields to the object.
 */
export function checkOf(schema: TObject): (values: Values) => string[] {
  const compiled = TypeCompiler.Compile(schema);
  const defaults = Object.entries(schema.properties).filter(([, { default: value }]) => value !== undefined);
  return (values) => {
    if (!compiled.Check(values)) return faultsOf(schema, values);
    for (const [name, property] of defaults) values[name] ??= property.default;
    return [];
  };
}

function faultsOf(schema: TObject, values: Values): string[] {
  const texts: string[] = [];
  for (const [name, property] of Object.entries(schema.properties)) {
    if (!Object.hasOwn(values, name)) {
      if (schema.required?.includes(name)) texts.push(`${name} is required`);
    } else if (!Value.Check(property, values[name])) {
      texts.push(`${name} must ${requirementOf(property)}`);
    }
  }
  for (const name of Object.keys(values)) {
    // The text of a fault that no message names is not needed: a body may have thousands.
    if (!Object.hasOwn(schema.properties, name))
      texts.push(texts.length < maxNamed ? `${quoted(name)} is not a known field` : '');
  }
  return texts;
}

/** Faults named in a message. */
const maxNamed = 20;

/** Joins fault texts into one sentence without a full stop. */
export function joinFaults(texts: readonly string[]): string {
  const named = texts.slice(0, maxNamed);
  if (texts.length > maxNamed) named.push(`and ${texts.length - maxNamed} more`);
  // Only a fault that does not begin with a name begins with an article.
  return named.join('; ').replace(/^the /, 'The ');
}
