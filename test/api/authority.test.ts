/** Tests that whoever loses a key, a session or an account while a request is still arriving changes nothing with it. */
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { newToken } from '../../src/core/people.ts';
import { keyOf, makeKey, type PagesApp, password, startPages } from '../support/account-pages.ts';
import { metricValue } from '../support/app.ts';
import { openSocket, tabby } from '../support/process.ts';
import { biscuit, borrowStore, textRows } from '../support/store.ts';
import { addAccount } from '../support/store-file.ts';

/** Sends the headers of a POST, waits until the server awaits the body, runs `meanwhile`, and sends the body. */
async function interrupt(
  app: PagesApp,
  path: string,
  headers: Record<string, string>,
  body: string,
  meanwhile: () => Promise<unknown>,
) {
  const socket = await openSocket(app.port);
  const lines = { host: `127.0.0.1:${app.port}`, connection: 'close', 'transfer-encoding': 'chunked', ...headers };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${path} HTTP/1.1\r\n${head.join('')}\r\n`);
  await expect.poll(() => metricValue(app.metrics, 'in_flight'), { interval: 5 }).toBe(1);
  await meanwhile();
  socket.write(`${body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`}0\r\n\r\n`);
  const answer = await text(socket);
  return { status: Number(answer.split(' ')[1]), answer };
}

describe('an API key', () => {
  const ends = {
    revoked_api_key: ({ store }: PagesApp, id: number) => store.accounts.revokeKey(id),
    expired_api_key: async ({ setTime }: PagesApp) => setTime(new Date(Date.now() + 10_000)),
    invalid_api_key: ({ store }: PagesApp) => store.accounts.removeAccount('tests'),
  };

  test.for([
    ['/v1/pets', 'revoked_api_key'],
    ['/v1/pets', 'expired_api_key'],
    ['/v1/pets', 'invalid_api_key'],
    ['/quickstart/messages', 'revoked_api_key'],
  ] as const)('that ends while the body of POST %s arrives gets 401 %s', async ([path, code]) => {
    const app = await startPages();
    const { key, id } = await app.newKey({ expiresAt: new Date(Date.now() + 5000) });
    const body = JSON.stringify(path === '/v1/pets' ? tabby : { message: 'Hello' });
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'k' };
    const { status, answer } = await interrupt(app, path, headers, body, () => ends[code](app, id));
    expect([status, answer.includes(`"code":"${code}"`)]).toEqual([401, true]);
    expect(answer).toMatch(/^www-authenticate: Bearer realm="animal-store", error="invalid_token"\r$/im);
    for (const table of ['pet', 'message', 'idempotency'])
      expect(await textRows(app.databaseUrl, `SELECT 1 FROM ${table}`)).toEqual([]);
  });

  test('that loses pets:write while the body of a create arrives gets 403', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const key = keyOf(await makeKey(ada));
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'k' };
    const { status, answer } = await interrupt(app, '/v1/pets', headers, JSON.stringify(tabby), () =>
      ada.post('/account/keys/2', { name: 'website', scopes: 'pets:read' }),
    );
    expect([status, answer.includes('"code":"insufficient_scope"')]).toEqual([403, true]);
    expect(answer).toMatch(/^www-authenticate: .*error="insufficient_scope", scope="pets:write"\r$/im);
    for (const table of ['pet', 'idempotency'])
      expect(await textRows(app.databaseUrl, `SELECT 1 FROM ${table}`)).toEqual([]);
  });

  test('of many creates at once adds none that begins after its revocation', async () => {
    const { store } = await borrowStore();
    await addAccount(store, 'ada');
    const add = () => store.pets.add(biscuit, undefined, 1);
    const before = Array.from(Array(50), add);
    const revoked = store.accounts.revokeKey(1);
    const during = Array.from(Array(50), add);
    await revoked;
    const after = await Promise.all(Array.from(Array(50), add));
    expect(new Set(after.map(({ outcome }) => outcome))).toEqual(new Set(['revoked_api_key']));
    for (const { outcome } of await Promise.all([...before, ...during]))
      expect(['added', 'revoked_api_key']).toContain(outcome);
  });
});

describe('a session that ends while a form arrives', () => {
  /** Signs ada in, and sends a form of hers that `meanwhile` interrupts. */
  async function send(path: string, form: Record<string, string>, meanwhile: (app: PagesApp) => Promise<unknown>) {
    const app = await startPages();
    const client = await app.enterAs('ada');
    const token = client.jar.get(client.sessionName) as string;
    await makeKey(client, { name: 'first', scopes: 'pets:read' });
    const headers = {
      cookie: `${client.sessionName}=${token}`,
      'content-type': 'application/x-www-form-urlencoded',
      'sec-fetch-site': 'same-origin',
      accept: 'text/html',
    };
    const result = await interrupt(app, path.replace('ID', '2'), headers, new URLSearchParams(form).toString(), () =>
      meanwhile(app),
    );
    return { ...result, app };
  }
  const endAll = async ({ store, databaseUrl }: PagesApp) => {
    const [row] = await textRows(databaseUrl, "SELECT id FROM account WHERE name = 'ada'");
    const person = await store.people.findPerson('ada');
    const { hash } = newToken();
    await store.people.addSession(hash, Number(row?.id), person?.passwordHash as string);
    await store.people.endSessions(hash);
  };
  const newKey = { name: 'stolen', scopes: 'pets:read', expires: 'never' };

  test.for([
    ['/account/keys', newKey],
    ['/account/keys/ID', { name: 'stolen', scopes: 'pets:read' }],
    ['/account/keys/ID/rotate', { overlap: 'none' }],
    ['/account/keys/ID/revoke', {}],
    ['/account/password', { current: password, password: 'nine herons walk to town' }],
    ['/account/delete', { current: password }],
    ['/account/sign-out-everywhere', {}],
  ] as const)('changes nothing, and leads to the sign-in page: %s', async ([path, form]) => {
    let before: unknown;
    const state = async ({ store }: PagesApp) => [
      await store.accounts.listKeys('ada'),
      (await store.people.findPerson('ada'))?.passwordHash,
    ];
    const { app, status, answer } = await send(path, form, async (given) => {
      await endAll(given);
      before = await state(given);
    });
    expect([status, /^location: (.*)\r$/im.exec(answer)?.[1]]).toEqual([303, '/account/sign-in?done=ended']);
    expect(await state(app)).toEqual(before);
  });

  test('of an account that is deleted makes no key in the account of whoever took its name', async () => {
    const { app, status } = await send('/account/keys', newKey, async ({ store }) => {
      await store.accounts.removeAccount('ada');
      await store.people.signUp('ada', 'hash');
    });
    expect(status).toBe(303);
    expect(await app.store.accounts.listKeys('ada')).toEqual([]);
  });
});
