/** Tests of the account page of API keys over HTTP: make a key, list them, rotate one, revoke one. */
import { execFile, spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, test, vi } from 'vitest';
import type { Account } from '../../../src/core/accounts.ts';
import { ApiError } from '../../../src/core/errors.ts';
import { limits } from '../../../src/core/limits.ts';
import {
  alertOf,
  curlOf,
  faultAt,
  keyOf,
  makeKey,
  noticeOf,
  plainText,
  redirect,
  rotateKey,
  startPages,
} from '../../support/account-pages.ts';
import type { Page } from '../../support/form-client.ts';
import { textRows } from '../../support/store.ts';

const start = new Date('2027-03-01T10:00:00Z');
const later = (ms: number) => new Date(start.getTime() + ms);
const hourMs = 60 * 60_000;
const dayMs = 24 * hourMs;

describe('API keys', () => {
  test('can do what their scopes allow', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (const [scopes, reading, writing] of [
      [['pets:read'], 200, 403],
      [['pets:write'], 403, 201],
      [['pets:read', 'pets:write'], 200, 201],
    ] as [string[], number, number][]) {
      const page = await makeKey(ada, { scopes });
      expect(page.status).toBe(200);
      const key = keyOf(page);
      expect(key).toMatch(/^ast_test_[0-9A-Za-z]{36}$/);
      expect((await app.call('GET', '/v1/pets', { key })).status).toBe(reading);
      const pet = { name: 'Biscuit', categoryId: 7 };
      expect((await app.call('POST', '/v1/pets', { key, body: pet })).status).toBe(writing);
      const stored = (await app.store.accounts.listKeys('ada')).at(-1);
      expect(stored).toMatchObject({ name: 'website', scopes, expiresAt: null, hint: key.slice(0, 13) });
    }
  });

  test('of production begin with ast_live_', async () => {
    const app = await startPages({ live: true });
    const key = keyOf(await makeKey(await app.enterAs('ada')));
    expect(key).toMatch(/^ast_live_/);
    expect((await app.call('GET', '/v1/pets', { key })).status).toBe(200);
  });

  test('can be made to expire', async () => {
    const app = await startPages();
    app.setTime(start);
    const client = await app.enterAs('ada');
    for (const [expires, days] of [
      ['never', null],
      ['30d', 30],
      ['90d', 90],
      ['365d', 365],
    ] as const) {
      await makeKey(client, { expires });
      const expiresAt = days === null ? null : later(days * dayMs);
      expect((await app.store.accounts.listKeys('ada')).at(-1)).toMatchObject({ expiresAt });
      const shown = expiresAt ? `${expiresAt.toISOString().slice(0, 10)} 10:00 UTC` : 'never';
      expect(plainText(await client.get('/account'))).toContain(`Expires ${shown}`);
    }
  });

  test('are shown once: in no other page, no log line and no address', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const made = await makeKey(ada);
    const rotated = await rotateKey(ada, 2, '1h');
    await ada.post('/account/keys/3/revoke');
    const secrets = [keyOf(made), keyOf(rotated)];
    for (const [page, key] of [made, rotated].map((page, at) => [page, secrets[at] as string] as const)) {
      expect(page.headers.location).toBeUndefined();
      expect(page.headers['cache-control']).toBe('no-store');
      // The key itself and the curl line.
      expect(page.text.split(key)).toHaveLength(3);
      expect(plainText(page)).toMatch(/only this once|only time/);
    }
    const others = ['', '?done=revoked', '/settings', '/keys', '/keys/2/rotate', '/sign-in'];
    const pages = await Promise.all(others.map((path) => ada.get(`/account${path}`)));
    const texts = [...pages.map(({ text, headers }) => text + JSON.stringify(headers)), app.log()];
    texts.push(await app.metrics.registry.metrics());
    for (const key of secrets) {
      // The first 13 characters are shown as a hint.
      for (const text of texts) expect(text).not.toContain(key.slice(0, 14));
      expect(texts.join('')).not.toContain(key.slice(-12));
    }
    expect(pages[0]?.text).toContain(`${secrets[0]?.slice(0, 13)}…`);
    expect(
      (await textRows(app.databaseUrl, 'SELECT * FROM api_key')).map((row) => JSON.stringify(row)).join(),
    ).not.toMatch(new RegExp(secrets.map((key) => key.slice(14)).join('|')));
  });

  test('come with a curl line that works as it stands', async ({ skip }) => {
    if (spawnSync('curl', ['--version']).error) skip('curl is not installed');
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (const [scopes, status] of [
      ['pets:read', 200],
      ['pets:write', 201],
    ] as const) {
      const page = await makeKey(ada, { scopes });
      const line = curlOf(page);
      expect(line.startsWith(`curl -H 'Authorization: Bearer ${keyOf(page)}' `)).toBe(true);
      expect(line.endsWith(` '${app.url}/v1/pets'`)).toBe(true);
      const { stdout } = await promisify(execFile)('sh', ['-c', `${line} -sw ' %{http_code}'`]);
      expect(stdout).toMatch(new RegExp(` ${status}$`));
    }
  });

  test('come with the address of the browser, also if its host has an underscore', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (const host of ['animal_store:4616', 'animals.example.com', '[::1]:3000', '192.0.2.7:80']) {
      const line = curlOf(await makeKey(ada, { scopes: 'pets:read' }, { host }));
      expect(line.endsWith(` 'http://${host}/v1/pets'`), line).toBe(true);
    }
  });

  test('can be rotated; the old key works for the overlap', async () => {
    const app = await startPages();
    app.setTime(start);
    const ada = await app.enterAs('ada');
    const choices = { none: 0, '1h': hourMs, '24h': dayMs, '7d': 7 * dayMs };
    const made: string[] = [];
    for (const _ of Object.keys(choices)) made.push(keyOf(await makeKey(ada, { scopes: 'pets:read', expires: '90d' })));
    app.setTime(later(hourMs / 2));
    const statusOf = async (key = '') => (await app.call('GET', '/v1/pets', { key })).status;
    const rotated: string[] = [];
    for (const [at, [overlap, overlapMs]] of Object.entries(choices).entries()) {
      const page = await rotateKey(ada, at + 2, overlap);
      expect(page.status).toBe(200);
      rotated.push(keyOf(page));
      const expiresAt = later(hourMs / 2 + overlapMs);
      const shown = `works until ${expiresAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
      expect(plainText(page)).toContain(overlapMs === 0 ? 'The old key no longer works' : shown);
      const keys = await app.store.accounts.listKeys('ada');
      expect(keys[at]).toMatchObject({ expiresAt });
      const successor = { name: 'website', scopes: ['pets:read'], expiresAt: later(hourMs / 2 + 90 * dayMs) };
      expect(keys.at(-1)).toMatchObject(successor);
      expect([await statusOf(made[at]), await statusOf(rotated[at])]).toEqual([overlapMs === 0 ? 401 : 200, 200]);
    }
    // For the cache of keys.
    await sleep(600);
    for (const [at, overlapMs] of Object.values(choices).entries()) {
      app.setTime(later(hourMs / 2 + overlapMs));
      expect([await statusOf(made[at]), await statusOf(rotated[at])]).toEqual([401, 200]);
    }
  });

  test('can be revoked: requests are refused within a second, and the page says so', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const key = keyOf(await makeKey(ada));
    expect((await app.call('GET', '/v1/pets', { key })).status).toBe(200);
    expect(await ada.post('/account/keys/2/revoke')).toMatchObject(redirect('/account?done=revoked'));
    await vi.waitFor(
      async () =>
        expect(await app.call('GET', '/v1/pets', { key })).toMatchObject({ json: { code: 'revoked_api_key' } }),
      { timeout: 1000, interval: 50 },
    );
    const page = await ada.get('/account?done=revoked');
    expect(noticeOf(page)).toBe('The key is revoked. Requests with it are refused from now on.');
    expect(plainText(page)).toContain('You have no active key.');
    expect(page.text.match(/<dt>Revoked<\/dt>/g)).toHaveLength(1);
    // A second click finds the key revoked, and changes nothing.
    const [before] = await app.store.accounts.listKeys('ada');
    await ada.post('/account/keys/2/revoke');
    expect(await app.store.accounts.listKeys('ada')).toEqual([before]);
    const rotation = await rotateKey(ada, 2, 'none');
    expect([rotation.status, alertOf(rotation)]).toEqual([404, 'You have no such key.']);
  });

  test('that have expired cannot be rotated from a page that was left open', async () => {
    const app = await startPages();
    app.setTime(start);
    const ada = await app.enterAs('ada');
    await makeKey(ada, { expires: '30d' });
    app.setTime(later(30 * dayMs - 1));
    const again = await app.enter((await app.store.people.findPerson('ada'))?.account as Account);
    expect((await rotateKey(again, 2, '24h')).status).toBe(200);
    app.setTime(later(30 * dayMs));
    const before = await app.store.accounts.listKeys('ada');
    for (const overlap of ['24h', 'none']) {
      const refused = await rotateKey(again, 2, overlap);
      expect([refused.status, alertOf(refused)]).toEqual([404, 'You have no such key.']);
    }
    expect(await app.store.accounts.listKeys('ada')).toEqual(before);
  });

  test(`are at most ${limits.activeKeys} of an account: more are refused, also by rotation, until one is revoked`, async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const sentence = `You have ${limits.activeKeys} active keys, the most that an account can have: revoke one first.`;
    while ((await app.store.accounts.listKeys('ada')).length < limits.activeKeys) await app.newKey({ account: 'ada' });
    const refused = await makeKey(ada, { name: 'one more' });
    expect([refused.status, alertOf(refused)]).toEqual([400, sentence]);
    expect(refused.text).toContain('value="one more"');
    expect(plainText(refused)).toContain('Active keys 50 of 50');
    const { id } = (await app.store.accounts.listKeys('ada'))[0] as { id: number };
    const rotation = await rotateKey(ada, id, '24h');
    expect([rotation.status, alertOf(rotation)]).toEqual([400, sentence]);
    const all = await app.store.accounts.listKeys('ada');
    expect(all.filter(({ expiresAt, revokedAt }) => expiresAt === null && revokedAt === null)).toHaveLength(50);
    expect((await rotateKey(ada, id, 'none')).status).toBe(200);
    await ada.post(`/account/keys/${id + 1}/revoke`);
    expect((await makeKey(ada)).status).toBe(200);
    expect((await makeKey(ada)).status).toBe(400);
  });

  test('are neither made nor rotated with values that the form does not offer', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    await makeKey(ada);
    const before = await app.store.accounts.listKeys('ada');
    const scopeFault = 'Scopes must be at least one of pets:read, pets:write.';
    const lifetimeFault = 'Expires must be one of never, 30d, 90d, 365d.';
    for (const [form, sentence] of [
      [{ name: 'n'.repeat(101) }, 'Name must have 1 to 100 printable characters.'],
      [{ scopes: 'admin' }, scopeFault],
      [{ scopes: ['pets:read', 'admin'] }, scopeFault],
      [{ scopes: ['pets:read', 'pets:read'] }, scopeFault],
      [{ expires: '1000d' }, lifetimeFault],
      [{ expires: 'toString' }, lifetimeFault],
      [{ expires: ['never', '30d'] }, lifetimeFault],
    ] as [Record<string, string>, string][]) {
      const refused = await makeKey(ada, form);
      expect([refused.status, alertOf(refused)]).toEqual([400, sentence]);
    }
    for (const form of [{}, { overlap: '1000d' }, { overlap: 'valueOf' }, { overlap: ['1h', '1h'] }]) {
      const refused = await ada.post('/account/keys/2/rotate', form as Record<string, string>);
      expect([refused.status, alertOf(refused)]).toEqual([400, faultAt(refused, 'overlap-2')]);
    }
    expect(await app.store.accounts.listKeys('ada')).toEqual(before);
  });

  test('are listed newest first, with hint, scopes, times and calls of deprecated operations', async () => {
    const app = await startPages();
    app.setTime(start);
    const ada = await app.enterAs('ada');
    const [first, second] = [
      await makeKey(ada, { scopes: 'pets:read' }),
      await makeKey(ada, { name: 'import', expires: '30d' }),
    ];
    const idle = plainText(await ada.get('/account'));
    const hint = (page: Page) => `${keyOf(page).slice(0, 13)}…`;
    const created = 'Created 2027-03-01 10:00 UTC Last used never';
    expect(idle).toContain('Active keys 2 of 50');
    expect(idle).toMatch(
      new RegExp(
        `import Active until 2027-03-31 Key ${hint(second)} Scopes pets:read pets:write ${created} Expires 2027-03-31 10:00 UTC Deprecated calls 0 .*` +
          `website Active Key ${hint(first)} Scopes pets:read ${created} Expires never Deprecated calls 0 `,
      ),
    );
    expect(idle).not.toContain('5 December 2030');
    expect(idle).toContain('“Last used” and “Deprecated calls” are updated once a minute.');
    await app.store.accounts.recordUses([{ id: 2, lastUsedAt: later(hourMs), deprecatedCalls: 3 }]);
    const used = plainText(await ada.get('/account'));
    expect(used).toContain('Last used 2027-03-01 11:00 UTC Expires never Deprecated calls 3');
    expect(used).toContain(
      'GET /pets/{petId} , which ends on 5 December 2030. Use GET /pets with its status filter instead',
    );
    expect(used.split('5 December 2030')).toHaveLength(2);
  });

  test('say which key they replace, and which key replaces them, which cannot be rotated again', async () => {
    const app = await startPages();
    app.setTime(start);
    const ada = await app.enterAs('ada');
    const hint = (page: Page) => `${keyOf(page).slice(0, 13)}…`;
    const old = await makeKey(ada);
    const made = await rotateKey(ada, 2, '24h');
    expect(plainText(made)).toContain(`The old key ${hint(old)} works until 2027-03-02 10:00 UTC`);
    const page = await ada.get('/account');
    expect(plainText(page)).toContain(`Expires never Replaces ${hint(old)} Deprecated calls`);
    expect(plainText(page)).toContain(`Expires 2027-03-02 10:00 UTC Replaced by ${hint(made)} Deprecated calls`);
    expect(page.text).toContain('action="/account/keys/3/rotate"');
    expect(page.text).not.toContain('action="/account/keys/2/rotate"');
    const at0 = await rotateKey(ada, 3, 'none');
    expect(plainText(at0)).toContain(`The old key no longer works. Replace ${hint(made)} in your program.`);
  });

  test('that may be known to others are rotated with 0 hours, unless another time is chosen', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    await makeKey(ada);
    const page = await ada.get('/account');
    const [, select = ''] = /<select id="overlap-2"[^>]*>([\s\S]*?)<\/select>/.exec(page.text) ?? [];
    expect([...select.matchAll(/value="(\w+)"/g)].map(([, value]) => value)).toEqual(['none', '1h', '24h', '7d']);
    expect(select).not.toContain('selected');
  });

  test('announce their end in their last two weeks', async () => {
    const app = await startPages();
    app.setTime(start);
    const account = await app.addPerson('ada');
    await makeKey(await app.enter(account), { expires: '30d' });
    for (const [leftMs, when] of [
      [14 * dayMs + 1, undefined],
      [14 * dayMs, 'in 14 days'],
      [9.4 * dayMs, 'in 9 days'],
      [9 * dayMs - 1, 'in 9 days'],
      [dayMs, 'in 1 day'],
      [dayMs - 1, 'in less than a day'],
    ] as const) {
      app.setTime(later(30 * dayMs - leftMs));
      const text = plainText(await (await app.enter(account)).get('/account'));
      if (when === undefined) expect(text).not.toMatch(/Ending soon|Ends in/);
      else {
        expect(text).toContain(`Ending soon: website ${when}.`);
        expect(text).toContain(`Ends ${when}. Rotate it before then, and put the new key into its program.`);
      }
    }
  });

  test('that another one replaces announce their end with that one', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    await makeKey(ada);
    const successor = keyOf(await rotateKey(ada, 2, '7d'));
    const text = plainText(await ada.get('/account'));
    expect(text).toContain(`Put the key ${successor.slice(0, 13)}… into its program before then.`);
  });

  test('that have ended are listed apart, the latest 20', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (let count = 0; count < 22; count++) {
      const { id } = await app.newKey({ account: 'ada' });
      await app.store.accounts.revokeKey(id);
    }
    const page = await ada.get('/account');
    expect(plainText(page)).toContain('The latest 20 are shown.');
    expect(page.text.match(/<dt>Revoked<\/dt>/g)).toHaveLength(20);
  });
});

describe('a form that makes a key', () => {
  const forms = [
    ['/account/keys', { name: 'typed', scopes: 'pets:read', expires: '90d' }],
    ['/account/keys/2/rotate', { overlap: '24h' }],
  ] as const;

  test.each(forms)('%s %j of an open page of release 1.1.0 has a token, which is ignored', async (path, form) => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    await makeKey(ada);
    expect(keyOf(await ada.post(path, { ...form, token: 'any' }))).toMatch(/^ast_test_/);
  });

  const outcomes = forms.flatMap(([path, form]) => [true, false].map((isDone) => [path, form, isDone] as const));
  test.each(outcomes)(
    '%s %j whose outcome is unknown is shown again with what was chosen, below a list that tells it (made: %s)',
    async (path, form, isDone) => {
      const app = await startPages();
      const ada = await app.enterAs('ada');
      await makeKey(ada);
      const { accounts } = app.store;
      /** Does it or not, and loses the reply. */
      const losing =
        <Input extends unknown[]>(act: (...input: Input) => Promise<unknown>) =>
        async (...input: Input): Promise<never> => {
          if (isDone) await act(...input);
          throw new ApiError('service_unavailable');
        };
      Object.assign(accounts, { addKey: losing(accounts.addKey), rotateKey: losing(accounts.rotateKey) });
      const refused = await ada.post(path, form);
      expect(refused.status).toBe(503);
      expect(plainText(refused)).toContain(`Active keys ${isDone ? 2 : 1} of 50`);
      const [, shown] = new RegExp(`<form[^>]*action="${path}">(.*?)</form>`, 's').exec(refused.text) ?? [];
      // A key that was rotated after all has no such form any more.
      if ('overlap' in form && isDone) expect(shown).toBeUndefined();
      else if ('overlap' in form) expect(shown).toContain('value="24h" selected');
      else
        for (const chosen of [
          'value="typed"',
          'value="pets:read" checked',
          'value="pets:write">',
          'value="90d" selected',
        ])
          expect(shown).toContain(chosen);
    },
  );
});
