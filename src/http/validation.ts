/** Validates each part of a request with TypeBox, and reports all violations of a part at once. Fastify's order: path, body, query, headers. */
import { Kind, type TObject, type TSchema, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { FastifySchemaCompiler } from 'fastify';
import fp from 'fastify-plugin';
import { ApiError, type ErrorCode } from '../core/errors.ts';
import { canonicalDecimal } from '../core/int64.ts';
import {
  checkOf,
  isObject,
  joinFaults,
  type Parameter,
  parameterOf,
  quoted,
  requirementOf,
  type Values,
} from '../core/schema.ts';
import { missing, notObject } from './body.ts';

type Validator = ReturnType<FastifySchemaCompiler<TObject>>;

const refuse = (code: ErrorCode, faults: readonly string[]): ReturnType<Validator> => ({
  error: new ApiError(code, `${joinFaults(faults)}.`),
});

/** An option of Fastify. Without it, Fastify loads Ajv and the compiler of fast-json-stringify, which no route uses: 75 ms and 3 MB. */
export const schemaController: object = {
  compilersFactory: { buildValidator: () => () => () => true, buildSerializer: () => () => JSON.stringify },
};

function bodyValidator(schema: TObject): Validator {
  const check = checkOf(schema);
  return (body) => {
    // Fastify has null for a body that is missing.
    if (!isObject(body)) return { error: body === null ? missing : notObject };
    const faults = check(body);
    return faults.length === 0 ? { value: body } : refuse('invalid_body', faults);
  };
}

const readInteger = (text: string) => (canonicalDecimal.test(text) ? Number(text) : text);

/** How a parameter is read. */
function readerOf(property: TSchema): Parameter {
  return parameterOf(property) ?? { read: property[Kind] === 'Integer' ? readInteger : (text) => text };
}

/** Parameters: converts each text to the value that its schema describes. Node has the names of headers in lower case. */
function textValidator(schema: TObject, part: string): Validator {
  const properties = Object.entries(schema.properties).map(([name, property]) => ({
    name,
    property,
    compiled: TypeCompiler.Compile(property),
    sent: part === 'headers' ? name.toLowerCase() : name,
    ...readerOf(property),
  }));
  return (given: Values) => {
    const faults: string[] = [];
    // A more specific code, such as invalid_cursor, is sent only if all violations have it.
    const codes = new Set<ErrorCode>();
    for (const { name, sent, property, compiled, read, code = 'invalid_parameter' } of properties) {
      const text = given[sent];
      const value = typeof text === 'string' ? read(text) : text;
      if (text === undefined) given[sent] = property.default;
      else if (!Array.isArray(text) && compiled.Check(value)) given[sent] = value;
      else {
        faults.push(
          Array.isArray(text) ? `${name} is given more than once` : `${name} must ${requirementOf(property)}`,
        );
        codes.add(Array.isArray(text) ? 'invalid_parameter' : code);
      }
    }
    if (part === 'querystring') {
      for (const name in given) {
        if (Object.hasOwn(schema.properties, name)) continue;
        faults.push(`${quoted(name)} is not a known query parameter`);
        codes.add('invalid_parameter');
      }
    }
    if (faults.length === 0) return { value: given };
    const [code = 'invalid_parameter', ...others] = codes;
    return refuse(others.length === 0 ? code : 'invalid_parameter', faults);
  };
}

const noQuery = Type.Object({});

/** Validates what a route has a schema for, and refuses the query of an operation that has none. */
export const validation = fp(async (app) => {
  app.setValidatorCompiler<TObject>(({ schema, httpPart = '' }) =>
    httpPart === 'body' ? bodyValidator(schema) : textValidator(schema, httpPart),
  );
  app.addHook('onRoute', (route) => {
    if (route.config?.operation) route.schema = { querystring: noQuery, ...route.schema };
  });
});
