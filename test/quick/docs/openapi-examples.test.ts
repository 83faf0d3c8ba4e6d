/** Tests that the examples of the OpenAPI documents are what the server answers, and that each error that they list can be provoked. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startApp, type TestApp } from '../../support/app.ts';
import { prefixes, readDocument } from '../../support/described.ts';
import { converse, type RawAnswer } from '../../support/raw.ts';
import { resolved } from '../../support/valid-requests.ts';

interface Part {
  example?: unknown;
  examples?: Record<string, { value: unknown }>;
}
interface Content {
  content?: Record<string, Part>;
}
interface Operation {
  operationId: string;
  method: string;
  /** With the prefix of the server, and {petId}. */
  path: string;
  security: [{ apiKey: string[] }];
  parameters?: (Part & { name: string; in: string })[];
  requestBody?: Content;
  responses: Record<string, Content & { headers: Record<string, Part> }>;
}

const all = (['openapi.yaml', 'openapi.quickstart.yaml'] as const).flatMap((name) => {
  const document = { ...readDocument(name) };
  const paths = resolved(document, document.paths) as Record<string, Record<string, Operation>>;
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): Operation => {
      return { ...operation, method: method.toUpperCase(), path: prefixes[name] + path };
    }),
  );
});

const json = (part?: Content) => part?.content?.['application/json'];

describe('the example requests', () => {
  const namesOf = (part: Part | undefined) => Object.keys(part?.examples ?? {});
  const valueIn = (part: Part | undefined, name: string) => part?.examples?.[name]?.value;

  /** Sends the request that the examples with this name form. */
  function send({ call }: TestApp, { method, path, parameters = [], requestBody }: Operation, name: string) {
    const given = parameters.flatMap((parameter) => {
      const value = valueIn(parameter, name);
      return value === undefined ? [] : { name: parameter.name, in: parameter.in, text: String(value) };
    });
    const inside = (place: string) => given.filter((each) => each.in === place).map(({ name, text }) => [name, text]);
    const values = Object.fromEntries(inside('path'));
    const target = `${path.replace(/\{(\w+)\}/g, (_, key) => values[key])}?${new URLSearchParams(inside('query'))}`;
    return call(method, target, {
      headers: Object.fromEntries(inside('header')),
      body: valueIn(json(requestBody), name),
    });
  }

  /** The names of the examples that an operation has for its requests and successes. */
  const examplesOf = ({ requestBody, parameters = [], responses }: Operation) => {
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
    const createPet = all.find(({ operationId }) => operationId === 'createPet') as Operation;
    let sent = 0;
    for (const operation of all.filter(({ method }) => !['HEAD', 'OPTIONS'].includes(method))) {
      const app = await startApp();
      if (operation !== createPet) for (const name of examplesOf(createPet)) await send(app, createPet, name);
      for (const name of examplesOf(operation)) {
        const { status, json: body, headers } = await send(app, operation, name);
        const response = operation.responses[status];
        expect(comparable(body), `${operation.operationId} ${name}`).toEqual(comparable(valueIn(json(response), name)));
        if (name === 'first-page')
          expect(valueIn(response?.headers.Link, 'page')).toBe(
            String(headers.link).replaceAll('</', '<https://api.example.com/'),
          );
        sent += 1;
      }
    }
    expect(sent).toBeGreaterThan(9);
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
const pathOf = ({ path, parameters = [] }: Operation, name?: string) =>
  path.replace(/\{(\w+)\}/g, (_, key) => String(exampleIn(parameters.find((each) => each.name === key) as Part, name)));

/** The bodies of the examples of an operation. */
const bodiesOf = ({ requestBody }: Operation) =>
  Object.values(json(requestBody)?.examples ?? {}).map(({ value }) => JSON.stringify(value));

/** Sends a valid request of the operation, with one change. */
async function sendChanged({ app }: Servers, operation: Operation, change: Change): Promise<RawAnswer> {
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
function breakParameters({ path, parameters = [], method }: Operation): Change {
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
function changeFor(code: string, operation: Operation, servers: Servers): Change & { again?: Change } {
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
        }
      }),
    );
  });
});

test('HEAD has the status and the headers of GET', async () => {
  const { add, call, newKey } = await startApp();
  await add({ name: 'Biscuit', categoryId: 7 });
  const { key } = await newKey({ scopes: ['pets:write'] });
  for (const { path } of all.filter(({ method }) => method === 'GET')) {
    const target = path.replace(/\{\w+\}/g, '1');
    for (const [url, options] of [
      [target, {}],
      [`${target}?limit=0`, {}],
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
