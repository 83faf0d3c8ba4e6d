/** Tests of the log line of a request. */
import { describe, expect, test, vi } from 'vitest';
import { startApp, type TestApp } from '../../support/app.ts';
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

  test('has no trace id for a traceparent that is malformed', async () => {
    const app = await startApp();
    for (const header of [
      ...['nonsense', traceparent.toUpperCase(), `00-${traceId}`, '', traceparent.slice(1), `x${traceparent}`],
      ...[traceparent.slice(0, -1), traceparent.slice(0, -3), traceparent.replace('0af', '0a')],
    ]) {
      const { status, headers } = await app.call('GET', '/v1/pets', { headers: { traceparent: header } });
      expect(status, `${header}`).toBe(200);
      expect(await lineOf(app, headers['x-request-id'])).not.toHaveProperty('traceId');
    }
  });
});
