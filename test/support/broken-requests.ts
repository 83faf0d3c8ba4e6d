/** Generates requests that break exactly one rule of an OpenAPI document and are otherwise valid. */
import fc from 'fast-check';
import {
  type Draft,
  draftsOf,
  jsonOf,
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

/** How to break a rule: the expected status, the values to use, and a function that puts one of them into a valid request. */
type Break<Value = never> = [status: number, values: fc.Arbitrary<Value>, act: (draft: Draft, value: Value) => Draft];
type Breaks = Record<string, Break>;

// Checks that the values of an entry suit its function; the table itself does not know their type.
const by = <Value>(status: number, values: fc.Arbitrary<Value>, act: (draft: Draft, value: Value) => Draft) =>
  [status, values, act] as unknown as Break;
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

/** Rule of a schema → texts that break it. */
function badTexts(schema: Schema): Record<string, fc.Arbitrary<string>> {
  const { enum: values, minLength = 0, maxLength } = schema;
  if (values) {
    const near = values.flatMap((value) => [value.toUpperCase(), `${value} `, value.slice(1)]);
    return { enum: fc.oneof(one('', ...near), fc.string()).filter((text) => !values.includes(text)) };
  }
  if (schema.type === 'integer') {
    const { min, max } = rangeOf(schema);
    return {
      type: one('abc', '', '1.5', '1e1', '+1', '01', '0x1', '1 ', '1,2', '٣', 'true', 'null', 'NaN', '1_0'),
      minimum: fc.bigInt({ min: min - 2n ** 80n, max: min - 1n }).map(String),
      maximum: fc.bigInt({ min: max + 1n, max: max + 2n ** 80n }).map(String),
    };
  }
  return {
    ...(minLength > 0 && { minLength: one('') }),
    ...(maxLength && { maxLength: fc.integer({ min: maxLength + 1, max: maxLength + 100 }).map((n) => 'a'.repeat(n)) }),
  };
}

function parameterBreaks(parameter: Parameter, known: Known): Breaks {
  const { name, in: place, schema } = parameter;
  const breaks: Breaks = {};
  // A path with an empty parameter is another path.
  const isBad = (text: string) => place !== 'path' || text !== '';
  for (const [rule, texts] of Object.entries(badTexts(schema)))
    breaks[`${name} breaks ${rule}`] = by(400, texts.filter(isBad), (draft, text) => withTexts(draft, parameter, text));
  const texts = known[name] ?? valuesOf(schema).map(String);
  // A header that takes a list can be sent as several lines (RFC 9110, section 5.3). Those have no pattern.
  if (place === 'query' || (place === 'header' && schema.pattern !== undefined))
    breaks[`${name} is given twice`] = by(400, texts, (draft, text) => withTexts(draft, parameter, text, text));
  if (name === 'cursor')
    breaks['cursor is made up'] = by(400, valuesOf(schema), (draft, text) => withTexts(draft, parameter, String(text)));
  return breaks;
}

function fieldBreaks({ properties = {}, required = [], additionalProperties }: Schema): Breaks {
  const breaks: Breaks = {};
  for (const [name, schema] of Object.entries(properties)) {
    const isInteger = schema.type === 'integer';
    const { type: _, ...texts } = badTexts(schema);
    const wrong = one(
      'null',
      'true',
      '[]',
      '{}',
      '1.5',
      isInteger ? '"7"' : '7',
      isInteger ? '1e999999999' : '"\\ud800"',
    );
    const jsons = Object.values(texts).map((bad) => bad.map((text) => (isInteger ? text : JSON.stringify(text))));
    breaks[`${name} breaks its schema`] = by(400, fc.oneof(wrong, ...jsons), (draft, json) =>
      withField(draft, name, json),
    );
    breaks[`${name} is given twice`] = by(400, jsonOf(schema), (draft, json) => withField(draft, name, json, json));
    if (required.includes(name)) breaks[`${name} is missing`] = by(400, one(0), (draft) => withField(draft, name));
  }
  const names = fc
    .oneof(one('id', 'Name', '__proto__', 'constructor', 'toString', ''), fc.string({ unit: 'binary' }))
    .filter((name) => !Object.hasOwn(properties, name));
  if (additionalProperties === false)
    breaks['an unknown field'] = by(400, fc.tuple(names, fc.json()), (draft, [name, json]) =>
      withField(draft, name, json),
    );
  return breaks;
}

function bodyBreaks(schema: Schema): Breaks {
  const textOf = ({ fields }: Draft) => `{${fields.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join()}}`;
  return {
    ...fieldBreaks(schema),
    'a body that is too large': by(413, fc.integer({ min: 65_537, max: 70_000 }), (draft, length) => {
      return { ...draft, body: textOf(draft).padEnd(length) };
    }),
  };
}

const header = (name: string) => ({ name, in: 'header' }) as const;

/** Rules that hold for every operation: those of HTTP, and the document's security requirements. */
function commonBreaks({ statuses, methods, parameters }: Operation, scopeless: string): Breaks {
  const authorized = (draft: Draft, text: string) => withTexts(draft, header('authorization'), ...(text ? [text] : []));
  const documented = parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name);
  const unknown = fc
    .oneof(one('offset', 'page', 'Limit', 'limit[]', '__proto__', 'constructor'), fc.stringMatching(/^[a-z]{1,20}$/))
    .filter((name) => !documented.includes(name));
  const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND'].filter(
    (method) => !methods.includes(method),
  );
  return {
    'no API key': by(401, one('', 'Basic eDp5', 'Bearer x', `Bearer ast_test_${'0'.repeat(36)}`), authorized),
    ...(statuses.includes(403) && { 'a key without the scope': by(403, one(`Bearer ${scopeless}`), authorized) }),
    'an unknown query parameter': by(400, fc.tuple(unknown, fc.string()), (draft, [name, text]) => {
      return { ...draft, query: [...draft.query, [encodeURIComponent(name), encodeURIComponent(text)]] };
    }),
    'another method': by(405, one(...others), (draft, method) => ({ ...draft, method })),
  };
}

/** All rules of an operation. `scopeless` is an API key without the scope that the operation requires. */
export function rulesOf(operation: Operation, known: Known, scopeless: string): Rule[] {
  const { body, parameters, operationId } = operation;
  const breaks: Breaks = {
    ...Object.assign({}, ...parameters.map((parameter) => parameterBreaks(parameter, known))),
    ...(body && bodyBreaks(body)),
    ...commonBreaks(operation, scopeless),
  };
  return Object.entries(breaks).map(([name, [status, values, act]]) => ({
    name: `${operationId}: ${name}`,
    status,
    drafts: fc.tuple(draftsOf(operation, known), values).map(([draft, value]) => act(draft, value)),
  }));
}
