/** Tests of GET /v1/store/orders, of unknown paths, and of the warning before the removal of getPet. */
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';

describe('GET /v1/store/orders', () => {
  test('returns 501 not_implemented with a key', async () => {
    const { call, log } = await startApp();
    expect((await call('GET', '/v1/store/orders')).json).toEqual({
      code: 'not_implemented',
      message: 'This operation is a placeholder and is not implemented.',
      status: 501,
    });
    // It must not alert the operator.
    expect(log()).not.toContain('"level":50');
  });
});

describe('a path without an operation', () => {
  test('returns 404 route_not_found', async () => {
    const { call } = await startApp();
    for (const path of [
      '/',
      '/v1',
      '/v1/',
      '/v1/pet',
      '/v1/Pets',
      '/v1/store',
      '/v1/pets/1/x',
      '/v1//pets',
      '/v2/pets',
    ] as const) {
      for (const method of ['GET', 'POST']) {
        const answer = await call(method, path, { body: method === 'POST' ? 'x' : undefined, type: 'text/plain' });
        expect(answer, `${path}`).toMatchObject({
          status: 404,
          json: { code: 'route_not_found' },
          headers: { 'cache-control': 'no-store' },
        });
      }
    }
  });

  test('returns 414 uri_too_long for more than 8,192 characters', async () => {
    const { call } = await startApp();
    expect((await call('GET', `/${'x'.repeat(8191)}`)).status).toBe(404);
    expect((await call('GET', `/${'x'.repeat(8192)}`)).json).toEqual({
      code: 'uri_too_long',
      message: 'The URL is longer than 8,192 bytes.',
      status: 414,
    });
  });
});
