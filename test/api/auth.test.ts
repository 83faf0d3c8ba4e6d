/** Tests which API keys are accepted, for what. What the Authorization header may look like is in http/framings.test.ts. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { newSecret } from '../../src/core/accounts.ts';
import { startApp } from '../support/app.ts';
import { documentNames, prefixes, readDocument } from '../support/described.ts';

describe('an API key', () => {
  test('gets 401 expired_api_key from the millisecond of its expiry', async () => {
    const { get, newKey, setTime, store } = await startApp();
    const expiresAt = new Date('2027-01-01T00:00:00Z');
    // Stop the clock: the store computes the lifetime of the key later than the test does.
    setTime(new Date(expiresAt.getTime() - 1));
    const { key, id } = await newKey({ expiresAt });
    expect((await get('/v1/pets', { key })).status).toBe(200);
    setTime(expiresAt);
    expect((await get('/v1/pets', { key })).json).toMatchObject({ code: 'expired_api_key', status: 401 });
    await store.accounts.revokeKey(id);
    await expect.poll(async () => (await get('/v1/pets', { key })).json.code).toBe('revoked_api_key');
  });

  test('that is revoked gets 401 revoked_api_key within a second', async () => {
    const { get, newKey, store } = await startApp();
    const { key, id } = await newKey();
    const headers = { authorization: `bearer ${key}` };
    expect((await get('/v1/pets', { key: null, headers })).status).toBe(200);
    await store.accounts.revokeKey(id);
    const revoked = { code: 'revoked_api_key', status: 401 };
    await expect
      .poll(async () => (await get('/v1/pets', { key })).json, { timeout: 1000, interval: 50 })
      .toMatchObject(revoked);
  });

  test('without the scope of the operation gets 403 insufficient_scope', async () => {
    const { call, newKey } = await startApp();
    const keys = { read: await newKey({ scopes: ['pets:read'] }), write: await newKey({ scopes: ['pets:write'] }) };
    const body = { name: 'Biscuit', categoryId: 7 };
    for (const [method, path, granted, status] of [
      ['POST', '/v1/pets', 'write', 201],
      ['POST', '/v1/pets', 'read', 403],
      ['GET', '/v1/pets', 'read', 200],
      ['GET', '/v1/pets', 'write', 403],
      ['HEAD', '/v1/pets', 'write', 403],
      ['GET', '/v1/pets/1', 'write', 403],
      ['HEAD', '/v1/pets/1', 'write', 403],
    ] as const) {
      const sent = { key: keys[granted].key, ...(method === 'POST' && { body }) };
      expect((await call(method, path, sent)).status, `${method} ${path} ${granted}`).toBe(status);
    }
  });

  test('opens no account page, whatever it may do', async () => {
    const { call, newKey } = await startApp();
    const { key } = await newKey();
    for (const [path, to] of [
      ['/account', ''],
      ['/account/keys/1', '?to=/keys/1'],
      ['/account/settings', '?to=/settings'],
    ] as const) {
      const signIn = { status: 303, headers: { location: `/account/sign-in${to}` } };
      expect(await call('GET', path, { key }), path).toMatchObject(signIn);
    }
    expect(await call('POST', '/account/keys', { key })).toMatchObject({ status: 403 });
  });

  test.each([true, false])('of the other kind of deployment gets 401 invalid_api_key: production %s', async (live) => {
    const { get, newKey } = await startApp({ live });
    const own = await newKey();
    const others = await newKey({ live: !live });
    expect(own.key).toMatch(live ? /^ast_live_/ : /^ast_test_/);
    expect((await get('/v1/pets', { key: own.key })).status).toBe(200);
    const message = live
      ? 'The API key is not one of production: keys of production start with ast_live_.'
      : 'The API key is one of production, and this is another deployment: its keys start with ast_test_.';
    // The prefix alone decides: the response to a key that exists and to one that does not is the same.
    for (const key of [others.key, newSecret(!live).key, live ? 'ast_test_x' : 'ast_live_x'])
      expect((await get('/v1/pets', { key })).json).toEqual({ code: 'invalid_api_key', message, status: 401 });
  });

  test('is needed by every method of every operation, whatever the body', async () => {
    const { call } = await startApp();
    const paths = documentNames.flatMap((name) =>
      Object.keys(readDocument(name).paths).map((path) => prefixes[name] + path.replace(/\{\w+\}/g, '1')),
    );
    expect(paths).toEqual(expect.arrayContaining(['/v1/pets', '/v1/pets/1', '/quickstart/messages']));
    const methods = ['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'TRACE', 'PROPFIND'];
    for (const path of paths)
      for (const method of methods)
        for (const key of [null, 'x']) {
          const { status } = await call(method, path, { key, ...(method === 'POST' && { body: '{' }) });
          expect([method, path, key, status]).toEqual([method, path, key, 401]);
        }
  });
});

test('a key is looked up at most twice a second', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { store, get } = await startApp();
  const findKey = vi.spyOn(store.accounts, 'findKey');
  for (const looked of [1, 2]) {
    for (let count = 0; count < 3; count++) await get('/v1/store/orders');
    expect(findKey).toHaveBeenCalledTimes(looked);
    vi.advanceTimersByTime(500);
  }
});
