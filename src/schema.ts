/** How our schemas say, for people, what they requirement. */
import { Kind, type TObject, type TSchema, Type, TypeRegistry } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { Value } from '@sinclair/typebox/value';

/** A symbol, so that it stays out of openapi.yaml. */
const must = Symbol('must');

/** The end of the sentence "<field> must …". */
export function requirement(text: string): object {
  return { [must]: text };
}

export function requirementOf(schema: TSchema): string {
  return (schema as unknown as Record<symbol, string>)[must] as string;
}

/** A schema of our own kind: `check` decides, `keywords` are what openapi.yaml says of it, `text` is its requirement. */
export function kind<Value>(name: string, check: (value: unknown) => boolean, text: string, keywords: object) {
  TypeRegistry.Set(name, (_schema, value) => check(value));
  return Type.Unsafe<Value>({ [Kind]: name, ...requirement(text), ...keywords });
}

/** SQLite would cut a text at NUL, PostgreSQL refuses it, and neither can hold a lone surrogate. */
export function isStorable(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0') && value.isWellFormed();
}

/** A name of the client's making, short enough to repeat, and well-formed, as every JSON text must be. */
export function quoted(given: string): string {
  // An API key in the wrong place: errors are logged and passed on, and keys must not be.
  const name = given.replace(/ast_(live|test)_\w+/g, 'ast_$1_…');
  return JSON.stringify((name.length > 64 ? `${name.slice(0, 64)}…` : name).toWellFormed());
}

export type Values = Record<string, unknown>;

export function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * A check of objects against `schema`, wherever they come from: it returns a text for every fault, those of known fields first. Where
 * there is none it adds the defaults of what is missing.
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
    } else if (!Value.Check(property, values[name])) texts.push(`${name} must ${requirementOf(property)}`);
  }
  for (const name of Object.keys(values)) {
    if (!Object.hasOwn(schema.properties, name)) texts.push(`${quoted(name)} is not a known field`);
  }
  return texts;
}

/** So many faults are named; a body may hold thousands. */
const maxNamed = 20;

/** One sentence from all of them, without its full stop. */
export function joinFaults(texts: readonly string[]): string {
  const named = texts.slice(0, maxNamed);
  if (texts.length > maxNamed) named.push(`and ${texts.length - maxNamed} more`);
  return named.join('; ');
}
