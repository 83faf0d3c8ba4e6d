/** Tests of requests that never end by themselves: what they hold is released with their connection, and after a time they get 503. */
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { AppOptions } from '../../../src/app.ts';
import { newToken } from '../../../src/core/people.ts';
import { startApp, valuesOf } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { rawGet, rawPost } from '../../support/raw.ts';

const never = () => new Promise<never>(() => undefined);

/** Starts the server. `taken`: what it holds. */
async function start(options: Partial<AppOptions> = {}) {
  const app = await startApp(options);
  const taken = async () => Object.entries(await valuesOf(app.metrics, 'held')).filter(([, value]) => value > 0);
  return { ...app, taken: async () => Object.fromEntries(await taken()) };
}

async function send(port: number, request: string): Promise<Socket> {
  const socket = await openSocket(port, { allowHalfOpen: true });
  socket.write(request);
  return socket;
}

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;

test('a request that Node never reports as closed is no longer counted when its connection is gone', async () => {
  const app = await start({
    async watch(fastify) {
      fastify.addHook('onRequest', (_request, { raw }, done) => {
        const { emit } = raw;
        raw.emit = (event: string, ...values: unknown[]) => event !== 'close' && emit.call(raw, event, ...values);
        done();
      });
      fastify.get('/stuck', never);
    },
  });
  const socket = await send(app.port, get('/stuck'));
  await expect.poll(app.taken).toEqual({ connections: 1, requests: 1 });
  socket.resetAndDestroy();
  await expect.poll(app.taken).toEqual({});
  expect(app.log().match(/"msg":"request"/g)).toHaveLength(1);
});

const pet = '{"name":"Biscuit","categoryId":7}';

const options = (key: string) => rawGet(key, '/v1/pets').replace('GET', 'OPTIONS');
const signIn = () => get('/account/sign-in', `Cookie: session=${newToken().token}\r\n`);

test.each([
  ['pets', 'add', (key: string) => rawPost(key, pet), { work: 1 }],
  ['accounts', 'findKey', options, {}],
  ['people', 'findSession', signIn, {}],
] as const)(
  'a half-closed request that waits for %s.%s gets 503 after 30 s and keeps only its work',
  async (part, name, request, work) => {
    const app = await start();
    const gate = Promise.withResolvers<void>();
    const functions = app.store[part] as unknown as Record<string, (...input: unknown[]) => unknown>;
    const { [name]: act } = functions;
    functions[name] = (...input) => gate.promise.then(() => act?.(...input));

    const socket = await send(app.port, request(app.key) + get('/v1/cats').repeat(2));
    socket.end();
    await expect.poll(app.taken).toEqual({ connections: 1, requests: 1, pipelined: 2, ...work });
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 30_000);
    onTestFinished(() => clock.mockRestore());
    const answer = await text(socket);
    clock.mockRestore();
    expect(answer).toMatch(/^HTTP\/1\.1 503 .*"code":"service_unavailable"/s);
    await expect.poll(app.taken).toEqual(work);

    gate.resolve();
    await expect.poll(app.taken).toEqual({});
    expect((await app.get('/v1/pets')).json).toHaveLength(Object.keys(work).length);
    const [, reqId] = /x-request-id: (\S+)/.exec(answer) ?? [];
    const lines = app.logged('');
    expect(lines.filter(({ level }) => level >= 40)).toMatchObject([{ reqId, reason: 'no response within 30 s' }]);
    expect(lines.filter((line) => line.reqId === reqId && line.msg === 'request')).toMatchObject([{ status: 503 }]);
  },
);
