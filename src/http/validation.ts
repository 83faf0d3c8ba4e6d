/** Checks each request against its route's schemas, and names every violation at once. */
import { Kind, type TObject, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { Value } from '@sinclair/typebox/value';
import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import { type ErrorCode, Failure } from '../errors.ts';
import { canonicalDecimal } from '../int64.ts';
import { demandOf, shown } from '../schema.ts';
import { readCursor } from './paging.ts';

interface Violation {
  code: ErrorCode;
  text: string;
}

type Values = Record<string, unknown>;
type Part = (request: FastifyRequest, violations: Violation[]) => void;

/** So many violations are named, those of fields that we know first; a body may hold thousands of others. */
const maxNamed = 20;

/** Replaces Fastify's own validation for every route that is an operation. */
export function installValidation(app: FastifyInstance): void {
  app.setValidatorCompiler(() => () => true);
  app.addHook('onRoute', (route) => {
    if (!route.config?.operation) return;
    const parts = compile(route.schema ?? {});
    route.preValidation = (request, _reply, done) => {
      const violations: Violation[] = [];
      for (const part of parts) part(request, violations);
      done(violations.length === 0 ? undefined : toFailure(violations));
    };
  });
}

function toFailure(violations: Violation[]): Failure {
  const [{ code }] = violations as [Violation];
  const named = violations.slice(0, maxNamed).map(({ text }) => text);
  if (violations.length > maxNamed) named.push(`and ${violations.length - maxNamed} more`);
  // A cursor is named by its own code only where nothing else is wrong.
  const only = violations.every((violation) => violation.code === code);
  return new Failure(only ? code : 'invalid_parameter', `${named.join('; ')}.`);
}

function compile({ params, querystring, headers, body }: FastifySchema): Part[] {
  const parts: Part[] = [];
  if (params) parts.push(textPart(params as TObject, 'parameter', (request) => request.params as Values));
  parts.push(
    textPart((querystring ?? Type.Object({})) as TObject, 'query parameter', (request) => request.query as Values),
  );
  if (headers) parts.push(headerPart(headers as TObject));
  if (body) parts.push(bodyPart(body as TObject));
  return parts;
}

/** Path and query: texts, which become the values that their schemas describe. */
function textPart(schema: TObject, what: string, values: (request: FastifyRequest) => Values): Part {
  const properties = Object.entries(schema.properties);
  return (request, violations) => {
    const given = values(request);
    for (const [name, property] of properties) {
      const text = given[name];
      if (text === undefined) {
        if (property.default !== undefined) given[name] = property.default;
      } else if (Array.isArray(text)) violations.push(invalid(`${name} is given more than once`));
      else {
        const value = read(property[Kind], text as string);
        if (Value.Check(property, value)) given[name] = value;
        else
          violations.push({
            code: property[Kind] === 'Cursor' ? 'invalid_cursor' : 'invalid_parameter',
            text: `${name} must ${demandOf(property)}`,
          });
      }
    }
    for (const name of Object.keys(given)) {
      if (!Object.hasOwn(schema.properties, name)) violations.push(invalid(`${shown(name)} is not a known ${what}`));
    }
  };
}

/** The value that a text of a path or query stands for; the text itself where it stands for none. */
function read(kind: string, text: string): unknown {
  if (kind === 'Cursor') return readCursor(text) ?? text;
  if (!canonicalDecimal.test(text)) return text;
  if (kind === 'Integer') return Number(text);
  // Longer ones are out of range, and BigInt's time grows with the square of the length.
  return kind === 'Int64' && text.length <= 20 ? BigInt(text) : text;
}

function headerPart(schema: TObject): Part {
  return (request, violations) => {
    for (const [name, property] of Object.entries(schema.properties)) {
      const value = request.headers[name.toLowerCase()];
      if (value !== undefined && !Value.Check(property, value))
        violations.push(invalid(`${name} must ${demandOf(property)}`));
    }
  };
}

function bodyPart(schema: TObject): Part {
  const compiled = TypeCompiler.Compile(schema);
  const defaults = Object.entries(schema.properties).filter(([, { default: value }]) => value !== undefined);
  return (request, violations) => {
    const body = request.body as Values;
    if (!compiled.Check(body)) {
      for (const text of bodyViolations(schema, body)) violations.push({ code: 'invalid_body', text });
      return;
    }
    for (const [name, property] of defaults) body[name] ??= property.default;
  };
}

function bodyViolations(schema: TObject, body: unknown): string[] {
  if (body === undefined) return ['The body is missing'];
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return ['The body must be a JSON object'];
  const values = body as Values;
  const texts: string[] = [];
  for (const [name, property] of Object.entries(schema.properties)) {
    if (!Object.hasOwn(values, name)) {
      if (schema.required?.includes(name)) texts.push(`${name} is required`);
    } else if (!Value.Check(property, values[name])) texts.push(`${name} must ${demandOf(property)}`);
  }
  for (const name of Object.keys(values)) {
    if (!Object.hasOwn(schema.properties, name)) texts.push(`${shown(name)} is not a known field`);
  }
  return texts;
}

function invalid(text: string): Violation {
  return { code: 'invalid_parameter', text };
}
