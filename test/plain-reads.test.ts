import { describe, expect, test, vi } from 'vitest';
import { sunset } from '../src/http/deprecation.ts';
import { type JsonAnswer, startApp, type TestApp } from './support/app.ts';
import { links } from './support/links.ts';
import { engine } from './support/store.ts';

interface Watched extends TestApp {
  /** Requests that Fastify has seen. */
  seen: () => number;
}

const animals = 12;

async function startWatched(): Promise<Watched> {
  let count = 0;
  const app = await startApp({
    watch: async (fastify) => {
      fastify.addHook('onRequest', (_request, _reply, done) => {
        count += 1;
        done();
      });
    },
  });
  for (let index = 1; index <= animals; index++) {
    await app.add({ name: `pet ${index}`, categoryId: index, status: index % 2 ? 'sold' : 'available' });
  }
  return { ...app, seen: () => count };
}

/** An answer that Fastify had no part in. The first call makes the key known; the keys are forgotten twice a second. */
async function shortAnswer({ call, seen }: Watched, path: string, key?: string | null): Promise<JsonAnswer> {
  for (let attempt = 0; attempt < 10; attempt++) {
    const before = seen();
    const answer = await call('GET', path, { ...(key !== undefined && { key }) });
    if (seen() === before) return answer;
  }
  throw new Error(`${path} never took the short way`);
}

/** What a client can tell answers apart by. */
function visible({ status, headers, text }: JsonAnswer) {
  const { 'x-request-id': id, date, ...rest } = headers;
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  return { status, headers: rest, text };
}

function lastLine(log: string): Record<string, unknown> {
  return JSON.parse(log.trimEnd().split('\n').at(-1) as string);
}

describe('the short way answers as Fastify does, header by header and byte by byte, and logs the same', () => {
  test.each([
    ['/v1/pets', undefined],
    ['/v1/pets?limit=3', undefined],
    ['/v1/pets?limit=25', undefined],
    ['/v1/pets?limit=100&status=sold', undefined],
    ['/v1/pets?limit=2&status=sold&cursor=YWZ0ZXI6MQ', undefined],
    ['/v1/pets/3', undefined],
    ['/v1/pets/12', undefined],
    ['/v1/pets?limit=5', null],
    ['/v1/pets/3', null],
  ])('%s, key %s', async (path, key) => {
    const app = await startWatched();
    const begun = performance.now();
    const short = await shortAnswer(app, path, key);
    await vi.waitFor(() => expect(lastLine(app.log())).toMatchObject({ reqId: short.headers['x-request-id'] }));
    const shortLine = lastLine(app.log());
    expect(shortLine.ms).toBeGreaterThanOrEqual(0);
    expect(shortLine.ms).toBeLessThan(performance.now() - begun);
    // A condition that does not hold is nothing plain.
    const long = await app.call('GET', path, { headers: { 'if-none-match': '"other"' }, ...(key === null && { key }) });
    await vi.waitFor(() => expect(lastLine(app.log())).toMatchObject({ reqId: long.headers['x-request-id'] }));
    expect(visible(short)).toEqual(visible(long));
    const fields = ({ level, method, route, status, key: id, msg }: Record<string, unknown>) => [
      [level, method, route, status, id, msg],
    ];
    expect(fields(shortLine)).toEqual(fields(lastLine(app.log())));
    expect(Object.keys(shortLine)).toEqual(Object.keys(lastLine(app.log())));
    // By now the answer is kept, and at hand at once.
    expect(visible(await shortAnswer(app, path, key))).toEqual(visible(long));
  });

  test('a walk along Link takes it from the second page on', async () => {
    const app = await startWatched();
    const ids: number[] = [];
    for (let next: string | undefined = '/v1/pets?limit=2'; next !== undefined; ) {
      const page: JsonAnswer = await shortAnswer(app, next);
      ids.push(...page.json.map(({ id }: { id: number }) => id));
      next = links(page.headers.link).next;
    }
    expect(ids).toEqual(Array.from({ length: animals }, (_, index) => index + 1));
  });
});

describe('what is not plain is left to Fastify, which judges it', () => {
  test.each([
    ['/v1/pets?limit=0', 400],
    ['/v1/pets?limit=101', 400],
    ['/v1/pets?limit=03', 400],
    ['/v1/pets?limit=3&limit=4', 400],
    ['/v1/pets?limit=3&cursor=YWZ0ZXI6MA', 400],
    ['/v1/pets?limit=3&colour=red', 400],
    ['/v1/pets?status=sold&limit=3', 200],
    ['/v1/pets?limit=%33', 200],
    ['/v1/pets/', 400],
    ['/v1/pets/01', 400],
    ['/v1/pets/9223372036854775808', 400],
    ['/v1/pets/99', 404],
    ['/v1/pets/3x', 400],
    ['/v1/pets/%33', 200],
    ['/v1/pets?limit=3x', 400],
    ['/other/v1/pets', 404],
    ['/other/v1/pets/3', 404],
  ])('%s is %i', async (path, status) => {
    const app = await startWatched();
    await shortAnswer(app, '/v1/pets');
    const before = app.seen();
    expect((await app.call('GET', path)).status).toBe(status);
    expect(app.seen()).toBe(before + 1);
  });

  test('a path that is none is 404 without a key, too', async () => {
    const { call } = await startWatched();
    expect((await call('GET', '/other', { key: null })).status).toBe(404);
  });

  test.each([
    ['a condition that holds', { headers: { 'if-none-match': '*' } }, 304],
    ['a body', { body: '{}', type: null }, 200],
    ['a Host that is none', { headers: { host: 'a b' } }, 400],
  ])('%s', async (_what, options, status) => {
    const app = await startWatched();
    await shortAnswer(app, '/v1/pets');
    const before = app.seen();
    expect((await app.call('GET', '/v1/pets', options)).status).toBe(status);
    expect(app.seen()).toBe(before + 1);
  });

  test('a key without the scope, a key that has expired meanwhile, getPet after its end', async () => {
    const app = await startWatched();
    const writer = await app.newKey({ scopes: ['pets:write'] });
    for (let again = 0; again < 2; again++) {
      expect((await app.call('GET', '/v1/pets', { key: writer.key })).json.code).toBe('insufficient_scope');
    }
    const { key } = await app.newKey({ expiresAt: new Date(Date.now() + 60_000) });
    await shortAnswer(app, '/v1/pets/1', key);
    app.setTime(new Date(Date.now() + 60_000));
    expect((await app.call('GET', '/v1/pets/1', { key })).json.code).toBe('expired_api_key');
    app.setTime(sunset);
    expect((await app.call('GET', '/v1/pets/1')).json.code).toBe('operation_removed');
  });

  function failAtOnce(): never {
    throw new Error('the file is gone');
  }
  const failures = [
    { when: 'at once', method: 'version' as const, fail: failAtOnce },
    { when: 'later', method: 'list' as const, fail: async () => failAtOnce() },
  ];
  // PostgreSQL tells no version: it never fails at once.
  test.each(failures.slice(engine === 'SQLite' ? 0 : 1))(
    '500 internal_error, with its cause in the log, where the store fails $when',
    async ({ method, fail }) => {
      const app = await startWatched();
      await shortAnswer(app, '/v1/pets');
      vi.spyOn(app.store.pets, method).mockImplementation(fail as never);
      expect((await app.call('GET', '/v1/pets?limit=7')).json.code).toBe('internal_error');
      expect(app.log()).toContain('the file is gone');
    },
  );
});

test('calls that took the short way are counted for their key, and getPet among them as deprecated', async () => {
  const app = await startWatched();
  const { key, id } = await app.newKey();
  const start = Date.now();
  let deprecated = 0;
  let attempt = 0;
  // Each attempt has a time of its own, so that the last use can only be that of two that took the short way.
  for (let before = -1; app.seen() !== before; ) {
    before = app.seen();
    attempt += 1;
    app.setTime(new Date(start + attempt * 60_000));
    await app.call('GET', '/v1/pets/2', { key });
    deprecated += 1;
    await app.call('GET', '/v1/pets', { key });
  }
  await app.app.close();
  const known = (await app.store.accounts.listKeys()).find((each) => each.id === id);
  expect(known?.lastUsedAt).toEqual(new Date(start + attempt * 60_000));
  expect(known?.deprecatedCalls).toBe(deprecated);
});

test('while the process is about to stop, every answer asks the client to go elsewhere', async () => {
  const { call } = await startApp({ draining: () => true });
  for (let again = 0; again < 2; again++) {
    const { status, headers } = await call('GET', '/v1/pets');
    expect([status, headers.connection]).toEqual([200, 'close']);
  }
});
