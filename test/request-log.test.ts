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
    ['GET', '/v1/pets', 200],
    ['HEAD', '/v1/pets', 200],
    ['GET', '/v1/pets/7', 404],
    ['GET', '/nowhere', 404],
  ] as const)('%s %s carries the id of the answer and of the trace', async (method, path, status) => {
    const app = await startApp();
    // The second call finds the key known, and may take another way.
    for (let again = 0; again < 2; again++) {
      const { headers } = await app.call(method, path, { headers: { traceparent } });
      const line = await lineOf(app, headers['x-request-id']);
      expect(line).toMatchObject({ level: 30, msg: 'request', reqId: headers['x-request-id'], status, traceId });
      expect(line.ms).toBeGreaterThan(0);
    }
  });

  test.each(['nonsense', traceparent.toUpperCase(), `00-${traceId}`, ''])('names no trace for %s', async (header) => {
    const app = await startApp();
    const { status, headers } = await app.call('GET', '/v1/pets', { headers: { traceparent: header } });
    expect(status).toBe(200);
    expect(await lineOf(app, headers['x-request-id'])).not.toHaveProperty('traceId');
  });
});
