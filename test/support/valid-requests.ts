/** Generates valid requests from the parameters, bodies and schemas of an OpenAPI document. */
import fc from 'fast-check';
import { documentNames, prefixes, readDocument } from './described.ts';

interface Schema {
  type?: string;
  format?: string;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
}

interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  schema: Schema;
}

/** A request of an operation, and the operation. */
export interface Sent {
  operation: Operation;
  target: string;
  headers: Record<string, string>;
  body: string | undefined;
}

type Node = Record<string, unknown>;

/** A copy of `node` with each `$ref` replaced by its target. */
function resolved(document: Node, node: unknown): unknown {
  if (Array.isArray(node)) return node.map((item) => resolved(document, item));
  if (typeof node !== 'object' || node === null) return node;
  const { $ref, ...rest } = node as Node;
  const own = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, resolved(document, value)]));
  if (typeof $ref !== 'string') return own;
  const target = $ref.split('/').slice(1);
  const found = target.reduce((from: unknown, name) => (from as Node)[name], document);
  return { ...(resolved(document, found) as Node), ...own };
}

/** Each operation of both documents, which has this type there, with its references replaced, and its path on the server. */
export const describedOperations = <Type>() =>
  documentNames.flatMap((name) => {
    const document = { ...readDocument(name) };
    const paths = resolved(document, document.paths) as Record<string, Record<string, Type>>;
    return Object.entries(paths).flatMap(([path, operations]) => {
      const methods = Object.keys(operations).map((method) => method.toUpperCase());
      return Object.values(operations).map((operation, at) => {
        return { ...operation, method: methods[at] as string, path: prefixes[name] + path, methods };
      });
    });
  });

interface Described {
  operationId: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Node;
}

/** The operations of both documents. `path`: with the base path of the server; `methods`: all those of the path. */
export const readAllOperations = () => describedOperations<Described>();
export type Operation = ReturnType<typeof readAllOperations>[number];

/** Strings that match the schema, from all of Unicode if it allows that. */
function stringsOf({ minLength = 0, maxLength = 200, pattern = '' }: Schema): fc.Arbitrary<string> {
  const matches = new RegExp(pattern, 'u');
  if (!matches.test(' é\u{1f408}\n')) {
    return fc.stringMatching(matches).filter((text) => text.length >= minLength && text.length <= maxLength);
  }
  // Lengths are in code points.
  const longest = fc.constantFrom('x', '\u{1f408}').map((character) => character.repeat(maxLength));
  return fc
    .oneof({ arbitrary: fc.string({ unit: 'binary', minLength, maxLength }), weight: 9 }, longest)
    .filter((text) => matches.test(text));
}

function valuesOf(schema: Schema): fc.Arbitrary<string | bigint> {
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.type === 'string') return stringsOf(schema);
  if (schema.type !== 'integer') throw new Error(`no values are known for type ${schema.type}`);
  const range = { min: BigInt(schema.minimum ?? -(2n ** 63n)), max: BigInt(schema.maximum ?? 2n ** 63n - 1n) };
  return fc.oneof(fc.constantFrom(range.min, range.max), fc.bigInt(range));
}

/** The schema's values as JSON. */
function jsonOf(schema: Schema): fc.Arbitrary<string> {
  return valuesOf(schema).map((value) => (typeof value === 'string' ? JSON.stringify(value) : String(value)));
}

/** Parameter → values that only the server knows, for example cursors. */
export type Known = Record<string, fc.Arbitrary<string>>;

function textsOf({ name, in: place, schema }: Parameter, known: Known): fc.Arbitrary<string> {
  const texts = known[name] ?? valuesOf(schema).map(String);
  return place === 'header' ? texts : texts.map(encodeURIComponent);
}

const maybe = (required: boolean, texts: fc.Arbitrary<string>) =>
  required ? texts : fc.option(texts, { nil: undefined });

/** Valid requests of an operation. */
export function requestsOf(operation: Operation, known: Known): fc.Arbitrary<Sent> {
  const { parameters = [], requestBody, path } = operation;
  const body = requestBody?.content['application/json']?.schema;
  const texts = parameters.map((parameter) =>
    maybe(parameter.required, textsOf(parameter, known)).map((text) => ({ parameter, text })),
  );
  const fields = Object.entries(body?.properties ?? {}).map(([name, schema]) =>
    maybe(body?.required?.includes(name) ?? false, jsonOf(schema)).map(
      (json) => json && `${JSON.stringify(name)}:${json}`,
    ),
  );
  const inAnyOrder = <Item>(items: fc.Arbitrary<Item>[]) =>
    fc.tuple(...items).chain((all) => fc.shuffledSubarray(all, { minLength: all.length }));
  return fc.tuple(inAnyOrder(texts), inAnyOrder(fields)).map(([given, members]) => {
    const headers: Sent['headers'] = body ? { 'content-type': 'application/json' } : {};
    const query: string[] = [];
    let target = path;
    for (const { parameter, text } of given) {
      if (text === undefined) continue;
      if (parameter.in === 'path') target = target.replace(`{${parameter.name}}`, text);
      else if (parameter.in === 'query') query.push(`${parameter.name}=${text}`);
      else headers[parameter.name.toLowerCase()] = text;
    }
    if (query.length > 0) target += `?${query.join('&')}`;
    return { operation, target, headers, body: body && `{${members.filter(Boolean).join()}}` };
  });
}
