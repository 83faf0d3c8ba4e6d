/** Tests of If-Match and If-None-Match. */
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';

const pet = { name: 'Biscuit', categoryId: 7 };
const message = { message: 'Hello' };

describe('If-Match', () => {
  test('lets GET and HEAD pass while the entity-tag is current, by strong comparison, and before If-None-Match', async () => {
    const app = await startApp();
    await app.add(pet);
    for (const path of ['/v1/pets', '/v1/pets/1', '/openapi.json', '/docs']) {
      const { etag } = (await app.call('GET', path)).headers as { etag: string };
      for (const method of ['GET', 'HEAD']) {
        const statusWith = async (headers: Record<string, string>) =>
          (await app.call(method, path, { headers })).status;
        for (const held of ['*', ' * ', etag, `"other", ${etag}`, `"a,b",${etag} , "c"`])
          expect(await statusWith({ 'if-match': held }), `${path} ${held}`).toBe(200);
        for (const failed of ['"other"', `W/${etag}`, `w/${etag}`, etag.slice(1, -1), '', `${etag}x`])
          expect(await statusWith({ 'if-match': failed }), `${path} ${failed}`).toBe(412);
        expect(await statusWith({ 'if-match': etag, 'if-none-match': etag })).toBe(304);
        expect(await statusWith({ 'if-match': '"other"', 'if-none-match': etag })).toBe(412);
      }
    }
  });

  test('fails with the code precondition_failed, and the headers of the operation', async () => {
    const app = await startApp();
    await app.add(pet);
    const { status, json, headers } = await app.call('GET', '/v1/pets/1', { headers: { 'if-match': '"other"' } });
    expect([status, json]).toEqual([412, { code: 'precondition_failed', message: expect.any(String), status: 412 }]);
    expect(headers).toMatchObject({ 'cache-control': 'no-store', deprecation: '@1795132800' });
  });
});

describe('a POST', () => {
  test('changes something only if its preconditions hold', async () => {
    let count = 0;
    const app = await startApp();
    for (const [path, body, headers, status] of [
      ['/v1/pets', pet, { 'if-none-match': '*' }, 412],
      ['/v1/pets', pet, { 'if-none-match': ' * ' }, 412],
      ['/v1/pets', pet, { 'if-match': '"other"' }, 412],
      ['/v1/pets', pet, { 'if-match': 'nonsense' }, 412],
      ['/v1/pets', pet, { 'if-match': '*', 'if-none-match': '*' }, 412],
      ['/v1/pets', pet, { 'if-match': '*' }, 201],
      ['/v1/pets', pet, { 'if-none-match': '"other"' }, 201],
      // Nothing can be read at this path.
      ['/quickstart/messages', message, { 'if-match': '*' }, 412],
      ['/quickstart/messages', message, { 'if-match': '"other"' }, 412],
      ['/quickstart/messages', message, { 'if-none-match': '*' }, 202],
    ] as const) {
      const answer = await app.call('POST', path, { body, headers });
      expect(answer.status, `${path} ${JSON.stringify(headers)}`).toBe(status);
      if (status === 412) expect(answer.json.code).toBe('precondition_failed');
      expect((await app.call('GET', '/v1/pets')).json).toHaveLength(status === 201 ? ++count : count);
    }
  });

  test('with the ETag of the list in If-Match returns 412: it is that of one page', async () => {
    const app = await startApp();
    const { etag } = (await app.call('GET', '/v1/pets')).headers as { etag: string };
    expect((await app.add(pet, { 'if-match': etag })).status).toBe(412);
  });

  test('that is retried with If-None-Match: * returns 412, also if it has added an animal', async () => {
    const app = await startApp();
    const retry = { 'idempotency-key': 'once' };
    expect((await app.add(pet, retry)).status).toBe(201);
    expect((await app.add(pet, { ...retry, 'if-none-match': '*' })).status).toBe(412);
    expect((await app.add(pet, retry)).headers['idempotent-replayed']).toBe('true');
  });
});

test('a precondition is not evaluated if the response would be an error without it', async () => {
  const app = await startApp();
  const { key: reader } = await app.newKey({ scopes: ['pets:read'] });
  const headers = { 'if-match': '"other"', 'if-none-match': '*' };
  const cases = [
    [401, 'POST', '/v1/pets', { key: null, body: pet }],
    [403, 'POST', '/v1/pets', { key: reader, body: pet }],
    [400, 'POST', '/v1/pets', { body: {} }],
    [400, 'POST', '/v1/pets', { body: '{', type: 'application/json' }],
    [415, 'POST', '/v1/pets', { body: 'x', type: 'text/plain' }],
    [400, 'GET', '/v1/pets?limit=0', {}],
    [404, 'GET', '/v1/pets/1', {}],
    [404, 'POST', '/v1/nowhere', { body: pet }],
    [405, 'PUT', '/v1/pets', { body: pet }],
    [501, 'GET', '/v1/store/orders', {}],
  ] as const;
  for (const [status, method, path, options] of cases)
    expect((await app.call(method, path, { ...options, headers })).status, `${method} ${path}`).toBe(status);
});
