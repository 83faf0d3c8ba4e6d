/** Tests of the log line of a request. */
import { describe, expect, test, vi } from 'vitest';
import { createSampledRequestLog } from '../../../src/http/request-log.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { openSocket, type Server, startServer } from '../../support/process.ts';
import { converse } from '../../support/raw.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

/** The log line of the request with this id. */
async function lineOf({ log }: TestApp, id: unknown): Promise<Record<string, unknown>> {
  const find = () =>
    log()
      .split('\n')
      .find((line) => line.includes(String(id)));
  await vi.waitFor(() => expect(find()).toBeDefined());
  return JSON.parse(find() as string);
}

describe('the log', () => {
  test.each([
    ['GET', '/v1/pets', 200, '/v1/pets'],
    ['HEAD', '/v1/pets', 200, '/v1/pets'],
    ['POST', '/v1/pets', 400, '/v1/pets'],
    ['GET', '/v1/pets/7', 404, '/v1/pets/:petId'],
    ['GET', '/nowhere', 404, null],
  ] as const)(
    'has one line for %s %s, with the request id of the response and the trace id',
    async (method, path, status, route) => {
      const app = await startApp();
      const before = app.log().length;
      // The second call finds the key in the cache and can take another path.
      for (let again = 0; again < 2; again++) {
        const { headers } = await app.call(method, path, { headers: { traceparent } });
        const reqId = headers['x-request-id'];
        const line = await lineOf(app, reqId);
        expect(line).toMatchObject({
          level: 30,
          msg: 'request',
          reqId,
          method,
          route,
          status,
          traceId,
          address: '127.0.0.1',
        });
        expect(line.ms).toBeGreaterThan(0);
      }
      expect(app.log().slice(before).trim().split('\n')).toHaveLength(2);
    },
  );

  test('has the id, the status and the code of a request that reaches no route', async () => {
    const app = await startApp();
    const { status, headers } = await app.call('GET', '/%zz');
    const line = await lineOf(app, headers['x-request-id']);
    expect(line).toMatchObject({
      level: 30,
      msg: 'request',
      reqId: headers['x-request-id'],
      status,
      code: 'invalid_url',
      address: '127.0.0.1',
    });
  });

  test.for([
    [undefined, '192.0.2.1', '127.0.0.1'],
    [['192.0.2.0/24'], '192.0.2.1', '127.0.0.1'],
    [['127.0.0.1'], '192.0.2.1', '192.0.2.1'],
    [['127.0.0.1'], '2001:db8::1', '2001:db8::1'],
    [['127.0.0.1'], '198.51.100.7, 192.0.2.1', '192.0.2.1'],
    [['127.0.0.1', '192.0.2.0/24'], '198.51.100.7, 192.0.2.1', '198.51.100.7'],
    [['127.0.0.1'], '192.0.2.1:5001', '192.0.2.1'],
    [['127.0.0.1'], '[2001:db8::1]:5001', '2001:db8::1'],
    [['127.0.0.1'], '[2001:db8::1]', '2001:db8::1'],
    // No address, which could break the line.
    [['127.0.0.1'], '"},', '127.0.0.1'],
    [['127.0.0.1'], 'unknown', '127.0.0.1'],
    [['127.0.0.1'], '', '127.0.0.1'],
  ] as const)(
    'has the client address, behind the proxies %s for X-Forwarded-For %s: %s',
    async ([proxies, header, address]) => {
      const app = await startApp({ trustProxy: proxies && [...proxies] });
      for (const path of ['/v1/pets', '/nowhere']) {
        const { headers } = await app.call('GET', path, { headers: { 'x-forwarded-for': header } });
        expect(await lineOf(app, headers['x-request-id']), path).toMatchObject({ address });
      }
    },
  );

  test('has the address of the connection of a request that cannot be parsed', async () => {
    const app = await startApp({ trustProxy: ['127.0.0.1'] });
    await converse(app.port, ['no request\r\n\r\n']);
    await vi.waitFor(() => expect(app.log()).toContain('bad_request'));
    const line = app
      .log()
      .split('\n')
      .find((each) => each.includes('bad_request'));
    expect(JSON.parse(line ?? '')).toMatchObject({ status: 400, address: '127.0.0.1' });
  });

  test.each(['nonsense', traceparent.toUpperCase(), `00-${traceId}`, ''])(
    'has no trace id for the traceparent %s',
    async (header) => {
      const app = await startApp();
      const { status, headers } = await app.call('GET', '/v1/pets', { headers: { traceparent: header } });
      expect(status).toBe(200);
      expect(await lineOf(app, headers['x-request-id'])).not.toHaveProperty('traceId');
    },
  );
});

describe('the log with LOG_SAMPLE', () => {
  const linesOf = (log: string) =>
    log
      .split('\n')
      .filter((line) => line.includes('"msg":"request"'))
      .map((line) => JSON.parse(line));

  /** Number of requests that the server has counted. */
  async function counted(server: Server): Promise<number> {
    const text = await (await fetch(`${server.opsUrl()}/metrics`)).text();
    const counts = text.matchAll(/^http_request_duration_seconds_count\{.*\} (\d+)$/gm);
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  test('a real process writes about one line in two, which says so, and counts every request', async () => {
    const server = await startServer({ env: { LOG_SAMPLE: '2' } });
    const key = await server.firstKey();
    for (let round = 0; round < 20; round++)
      await Promise.all(Array.from({ length: 20 }, () => server.call(key, 'GET', '/v1/pets')));
    await vi.waitFor(async () => expect(await counted(server)).toBe(400));
    const lines = linesOf((await server.end('SIGTERM')).stdout).filter(({ ms }) => ms <= 500);
    // Seven standard deviations around 200.
    expect(lines.length).toBeGreaterThan(130);
    expect(lines.length).toBeLessThan(270);
    for (const line of lines) expect(line).toMatchObject({ sample: 2, method: 'GET', status: 200 });
  });

  test('a real process writes every slow request and server error, and no flood of other errors', async () => {
    const server = await startServer({ env: { LOG_SAMPLE: '1000000', MAX_CONNECTIONS: '2' } });
    const key = await server.firstKey();
    for (let count = 0; count < 10; count++) {
      expect((await server.call(key, 'GET', '/v1/pets')).status).toBe(200);
      expect((await server.call(key, 'POST', '/v1/pets', {})).status).toBe(400);
    }
    const head = `POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n`;
    const slow = [
      `${head}Content-Type: application/json\r\nContent-Length: 31\r\n\r\n`,
      '{"name":"Tabby","categoryId":1}',
    ];
    expect(await converse(server.port, slow, { gapMs: 600 })).toMatchObject([{ status: 201 }]);
    const held = [await openSocket(server.port), await openSocket(server.port)];
    // The server has many listening sockets, and may accept a later connection first.
    await vi.waitFor(async () => {
      const refused = await converse(server.port, ['GET / HTTP/1.1\r\nHost: localhost\r\n\r\n']);
      expect(refused).toMatchObject([{ status: 503 }]);
    });
    for (const socket of held) socket.destroy();
    const lines = linesOf((await server.end('SIGTERM')).stdout);
    const notable = lines.filter(({ status, ms }) => status >= 500 || ms > 500);
    expect(notable.map(({ status }) => status)).toEqual(expect.arrayContaining([201, 503]));
    expect(lines).toEqual(notable);
    for (const line of lines) expect(line).not.toHaveProperty('sample');
  });

  test.for([
    [{ status: 500 }, 100],
    [{ status: 503 }, 100],
    [{ status: 200, ms: 500.01 }, 100],
    [{ status: 404, ms: 30_000 }, 100],
    [{ status: 200, ms: 500 }, 0],
    [{ status: 401 }, 0],
    [{ status: 429, ms: 0.1 }, 0],
    [{ status: 499, ms: 0.1 }, 0],
    [{ status: 501 }, 0],
  ] as const)('of a hundred exchanges %o, %d lines are written in any case', ([exchange, written]) => {
    const lines: string[] = [];
    const log = createSampledRequestLog((line) => void lines.push(line), '"pid":1', 1_000_000);
    for (let count = 0; count < 100; count++) log({ reqId: 'x', ...exchange });
    expect(lines.filter((line) => !line.includes('"sample":1000000,'))).toHaveLength(written);
    // With a chance of 1 in 10,000, one of them is in the sample.
    expect(lines.length).toBeLessThanOrEqual(written + 1);
  });
});
