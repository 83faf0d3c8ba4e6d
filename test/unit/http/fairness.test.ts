/** Tests the bound of fairness.ts and its queue, without the rest of the server. */
import { text } from 'node:stream/consumers';
import { type FastifyInstance, fastify } from 'fastify';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { limits } from '../../../src/core/limits.ts';
import type { KeyCache } from '../../../src/http/auth.ts';
import { fairness } from '../../../src/http/fairness.ts';
import type { Metrics } from '../../../src/http/metrics.ts';
import { setLimits } from '../../support/app.ts';
import { openSocket } from '../../support/process.ts';
import { listen } from '../../support/raw.ts';

const spin = (ms: number) => {
  for (const end = performance.now() + ms; performance.now() < end; );
};

/** A server whose holders are the first letters of paths. `run`: the paths in the order in which they ran, those of a body before it is parsed with a *. */
async function serve(bounds: Partial<typeof limits> = {}) {
  setLimits({ queueMs: 60_000, ...bounds });
  const run: string[] = [];
  const limited: string[] = [];
  let inFlight = () => 0;
  const app = fastify();
  const metrics = {
    limited: (name: string) => void limited.push(name),
    add: (_name: string, _help: string, read: () => number) => {
      inFlight = read;
    },
  };
  app.decorate('metrics', metrics as unknown as Metrics);
  const ends: Parameters<FastifyInstance['atEnd']>[0][] = [];
  app.decorate('atEnd', (end) => void ends.push(end));
  for (const name of ['client', 'apiKey', 'content']) app.decorateRequest(name, null);
  app.setErrorHandler((_error, _request, reply) => void reply.code(503).send());
  app.addHook('onRequest', (request, reply, done) => {
    reply.raw.on('close', () => {
      for (const end of ends) end(request, reply);
    });
    request.client = { address: '', network: request.url.charAt(1) };
    if (request.method === 'POST') request.content = { read: () => undefined };
    done();
  });
  await app.register(fairness, { keys: { find: () => undefined } as unknown as KeyCache });
  await app.register(async (scope) => {
    scope.addHook('onRequest', scope.takeTurn);
    scope.addHook('preParsing', ({ method, url }, _reply, payload, done) => {
      if (method === 'POST') {
        run.push(`*${url}`);
        spin(5);
      }
      done(null, payload);
    });
    scope.addHook('preValidation', (request, reply, done) => {
      if (request.content) scope.takeTurn.call(scope, request, reply, done);
      else done();
    });
    scope.all('/:name/:ms', ({ url, params, headers }, reply) => {
      run.push(url);
      spin(Number((params as { ms: string }).ms));
      const size = Number(headers.size ?? 1);
      reply.send(headers.as === 'bytes' ? Buffer.alloc(size) : 'x'.repeat(size));
    });
  });
  await app.ready();
  // Clients end their side with their last request.
  Object.assign(app.server, { httpAllowHalfOpen: true });
  const port = await listen(app.server);
  onTestFinished(() => app.close());

  /** Sends requests in one packet. Resolves to the statuses. */
  async function ask(lines: string[], more = ''): Promise<number[]> {
    const socket = await openSocket(port);
    socket.end(
      lines
        .map(
          (line) =>
            `${line.includes(' ') ? line : `GET ${line}`} HTTP/1.1\r\nHost: a\r\n${more}Content-Length: 0\r\n\r\n`,
        )
        .join(''),
    );
    const answers = (await text(socket)).matchAll(/HTTP\/1\.1 (\d{3}) /g);
    await expect.poll(inFlight).toBe(0);
    return [...answers].map(([, status]) => Number(status));
  }
  return { port, ask, run, limited };
}

test('next is who has spent least, the newest request first', async () => {
  const { ask, run } = await serve();
  expect(await ask(['/a/20', '/a/2', '/a/1', '/b/2', '/b/1'])).toEqual(Array(5).fill(200));
  expect(run).toEqual(['/a/20', '/b/1', '/b/2', '/a/1', '/a/2']);
});

/** Call it before the server starts. Returns a function that lets seconds pass for what is done in each. */
function fakeSeconds() {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  return (seconds: number) => vi.advanceTimersByTime(1000 * seconds);
}

test('what a holder has spent counts half as much each second', async () => {
  const pass = fakeSeconds();
  const { ask, run } = await serve();
  await ask(['/a/40']);
  pass(4);
  await ask(['/b/20']);
  await ask(['/c/20', '/b/0', '/a/0']);
  pass(1);
  await ask(['/c/20', '/b/0', '/d/0']);
  expect(run.slice(2)).toEqual(['/c/20', '/a/0', '/b/0', '/c/20', '/d/0', '/b/0']);
});

test('a holder that has a request in flight is not forgotten, however little it has spent', async () => {
  const pass = fakeSeconds();
  const { port, run } = await serve({ inFlight: 140 });
  // Counts as 129 until the client has read it, which it does not.
  const slow = await openSocket(port);
  slow.write(`GET /a/0 HTTP/1.1\r\nHost: a\r\nSize: ${128 * 64 * 1024}\r\n\r\n`);
  await expect.poll(() => run).toHaveLength(1);
  pass(60);
  const statusOf = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
  expect([await statusOf('/a/0'), await statusOf('/b/0')]).toEqual([503, 200]);
  slow.destroy();
});

test('a request with a body waits once more before the body is parsed', async () => {
  const { ask, run } = await serve();
  await ask(['/a/20', 'POST /p/0', '/b/1']);
  expect(run).toEqual(['/a/20', '*/p/0', '/b/1', '/p/0']);
});

test('what has waited for too long is refused, the oldest first', async () => {
  const { ask, limited } = await serve({ queueMs: 30 });
  const statuses = await ask(Array(12).fill('/a/12'));
  const refused = statuses.filter((status) => status === 503).length;
  expect(refused).toBeGreaterThan(0);
  expect(statuses).toEqual([200, ...Array(refused).fill(503), ...Array(11 - refused).fill(200)]);
  expect(limited).toEqual(Array(refused).fill('event_loop'));
});

test('the requests of clients that have left are not run', async () => {
  const { port, ask, run } = await serve();
  const left = await openSocket(port);
  // Its holder has soon spent most, so that the other one is next for longer.
  left.write(['/a/100', '/a/0', '/a/100'].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''));
  const asked = ask(Array(20).fill('/b/12'));
  await expect.poll(() => run.length).toBeGreaterThan(0);
  left.resetAndDestroy();
  expect(await asked).toEqual(Array(20).fill(200));
  expect(run).toContain('/a/100');
  expect(run).not.toContain('/a/0');
});

test.for<[what: string, line: string, more: string, statuses: number[]]>([
  ['a text', 'GET /a/0', 'Size: 262144\r\n', [200, 503]],
  ['bytes', 'GET /a/0', 'Size: 262144\r\nAs: bytes\r\n', [200, 503]],
  ['a small one', 'GET /a/0', 'Size: 60000\r\n', [200, 200]],
  ['one to HEAD', 'HEAD /a/0', 'Size: 262144\r\n', [200, 200]],
])('a response counts once more for each 64 KiB: %s', async ([, line, more, statuses]) => {
  // Both run in one turn of the event loop, however long a busy machine takes for it.
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { ask, limited } = await serve({ inFlight: 12 });
  // The second waits for the first, so that both are in flight.
  expect(await ask([line, line], more)).toEqual(statuses);
  expect(limited).toEqual(statuses.filter((status) => status === 503).map(() => 'in_flight'));
});
