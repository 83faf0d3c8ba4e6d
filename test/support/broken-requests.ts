/** Generates requests that break exactly one rule of an OpenAPI document and are otherwise valid. */
import fc from 'fast-check';
import {
  type Draft,
  draftsOf,
  type Known,
  type Operation,
  type Parameter,
  rangeOf,
  type Schema,
  valuesOf,
} from './valid-requests.ts';

/** Generates requests that break one rule, which the server must refuse with `status`. */
export interface Rule {
  name: string;
  status: number;
  drafts: fc.Arbitrary<Draft>;
}

/** `changes`: functions that break the rule in a valid request. */
type Break = [name: string, status: number, changes: fc.Arbitrary<(draft: Draft) => Draft>];

const one = fc.constantFrom;

/** The draft with these texts for a parameter of its query or path, or with this header. */
function withTexts(draft: Draft, { name, in: place }: Pick<Parameter, 'name' | 'in'>, ...texts: string[]): Draft {
  if (place === 'header') return { ...draft, headers: { ...draft.headers, [name.toLowerCase()]: texts } };
  const encoded = texts.map(encodeURIComponent);
  if (place === 'path') return { ...draft, parameters: { ...draft.parameters, [name]: encoded[0] as string } };
  const others = draft.query.filter(([other]) => other !== name);
  return { ...draft, query: [...others, ...encoded.map((text): [string, string] => [name, text])] };
}

function withField(draft: Draft, name: string, ...jsons: string[]): Draft {
  const others = draft.fields.filter(([other]) => other !== name);
  return { ...draft, fields: [...others, ...jsons.map((json): [string, string] => [name, json])] };
}

const header = (name: string, values: fc.Arbitrary<readonly string[]>): Break[2] =>
  values.map((texts) => (draft) => withTexts(draft, { name, in: 'header' }, ...texts));

/** Texts that break the schema; none if it allows every string. */
function badTexts(schema: Schema): fc.Arbitrary<string>[] {
  const { enum: values, minLength = 0, maxLength } = schema;
  if (values) return [one('', ...values.flatMap((value) => [value.toUpperCase(), `${value} `]))];
  if (schema.type === 'integer') {
    const { min, max } = rangeOf(schema);
    const outside = [min - 1n, min - 2n ** 80n, max + 1n, max + 2n ** 80n].map(String);
    return [one('abc', '', '1.5', '+1', '01', '0x1', '1,2', '٣', 'true', 'null', ...outside)];
  }
  return [...(minLength > 0 ? [one('')] : []), ...(maxLength ? [one('a'.repeat(maxLength + 1))] : [])];
}

function parameterBreaks(parameter: Parameter, known: Known): Break[] {
  const { name, in: place, schema } = parameter;
  // A path with an empty parameter is another path.
  const isBad = (text: string) => place !== 'path' || text !== '';
  const withEach = (values: fc.Arbitrary<string>, count = 1) =>
    values.map((text) => (draft: Draft) => withTexts(draft, parameter, ...Array<string>(count).fill(text)));
  const breaks = badTexts(schema).map((bad): Break => [`${name} breaks its schema`, 400, withEach(bad.filter(isBad))]);
  // A header that takes a list can be sent as several lines (RFC 9110, section 5.3). Those have no pattern.
  if (place === 'query' || (place === 'header' && schema.pattern !== undefined))
    breaks.push([`${name} is given twice`, 400, withEach(known[name] ?? valuesOf(schema).map(String), 2)]);
  return breaks;
}

function fieldBreaks(body: Schema): Break[] {
  const { properties = {}, required = [] } = body;
  const unknown = one('id', 'Name', '__proto__', 'toString', '');
  const breaks: Break[] = [
    ['an unknown field', 400, unknown.map((name) => (draft) => withField(draft, name, '1'))],
    ...required.map((name): Break => [`${name} is missing`, 400, one((draft) => withField(draft, name))]),
  ];
  for (const [name, schema] of Object.entries(properties)) {
    const isInteger = schema.type === 'integer';
    const texts = badTexts(schema).map((bad) => bad.map((text) => (isInteger ? text : JSON.stringify(text))));
    const wrong = one('null', '[]', '{}', ...(isInteger ? ['"7"', '1e999999999'] : ['7', '"\\ud800"']));
    const jsons = fc.oneof(wrong, ...texts);
    breaks.push([`${name} breaks its schema`, 400, jsons.map((json) => (draft) => withField(draft, name, json))]);
  }
  return breaks;
}

function bodyBreaks(schema: Schema, statuses: number[]): Break[] {
  const unsupported = statuses.includes(415) ? 415 : 400;
  const withBody = (body: string) => (draft: Draft) => ({ ...draft, body });
  return [
    ...fieldBreaks(schema),
    ['no object', 400, one('', 'null', '7', '[]', '{', '{}}').map(withBody)],
    ['a body that is too large', 413, one(withBody('{}'.padEnd(65_537)))],
    ['another content type', unsupported, header('content-type', one(['text/plain']))],
  ];
}

/** Rules that hold for every operation: those of HTTP, and the document's security requirements. */
function commonBreaks({ methods }: Operation, scopeless: string): Break[] {
  const others = ['GET', 'POST', 'PUT', 'DELETE', 'PROPFIND'].filter((method) => !methods.includes(method));
  const keys = one([], ['Basic eDp5'], ['Bearer x'], [`Bearer ast_test_${'0'.repeat(36)}`]);
  const unknown = one('offset', 'Limit', 'limit[]', '__proto__');
  return [
    ['no API key', 401, header('authorization', keys)],
    ['a key without the scope', 403, header('authorization', one([`Bearer ${scopeless}`]))],
    [
      'an unknown query parameter',
      400,
      unknown.map((name) => (draft) => ({ ...draft, query: [...draft.query, [encodeURIComponent(name), '1']] })),
    ],
    ['another method', 405, one(...others).map((method) => (draft) => ({ ...draft, method }))],
    ['an unknown path', 404, one('/', '/x/y').map((more) => (draft) => ({ ...draft, path: draft.path + more }))],
  ];
}

/** All rules of an operation. `scopeless` is an API key without the scope that the operation requires. */
export function rulesOf(operation: Operation, known: Known, scopeless: string): Rule[] {
  const { body, statuses, parameters, operationId } = operation;
  const breaks = [
    ...parameters.flatMap((parameter) => parameterBreaks(parameter, known)),
    ...(body ? bodyBreaks(body, statuses) : []),
    ...commonBreaks(operation, scopeless),
  ];
  return breaks
    .filter(([, status]) => status !== 403 || statuses.includes(403))
    .map(([name, status, changes]) => ({
      name: `${operationId}: ${name}`,
      status,
      drafts: fc.tuple(draftsOf(operation, known), changes).map(([draft, change]) => change(draft)),
    }));
}
