/** How our schemas say, for people, what they demand. */
import { Kind, type TSchema, Type, TypeRegistry } from '@sinclair/typebox';

/** A symbol, so that it stays out of openapi.yaml. */
const must = Symbol('must');

/** The end of the sentence "<field> must …". */
export function demand(text: string): object {
  return { [must]: text };
}

export function demandOf(schema: TSchema): string {
  return (schema as unknown as Record<symbol, string>)[must] as string;
}

/** A schema of our own kind: `check` decides, `keywords` are what openapi.yaml says of it, `text` is its demand. */
export function kind<Value>(name: string, check: (value: unknown) => boolean, text: string, keywords: object) {
  TypeRegistry.Set(name, (_schema, value) => check(value));
  return Type.Unsafe<Value>({ [Kind]: name, ...demand(text), ...keywords });
}

/** SQLite would cut a text at NUL, PostgreSQL refuses it, and neither can hold a lone surrogate. */
export function isStorable(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0') && value.isWellFormed();
}

/** A name of the client's making, short enough to repeat, and well-formed, as every JSON text must be. */
export function shown(name: string): string {
  return JSON.stringify((name.length > 64 ? `${name.slice(0, 64)}…` : name).toWellFormed());
}
