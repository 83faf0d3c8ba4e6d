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

function withText(draft: Draft, { name, in: place }: Parameter, text: string): Draft {
  if (place === 'path') return { ...draft, parameters: { ...draft.parameters, [name]: encodeURIComponent(text) } };
  if (place === 'header') return { ...draft, headers: { ...draft.headers, [name.toLowerCase()]: text } };
  const others = draft.query.filter(([other]) => other !== name);
  return { ...draft, query: [...others, [name, encodeURIComponent(text)]] };
}

function withField(draft: Draft, name: string, ...jsons: string[]): Draft {
  const others = draft.fields.filter(([other]) => other !== name);
  return { ...draft, fields: [...others, ...jsons.map((json): [string, string] => [name, json])] };
}

const beyond = ({ min, max }: { min: bigint; max: bigint }) => ({
  below: fc.oneof(one(min - 1n), fc.bigInt({ min: min - 2n ** 80n, max: min - 1n })).map(String),
  above: fc.oneof(one(max + 1n), fc.bigInt({ min: max + 1n, max: max + 2n ** 80n })).map(String),
});

/** Rule of a schema → texts that break it. `marks`: characters that may not match a pattern. */
function badTexts(schema: Schema, marks: string[]): Record<string, fc.Arbitrary<string>> {
  const { enum: values, minLength = 0, maxLength, pattern } = schema;
  if (values) {
    const near = values.flatMap((value) => [value.toUpperCase(), `${value} `, `${value},${value}`, value.slice(1)]);
    return { enum: fc.oneof(one('', ...near), fc.string()).filter((text) => !values.includes(text)) };
  }
  if (schema.type === 'integer') {
    const words = [
      'abc',
      '',
      '1.5',
      '1e1',
      '+1',
      '01',
      '0x1',
      '1 ',
      ' 1',
      '1,2',
      '--1',
      '٣',
      'true',
      'null',
      'NaN',
      '1_0',
    ];
    const { below, above } = beyond(rangeOf(schema));
    return { type: one(...words), minimum: below, maximum: above };
  }
  const breaking = marks.filter((mark) => pattern !== undefined && !new RegExp(pattern, 'u').test(`a${mark}a`));
  const long = maxLength === undefined ? undefined : fc.integer({ min: maxLength + 1, max: maxLength + 100 });
  return {
    ...(minLength > 0 && { minLength: one('') }),
    ...(long && { maxLength: long.map((length) => 'a'.repeat(length)) }),
    ...(breaking.length > 0 && { pattern: one(...breaking).map((mark) => `a${mark}a`) }),
  };
}

function parameterBreaks(parameter: Parameter, known: Known): Breaks {
  const { name, in: place, schema } = parameter;
  const marks = place === 'header' ? [' ', '\t', '\xe9'] : [' ', '\0', '\n', '"', 'é', '=', '/', '\u{1f408}'];
  const breaks: Breaks = {};
  // A path with an empty parameter is another path.
  const isBad = (text: string) => place !== 'path' || text !== '';
  for (const [rule, texts] of Object.entries(badTexts(schema, marks)))
    breaks[`${name} breaks ${rule}`] = by(400, texts.filter(isBad), (draft, text) => withText(draft, parameter, text));
  const texts = known[name] ?? valuesOf(schema).map(String);
  // A header that takes a list can be sent as several lines (RFC 9110, section 5.3). Those have no pattern.
  if (place === 'header' && schema.pattern !== undefined)
    breaks[`${name} is given twice`] = by(400, texts, (draft, text) => {
      return { ...draft, headers: { ...draft.headers, [name.toLowerCase()]: [text, text] } };
    });
  if (place === 'query')
    breaks[`${name} is given twice`] = by(400, texts, (draft, text) => {
      const once = withText(draft, parameter, text);
      return { ...once, query: [...once.query, [name, encodeURIComponent(text)]] };
    });
  if (name === 'cursor')
    breaks['cursor is made up'] = by(400, valuesOf(schema), (draft, text) => withText(draft, parameter, String(text)));
  return breaks;
}

/** Rule of a field's schema → JSON texts that break it. */
function badJson(schema: Schema): Record<string, fc.Arbitrary<string>> {
  const wrong = ['null', 'true', 'false', '[]', '{}', '1.5', schema.type === 'integer' ? '"7"' : '7'];
  if (schema.type === 'integer') {
    const { below, above } = beyond(rangeOf(schema));
    return {
      type: one(...wrong, '-0.5', '7e-1'),
      minimum: below,
      maximum: fc.oneof(above, one('1e19', '1e999999999')),
    };
  }
  const texts = badTexts(schema, ['\0']);
  const quoted = Object.entries(texts).map(([rule, bad]) => [rule, bad.map((text) => JSON.stringify(text))]);
  return {
    ...Object.fromEntries(quoted),
    type: one(...wrong),
    ...(!schema.enum && { Unicode: one('"\\ud800"', '"a\\udfff\\ud800"') }),
  };
}

function fieldBreaks({ properties = {}, required = [], additionalProperties }: Schema): Breaks {
  const breaks: Breaks = {};
  for (const [name, schema] of Object.entries(properties)) {
    for (const [rule, jsons] of Object.entries(badJson(schema)))
      breaks[`${name} breaks ${rule}`] = by(400, jsons, (draft, json) => withField(draft, name, json));
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

function bodyBreaks(schema: Schema, statuses: number[]): Breaks {
  const textOf = ({ fields }: Draft) => `{${fields.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join()}}`;
  const unsupported = statuses.includes(415) ? 415 : 400;
  const header = (name: string) => (draft: Draft, value: string) => ({
    ...draft,
    headers: { ...draft.headers, [name]: value === '' ? [] : value },
  });
  const types = ['', 'text/plain', 'application/xml', 'application/jsonp', 'application/json; charset=latin1', '*/*'];
  return {
    ...fieldBreaks(schema),
    'no body': by(400, one(0), (draft) => ({ ...draft, body: '' })),
    'not an object': by(400, one('null', '7', '"x"', '[]', '[{}]', 'true'), (draft, body) => ({ ...draft, body })),
    'truncated JSON': by(400, fc.nat(), (draft, at) => ({
      ...draft,
      body: textOf(draft).slice(0, 1 + (at % (textOf(draft).length - 1))),
    })),
    'text after the JSON': by(400, one('}', ',', 'x', '//', '{}', '\0'), (draft, more) => ({
      ...draft,
      body: textOf(draft) + more,
    })),
    'invalid UTF-8': by(400, one(0xff, 0xc0, 0x80), (draft, byte) => {
      return {
        ...draft,
        body: Buffer.concat([Buffer.from(textOf(draft).slice(0, -1)), Buffer.of(byte), Buffer.from('}')]),
      };
    }),
    'a body that is too large': by(413, fc.integer({ min: 65_537, max: 70_000 }), (draft, length) => {
      return { ...draft, body: textOf(draft).padEnd(length) };
    }),
    'another content type': by(unsupported, one(...types), header('content-type')),
    'a content coding': by(unsupported, one('gzip', 'br', 'x'), header('content-encoding')),
  };
}

/** Rules that hold for every operation: those of HTTP, and the document's security requirements. */
function commonBreaks({ statuses, methods, parameters }: Operation, scopeless: string): Breaks {
  const authorized = (draft: Draft, text: string) => ({
    ...draft,
    headers: { ...draft.headers, authorization: text || [] },
  });
  const documented = parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name);
  const unknown = fc
    .oneof(one('offset', 'page', 'Limit', 'limit[]', '__proto__', 'constructor'), fc.stringMatching(/^[a-z]{1,20}$/))
    .filter((name) => !documented.includes(name));
  const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'QUERY'].filter(
    (method) => !methods.includes(method),
  );
  return {
    'no API key': by(401, one('', 'Basic eDp5', 'Token x'), authorized),
    'a bad API key': by(401, one('Bearer x', `Bearer ast_test_${'0'.repeat(36)}`), authorized),
    ...(statuses.includes(403) && { 'a key without the scope': by(403, one(`Bearer ${scopeless}`), authorized) }),
    'an unknown query parameter': by(400, fc.tuple(unknown, fc.string()), (draft, [name, text]) => {
      return { ...draft, query: [...draft.query, [encodeURIComponent(name), encodeURIComponent(text)]] };
    }),
    'another method': by(405, one(...others), (draft, method) => ({ ...draft, method })),
    'an unknown path': by(404, one('/', '/x/y', '/x/y/'), (draft, more) => ({ ...draft, path: draft.path + more })),
    'a URL that is too long': by(414, fc.integer({ min: 8193, max: 12_000 }), (draft, length) => {
      return { ...draft, query: [...draft.query, ['x', 'a'.repeat(length)]] };
    }),
    'headers that are too large': by(431, fc.integer({ min: 17_000, max: 30_000 }), (draft, length) => {
      return { ...draft, headers: { ...draft.headers, 'x-filler': 'a'.repeat(length) } };
    }),
  };
}

/** All rules of an operation. `scopeless` is an API key without the scope that the operation requires. */
export function rulesOf(operation: Operation, known: Known, scopeless: string): Rule[] {
  const { body, statuses, parameters, operationId } = operation;
  const breaks: Breaks = {
    ...Object.assign({}, ...parameters.map((parameter) => parameterBreaks(parameter, known))),
    ...(body && bodyBreaks(body, statuses)),
    ...commonBreaks(operation, scopeless),
  };
  return Object.entries(breaks).map(([name, [status, values, act]]) => ({
    name: `${operationId}: ${name}`,
    status,
    drafts: fc.tuple(draftsOf(operation, known), values).map(([draft, value]) => act(draft, value)),
  }));
}
