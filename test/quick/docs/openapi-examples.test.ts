import { readFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { parse } from 'yaml';
import { startApp, type TestApp } from '../../support/app.ts';
import { prefixes, readDocument } from '../../support/described.ts';
import { converse, type RawAnswer } from '../../support/raw.ts';
import { figure } from '../../support/tier.ts';
import { resolved } from '../../support/valid-requests.ts';

interface Example {
  value: unknown;
}
interface Part {
  example?: unknown;
  examples?: Record<string, Example>;
}
interface Operation {
  operationId: string;
  security: [{ apiKey: string[] }];
  parameters?: (Part & { name: string; in: string })[];
  requestBody?: { content: Record<string, Part> };
  responses: Record<string, Response>;
}
interface Response {
  headers: Record<string, Part>;
  content?: Record<string, Part>;
  links?: Record<string, { operationId: string; parameters: Record<string, string> }>;
}
interface Found extends Operation {
  method: string;
  /** With the prefix of the server, and {petId}. */
  path: string;
}

const all: Found[] = (['openapi.yaml', 'openapi.quickstart.yaml'] as const).flatMap((name) => {
  const document = { ...readDocument(name) };
  const paths = resolved(document, document.paths) as Record<string, Record<string, Operation>>;
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => {
      return { ...operation, method: method.toUpperCase(), path: prefixes[name] + path };
    }),
  );
});
const find = (id: string) => all.find(({ operationId }) => operationId === id) as Found;

const json = (part: { content?: Record<string, Part> } | undefined) => part?.content?.['application/json'];

describe('the example requests', () => {
  const namesOf = (part: Part | undefined) => Object.keys(part?.examples ?? {});
  const valueIn = (part: Part | undefined, name: string) => part?.examples?.[name]?.value;

  /** Sends the request that the examples with this name form. */
  function send({ call }: TestApp, { method, path, parameters = [], requestBody }: Found, name: string) {
    const given = parameters.filter((parameter) => valueIn(parameter, name) !== undefined);
    const text = (parameter: Part) => encodeURIComponent(String(valueIn(parameter, name)));
    const query = given.filter((parameter) => parameter.in === 'query').map((each) => `${each.name}=${text(each)}`);
    const filled = path.replace(/\{(\w+)\}/g, (_, key) => text(given.find((each) => each.name === key) as Part));
    const headers = given
      .filter((each) => each.in === 'header')
      .map((each) => [each.name, String(valueIn(each, name))]);
    const body = valueIn(json(requestBody), name);
    return call(method, `${filled}?${query.join('&')}`, { headers: Object.fromEntries(headers), body });
  }

  /** The names of the examples that an operation has for its requests and successes. */
  const examplesOf = ({ requestBody, parameters = [], responses }: Found) => {
    const successes = Object.entries(responses).filter(([status]) => Number(status) < 300);
    const parts = [json(requestBody), ...parameters, ...successes.map(([, response]) => json(response))];
    return [...new Set(parts.flatMap(namesOf))];
  };
  /** Without the times and the ids that the server chooses: others than those of animals. */
  const comparable = (body: unknown) =>
    JSON.parse(
      JSON.stringify(body).replace(/"[\d-]{10}T[\d:.]{12}Z"|(?<=_)[\da-f]{32}(?=")/g, (text) => {
        return text.startsWith('"') ? '"a time"' : 'an id';
      }),
    );

  test('return the example responses with the same names, where the animals of createPet have been added', async () => {
    const sent: string[] = [];
    const createPet = find('createPet');
    for (const operation of all.filter(({ method }) => !['HEAD', 'OPTIONS'].includes(method))) {
      const app = await startApp();
      const { operationId: id } = operation;
      if (id !== 'createPet') for (const name of examplesOf(createPet)) await send(app, createPet, name);
      for (const name of examplesOf(operation)) {
        const { status, json: body } = await send(app, operation, name);
        const expected = valueIn(json(operation.responses[status]), name);
        sent.push(`${id} ${name}: ${status}`);
        expect(comparable(body), `${id} ${name}`).toEqual(comparable(expected));
      }
    }
    const known = [
      ...['first-page', 'next-page', 'sold', 'none'].map((name) => `listPets ${name}: 200`),
      ...['smallest', 'full', 'beyond-2-53'].map((name) => `createPet ${name}: 201`),
      ...['getPet found: 200', 'getPet pet_not_found: 404', 'sendMessage hello: 202'],
    ];
    expect(sent).toEqual(expect.arrayContaining(known));
    const app = await startApp();
    for (const name of examplesOf(createPet)) await send(app, createPet, name);
    const links = await app.call('GET', '/v1/pets?limit=2');
    const page = valueIn(find('listPets').responses[200]?.headers.Link, 'page') as string;
    expect(links.headers.link).toBe(page.replaceAll('https://api.example.com', ''));
  });

  test('every parameter, body, header and response body has an example', () => {
    const parts = all.flatMap(({ parameters = [], requestBody, responses }) => [
      ...parameters,
      ...(requestBody ? [json(requestBody)] : []),
      ...Object.values(responses).flatMap((response) => [
        ...Object.values(response.headers),
        ...(response.content ? [json(response)] : []),
      ]),
    ]);
    expect(parts.length).toBeGreaterThan(500);
    const bare = parts.filter((part) => part?.example === undefined && namesOf(part).length === 0);
    expect(bare).toEqual([]);
  });

  test('the links of a created animal lead to it', async () => {
    const { add, call } = await startApp();
    const pet = await add({ name: 'Biscuit', categoryId: 7, status: 'pending' });
    const links = Object.values(find('createPet').responses[201]?.links ?? {});
    expect(links.map(({ operationId }) => operationId)).toEqual(['listPets', 'getPet']);
    for (const { operationId, parameters } of links) {
      const { method, path, parameters: known = [] } = find(operationId);
      const values = Object.entries(parameters).map(([name, expression]) => {
        return [name, pet.json[expression.replace('$response.body#/', '')]] as const;
      });
      expect(known.map(({ name }) => name)).toEqual(expect.arrayContaining(values.map(([name]) => name)));
      const filled = values.reduce((target, [name, value]) => target.replace(`{${name}}`, value), path);
      const query = filled === path ? `?${values.map((pair) => pair.join('=')).join('&')}` : '';
      expect([(await call(method, filled + query)).json].flat()).toEqual([pet.json]);
    }
  });
});

interface Servers {
  app: TestApp;
  keys: Record<'expired' | 'revoked' | 'reader' | 'writer', string>;
  /** Its store fails at every look-up of a key. */
  broken: TestApp;
  /** Allows no connection. */
  full: TestApp;
  /** Allows one request per minute and key. */
  limited: TestApp;
  /** Waits half a second for a request. */
  hasty: TestApp;
  /** Runs when getPet has been removed. */
  late: TestApp;
}

async function startServers(): Promise<Servers> {
  const app = await startApp();
  const [reader, writer] = [await app.newKey({ scopes: ['pets:read'] }), await app.newKey({ scopes: ['pets:write'] })];
  const expired = await app.newKey({ expiresAt: new Date(Date.now() - 1000) });
  const revoked = await app.newKey();
  await app.store.accounts.revokeKey(revoked.id);
  const broken = await startApp();
  const findKey = vi.spyOn(broken.store.accounts, 'findKey').mockRejectedValue(new Error('a fault'));
  onTestFinished(() => findKey.mockRestore());
  const hasty = await startApp();
  Object.assign(hasty.app.server, { requestTimeout: 500, headersTimeout: 500 });
  const late = await startApp();
  late.setTime(new Date('2030-12-05T00:00:00Z'));
  return {
    app,
    keys: { expired: expired.key, revoked: revoked.key, reader: reader.key, writer: writer.key },
    broken,
    full: await startApp({ maxConnections: 0 }),
    limited: await startApp({ requestsPerMinute: 1 }),
    hasty,
    late,
  };
}

interface Change {
  on?: TestApp;
  /** Null: no Authorization. */
  key?: string | null;
  target?: string;
  headers?: string[];
  body?: string;
  /** The rest of the request never comes. */
  cut?: boolean;
}

const exampleIn = ({ example, examples = {} }: Part, name?: string) =>
  (examples[name ?? ''] ?? Object.values(examples)[0])?.value ?? example;

/** The path of an operation with the values of its examples with this name, or of its first ones. */
const pathOf = ({ path, parameters = [] }: Found, name?: string) =>
  path.replace(/\{(\w+)\}/g, (_, key) => String(exampleIn(parameters.find((each) => each.name === key) as Part, name)));

/** The bodies of the examples of an operation. */
const bodiesOf = ({ requestBody }: Found) =>
  Object.values(json(requestBody)?.examples ?? {}).map(({ value }) => JSON.stringify(value));

/** Sends a valid request of the operation, with one change. */
async function sendChanged({ app }: Servers, operation: Found, change: Change): Promise<RawAnswer> {
  const { method } = operation;
  const { on = app, key = on.key, headers = [], cut } = change;
  const target = change.target ?? pathOf(operation);
  const body = change.body ?? bodiesOf(operation)[0] ?? '';
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: api.example.com', ...headers];
  if (key !== null) lines.push(`Authorization: Bearer ${key}`);
  if (!headers.some((line) => line.startsWith('Content-Type')) && body) lines.push('Content-Type: application/json');
  if (body) lines.push(`Content-Length: ${Buffer.byteLength(body)}`);
  const [answer] = await converse(on.port, [cut ? lines.join('\r\n') : `${lines.join('\r\n')}\r\n\r\n${body}`]);
  return answer as RawAnswer;
}

/** Breaks the two parameters that the example error names. If there are none, it names an unknown one. */
function breakParameters({ path, parameters = [], method }: Found): Change {
  const checked = parameters.filter(({ name }) => method !== 'OPTIONS' && name !== 'If-None-Match').slice(0, 2);
  if (checked.length === 0) return { target: `${path}?limit=1` };
  const inside = (place: string) => checked.filter((each) => each.in === place).map(({ name }) => name);
  const query = inside('query').map((name) => `${name}=two%20words`);
  const target = path.replace(/\{\w+\}/g, 'two%20words');
  return {
    target: query.length > 0 ? `${target}?${query.join('&')}` : target,
    headers: inside('header').map((name) => `${name}: two words`),
  };
}

/** How to provoke each error. `again`: send the request twice. */
function changeFor(code: string, operation: Found, servers: Servers): Change & { again?: Change } {
  const { keys, broken, full, limited, hasty, late } = servers;
  const { path, security, parameters = [] } = operation;
  if (parameters.some(({ examples = {} }) => code in examples)) return { target: pathOf(operation, code) };
  const { [code]: bad } = json(operation.requestBody)?.examples ?? {};
  if (bad) return { body: JSON.stringify(bad.value) };
  const changes: Record<string, Change & { again?: Change }> = {
    bad_request: { headers: ['not a header'] },
    invalid_url: { target: path.replace(/\{\w+\}/g, '%zz') },
    invalid_parameter: breakParameters(operation),
    invalid_cursor: { target: `${pathOf(operation)}?cursor=x` },
    invalid_json: { body: '{"name":' },
    invalid_body: { body: '{"colour":"brown"}' },
    missing_api_key: { key: null },
    invalid_api_key: { key: 'x' },
    expired_api_key: { key: keys.expired },
    revoked_api_key: { key: keys.revoked },
    insufficient_scope: { key: security[0].apiKey[0] === 'pets:write' ? keys.reader : keys.writer },
    request_timeout: { on: hasty, cut: true },
    operation_removed: { on: late },
    payload_too_large: { body: ' '.repeat(65_537) },
    uri_too_long: { target: `${pathOf(operation)}?x=${'x'.repeat(8192)}` },
    unsupported_media_type: { headers: ['Content-Type: text/plain'] },
    precondition_failed: { headers: ['If-Match: "other"'] },
    expectation_failed: { headers: ['Expect: nothing'] },
    idempotency_key_reused: {
      headers: ['Idempotency-Key: once'],
      again: { headers: ['Idempotency-Key: once'], body: bodiesOf(operation)[1] ?? '' },
    },
    rate_limited: { on: limited, again: { on: limited } },
    headers_too_large: { headers: [`X: ${'x'.repeat(16_384)}`] },
    internal_error: { on: broken },
    not_implemented: {},
    service_unavailable: { on: full },
  };
  const change = changes[code];
  if (!change) throw new Error(`no request is known that provokes ${code}`);
  return change;
}

describe('the errors', () => {
  const errorsOf = ({ responses }: Operation) =>
    Object.entries(responses)
      .filter(([status]) => Number(status) >= 400)
      .flatMap(([, response]) => Object.values(json(response)?.examples ?? {}))
      .map(({ value }) => value as { code: string; status: number });

  test('that an operation lists can all be provoked, and each has exactly the documented body', async () => {
    const servers = await startServers();
    await servers.app.add({ name: 'Biscuit', categoryId: 7 });
    let provoked = 0;
    const operations = all.filter(({ method }) => method !== 'HEAD');
    await Promise.all(
      operations.map(async (operation) => {
        const errors = errorsOf(operation);
        expect(errors.length, operation.operationId).toBeGreaterThan(11);
        for (const error of errors) {
          const { again, ...change } = changeFor(error.code, operation, servers);
          // Each operation has a key of its own on the server that counts requests.
          const key = change.on === servers.limited ? { key: (await servers.limited.newKey()).key } : {};
          let answer = await sendChanged(servers, operation, { ...change, ...key });
          if (again) answer = await sendChanged(servers, operation, { ...again, ...key });
          const where = `${operation.operationId} ${error.code}`;
          expect([where, answer.status, JSON.parse(answer.text)]).toEqual([where, error.status, error]);
          provoked += 1;
        }
      }),
    );
    figure(`${provoked} documented errors of ${operations.length} operations provoked`);
  });
});

describe('what the introduction says', () => {
  test('about limits holds to the byte', async () => {
    const { app, port, key, call } = await startApp();
    const { info } = parse(readFileSync(new URL('../../../openapi.yaml', import.meta.url), 'utf8'));
    const stated = (name: string) => {
      const row = new RegExp(`^\\| ${name} \\| (?:1 to )?([\\d,]+)[^|]*\\| \\d* ?(.*?) \\|$`, 'm').exec(
        info.description,
      );
      return [Number(row?.[1]?.replaceAll(',', '')), row?.[2]?.replaceAll('`', '')] as const;
    };
    const codeOf = async (method: string, target: string, options: Parameters<typeof call>[2] = {}) =>
      (await call(method, target, options)).json.code;

    const [longest, tooLong] = stated('path and query');
    const urlOf = (length: number) => '/v1/pets?cursor='.padEnd(length, 'x');
    expect([await codeOf('GET', urlOf(longest)), await codeOf('GET', urlOf(longest + 1))]).toEqual([
      'invalid_cursor',
      tooLong,
    ]);

    const [largest, tooLarge] = stated('body');
    const bodyOf = (length: number) => '{"name":"","categoryId":7}'.padEnd(length);
    expect([
      await codeOf('POST', '/v1/pets', { body: bodyOf(largest) }),
      await codeOf('POST', '/v1/pets', { body: bodyOf(largest + 1) }),
    ]).toEqual(['invalid_body', tooLarge]);

    const [kibibytes, tooManyHeaders] = stated('request line and headers');
    const filler = async (bytes: number) => {
      const request = `GET /v1/store/orders HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nX: `;
      const [answer] = await converse(port, [`${request.padEnd(bytes - 4, 'x')}\r\n\r\n`]);
      return JSON.parse(answer?.text as string).code;
    };
    expect([await filler(kibibytes * 1024), await filler(kibibytes * 1024 + 100)]).toEqual([
      'not_implemented',
      tooManyHeaders,
    ]);

    const [headerSeconds] = stated('time for a request');
    expect([app.server.headersTimeout, app.server.requestTimeout]).toEqual([headerSeconds * 1000, 9000]);
  });

  test('about HEAD and OPTIONS', async () => {
    const { add, call, newKey } = await startApp();
    await add({ name: 'Biscuit', categoryId: 7 });
    const scopeless = { GET: await newKey({ scopes: ['pets:write'] }), POST: await newKey({ scopes: ['pets:read'] }) };
    for (const { method, path } of all.filter(({ method }) => ['GET', 'POST'].includes(method))) {
      const target = `${path.replace(/\{\w+\}/g, '1')}?limit=0`;
      const { key } = scopeless[method as 'GET' | 'POST'];
      const options = await call('OPTIONS', target, { key, body: '{', type: 'text/plain' });
      expect([path, options.status, options.text]).toEqual([path, 204, '']);
      expect(String(options.headers.allow).split(', ')).toContain(method);
      expect((await call('OPTIONS', target, { key: null })).json.code).toBe('missing_api_key');
      if (method === 'POST') continue;
      for (const [url, options] of [
        [target.replace('?limit=0', ''), {}],
        [target, {}],
        [target, { key }],
      ] as const) {
        const [get, head] = [await call('GET', url, options), await call('HEAD', url, options)];
        // The others are of this request, or of its connection.
        const own = ['x-request-id', 'date', 'connection', 'keep-alive'];
        const comparable = ({ headers }: typeof get) => Object.entries(headers).filter(([name]) => !own.includes(name));
        expect([url, head.status, head.text, comparable(head)]).toEqual([url, get.status, '', comparable(get)]);
      }
    }
  });

  test('about methods: unknown ones return 400 whatever the key and the path, other ones 405', async () => {
    const { port, key } = await startApp();
    const send = async (line: string, more = '') => {
      const [answer] = await converse(port, [`${line} HTTP/1.1\r\nHost: a\r\n${more}\r\n`]);
      return [answer?.status, JSON.parse(answer?.text as string).code, answer?.headers.connection];
    };
    for (const method of ['FOO', 'get', 'Post', 'PRI'])
      for (const path of ['/v1/pets', '/nothing'])
        expect(await send(`${method} ${path}`)).toEqual([400, 'bad_request', 'close']);
    const known = await send('PATCH /v1/pets', `Authorization: Bearer ${key}\r\n`);
    expect(known.slice(0, 2)).toEqual([405, 'method_not_allowed']);
    expect((await send('CONNECT a:1')).slice(0, 2)).toEqual([405, 'method_not_allowed']);
    const [server] = await converse(port, ['OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n']);
    expect([server?.status, server?.headers.allow]).toEqual([204, 'GET, HEAD, POST, OPTIONS']);
  });

  test('about what comes before the API key', async () => {
    const { port } = await startApp();
    const code = async (line: string, more = '') => {
      const [answer] = await converse(port, [`${line} HTTP/1.1\r\nHost: a\r\n${more}\r\n`]);
      return JSON.parse(answer?.text as string).code;
    };
    for (const line of [
      'GET /v1/pets?limit=0',
      'PATCH /v1/pets',
      'OPTIONS /v1/pets',
      'GET /v1/pets/one',
      'POST /v1/pets',
    ])
      expect([line, await code(line)]).toEqual([line, 'missing_api_key']);
    expect(await code('GET /v1/pets/%zz')).toBe('invalid_url');
    expect(await code(`GET /v1/pets?${'a'.repeat(8200)}`)).toBe('uri_too_long');
    expect(await code('GET /v1/pets', 'Expect: x\r\n')).toBe('expectation_failed');
  });

  test('about the media type of a message', async () => {
    const { call } = await startApp();
    const { status, json } = await call('POST', '/quickstart/messages', { body: 'Hello', type: 'text/plain' });
    expect([status, json.code]).toEqual([400, 'invalid_body']);
  });

  test('about ignored headers and bodies', async () => {
    const { add, call } = await startApp();
    await add({ name: 'Biscuit', categoryId: 7 });
    const plain = await call('GET', '/v1/pets');
    const ignored = {
      accept: 'text/html',
      'if-modified-since': 'Thu, 01 Jan 2099 00:00:00 GMT',
      'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT',
      range: 'bytes=0-1',
    };
    for (const [name, value] of Object.entries(ignored)) {
      const { status, text, headers } = await call('GET', '/v1/pets', { headers: { [name]: value } });
      expect([name, status, text, headers.etag]).toEqual([name, 200, plain.text, plain.headers.etag]);
    }
    const { status, text } = await call('GET', '/v1/pets', { body: '{', type: 'text/plain' });
    expect([status, text]).toEqual([200, plain.text]);
  });
});
