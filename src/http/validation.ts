/** Validates each request against the schemas of its route, and reports all violations at once. */
import { Kind, type TObject, type TSchema, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { FastifyInstance, FastifyRequest } from 'fastify';
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

interface Violation {
  /** Undefined: invalid_parameter. */
  code?: ErrorCode | undefined;
  text: string;
}

type Part = (request: FastifyRequest, violations: Violation[]) => void;

/**
 * An option of Fastify: requests are validated here, and no route has a schema of its responses. Otherwise Fastify would load Ajv and the compiler of
 * fast-json-stringify, in 75 ms and 3 MB.
 */
export const schemaController: object = {
  compilersFactory: { buildValidator: () => () => () => true, buildSerializer: () => () => JSON.stringify },
};

/** Validates the requests of every route that is an operation. */
export function installValidation(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (!route.config?.operation) return;
    const parts = compile((route.schema ?? {}) as OperationSchema);
    route.preValidation = (request, _reply, done) => {
      const violations: Violation[] = [];
      for (const part of parts) part(request, violations);
      done(violations.length === 0 ? undefined : errorOf(violations));
    };
  });
}

function errorOf(violations: Violation[]): ApiError {
  const [code = 'invalid_parameter', ...others] = new Set(violations.map((violation) => violation.code));
  const sentence = `${joinFaults(violations.map(({ text }) => text))}.`;
  // A more specific code, such as invalid_cursor, is sent only if all violations have it.
  return new ApiError(others.length === 0 ? code : 'invalid_parameter', sentence);
}

/** The schemas of an operation, which Fastify's type calls unknown. */
interface OperationSchema {
  params?: TObject;
  querystring?: TObject;
  headers?: TObject;
  body?: TObject;
}

const none = Type.Object({});

function compile({ params = none, querystring = none, headers = none, body }: OperationSchema): Part[] {
  const parts = [textPart('params', params), textPart('query', querystring), textPart('headers', headers)];
  return body ? [...parts, bodyPart(body)] : parts;
}

/** Parameters: converts each text to the value that its schema describes. Node has the names of headers in lower case. */
function textPart(where: 'params' | 'query' | 'headers', schema: TObject): Part {
  const properties = Object.entries(schema.properties).map(([name, property]) => ({
    ...{ name, property, compiled: TypeCompiler.Compile(property) },
    sent: where === 'headers' ? name.toLowerCase() : name,
    ...readerOf(property),
  }));
  return (request, violations) => {
    const given = request[where] as Values;
    for (const { name, sent, property, compiled, read, code } of properties) {
      const text = given[sent];
      if (text === undefined) given[sent] = property.default;
      else if (Array.isArray(text)) violations.push({ text: `${name} is given more than once` });
      else {
        const value = read(text as string);
        if (compiled.Check(value)) given[sent] = value;
        else violations.push({ code, text: `${name} must ${requirementOf(property)}` });
      }
    }
    // Those of the path are always known: the route defines them.
    if (where !== 'query') return;
    for (const name in given) {
      if (!Object.hasOwn(schema.properties, name))
        violations.push({ text: `${quoted(name)} is not a known query parameter` });
    }
  };
}

const readInteger = (text: string) => (canonicalDecimal.test(text) ? Number(text) : text);

/** How a parameter is read. */
function readerOf(property: TSchema): Parameter {
  return parameterOf(property) ?? { read: property[Kind] === 'Integer' ? readInteger : (text) => text };
}

function bodyPart(schema: TObject): Part {
  const check = checkOf(schema);
  return ({ body }, violations) => {
    const absent = body === undefined ? 'the body is missing' : 'the body must be a JSON object';
    for (const text of isObject(body) ? check(body) : [absent]) violations.push({ code: 'invalid_body', text });
  };
}
