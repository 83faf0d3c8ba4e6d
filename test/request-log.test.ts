import { describe, expect, test, vi } from 'vitest';
import { startApp, type TestApp } from './support/app.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

/** The line of the request that `id` names. */
async function lineOf({ log }: TestApp, id: unknown): Promise<Record<string, unknown>> {
  const find = () =>
    log()
      .split('\n')
      .find((line) => line.includes(String(id)));
  await vi.waitFor(() => expect(find()).toBeDefined());
  return JSON.parse(find() as string);
}

describe('the line of a request', () => {
  test.each([
    ['GET', '/v1/pets', 200, '/v1/pets'],
    ['HEAD', '/v1/pets', 200, '/v1/pets'],
    ['POST', '/v1/pets', 400, '/v1/pets'],
    ['GET', '/v1/pets/7', 404, '/v1/pets/:petId'],
    ['GET', '/nowhere', 404, null],
  ] as const)(
    '%s %s is the only one, and carries the id of the answer and of the trace',
    async (method, path, status, route) => {
      const app = await startApp();
      const before = app.log().length;
      // The second call finds the key known, and may take another way.
      for (let again = 0; again < 2; again++) {
        const { headers } = await app.call(method, path, { headers: { traceparent } });
        const reqId = headers['x-request-id'];
        const line = await lineOf(app, reqId);
        expect(line).toMatchObject({ level: 30, msg: 'request', reqId, method, route, status, traceId });
        expect(line.ms).toBeGreaterThan(0);
      }
      expect(app.log().slice(before).trim().split('\n')).toHaveLength(2);
    },
  );

  test('of a request that comes to no route has its id, its status and its code', async () => {
    const app = await startApp();
    const { status, headers } = await app.call('GET', '/%zz');
    const line = await lineOf(app, headers['x-request-id']);
    expect(line).toMatchObject({
      level: 30,
      msg: 'request',
      reqId: headers['x-request-id'],
      status,
      code: 'invalid_url',
    });
  });

  test.each(['nonsense', traceparent.toUpperCase(), `00-${traceId}`, ''])('names no trace for %s', async (header) => {
    const app = await startApp();
    const { status, headers } = await app.call('GET', '/v1/pets', { headers: { traceparent: header } });
    expect(status).toBe(200);
    expect(await lineOf(app, headers['x-request-id'])).not.toHaveProperty('traceId');
  });
});
