import { describe, expect, test } from 'vitest';
import type { AppOptions } from '../../../src/app.ts';
import { newSecret, RefusedError } from '../../../src/core/accounts.ts';
import { ApiError } from '../../../src/core/errors.ts';
import { dayMs, hourMs, limits } from '../../../src/core/limits.ts';
import {
  alertOf,
  faultAt,
  formTokenOf,
  keyOf,
  makeKey,
  noticeOf,
  plainText,
  redirect,
  rotateKey,
  startPages,
} from '../../support/account-pages.ts';
import type { Page } from '../../support/form-client.ts';
import { at, openWithPeople } from '../../support/people.ts';
import { textRows } from '../../support/store.ts';

const start = new Date('2027-03-01T10:00:00Z');
const later = (ms: number) => new Date(start.getTime() + ms);

const noKey = [404, 'You have no such key, or it was rotated or revoked in the meantime.'];
const hint = (page: Page) => `${keyOf(page).slice(0, 13)}…`;

/** A server at `start`, where `ada` is signed in and has no key. */
async function startWithAda(options: Partial<AppOptions> = {}) {
  const app = await startPages(options);
  app.setTime(start);
  const account = await app.addPerson('ada');
  return {
    app,
    account,
    ada: await app.enter(account),
    keys: () => app.store.accounts.listKeys('ada'),
    shown: async () => plainText(await (await app.enter(account)).get('/account')),
  };
}

test.each([
  [{ scopes: 'pets:read' }, null, 'ast_test_'],
  [{ scopes: 'pets:write', expires: '30d' }, 30, 'ast_test_'],
  [{ expires: '90d' }, 90, 'ast_live_'],
  [{ expires: '365d' }, 365, 'ast_live_'],
] as const)('a key has what the form %j chose, and begins as the deployment says', async (form, days, begin) => {
  const { app, ada, keys, shown } = await startWithAda({ live: begin === 'ast_live_' });
  const key = keyOf(await makeKey(ada, form));
  expect(key).toMatch(new RegExp(`^${begin}[0-9A-Za-z]{36}$`));
  const scopes = 'scopes' in form ? [form.scopes] : ['pets:read', 'pets:write'];
  const expiresAt = days && later(days * dayMs);
  expect(await keys()).toMatchObject([{ name: 'website', scopes, expiresAt, hint: key.slice(0, 13) }]);
  const inWords = days === 365 ? 'in 12 months' : `in ${days} days`;
  const until = expiresAt ? `${inWords} (${expiresAt.toISOString().slice(0, 10)} 10:00 UTC)` : 'never';
  expect(await shown()).toContain(`Expires ${until}`);
  const { status } = await app.get('/v1/pets', { key });
  expect(status).toBe(scopes.includes('pets:read') ? 200 : 403);
});

test('a key is shown once: in no other page, and not in the store', async () => {
  const { app, ada } = await startWithAda();
  const made = [await makeKey(ada), await rotateKey(ada, 2, '1h')];
  await ada.post('/account/keys/3/revoke');
  const others = ['', '?done=revoked', '/settings', '/keys', '/keys/2', '/keys/2/rotate', '/sign-in'];
  const pages = await Promise.all(others.map((path) => ada.get(`/account${path}`)));
  const rows = await textRows(app.databaseUrl, 'SELECT * FROM api_key');
  const texts = [...pages.map(({ text, headers }) => text + JSON.stringify(headers)), JSON.stringify(rows)].join();
  for (const page of made) {
    expect([page.headers.location, page.headers['cache-control']]).toEqual([undefined, 'no-store']);
    // The key itself and the curl line.
    expect(page.text.split(keyOf(page))).toHaveLength(3);
    expect(plainText(page)).toMatch(/only this once|only time/);
    // The first 13 characters are shown as a hint.
    expect(texts).toContain(keyOf(page).slice(0, 13));
    expect(texts).not.toContain(keyOf(page).slice(0, 14));
    expect(texts).not.toContain(keyOf(page).slice(-12));
  }
  expect(texts).not.toContain('undefined');
});

test.each([
  ['none', 0],
  ['1h', hourMs],
  ['24h', dayMs],
  ['7d', 7 * dayMs],
])('a key can be rotated: the old one works for the overlap, %s', async (overlap, overlapMs) => {
  const { app, ada, keys, shown } = await startWithAda();
  const old = await makeKey(ada, { scopes: 'pets:read', expires: '90d' });
  app.setTime(later(hourMs / 2));
  expect((await ada.get('/account/keys/2')).text).toContain('<option value="24h" selected>');
  const made = await rotateKey(ada, 2, overlap);
  const expiresAt = later(hourMs / 2 + overlapMs);
  const until = `${expiresAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const text =
    overlapMs === 0 ? 'The old key stops working within a second.' : `The old key ${hint(old)} works until ${until}`;
  expect(plainText(made)).toContain(text);
  const successor = { name: 'website', scopes: ['pets:read'], expiresAt: later(hourMs / 2 + 90 * dayMs) };
  // A clock that is behind, or set back, does not bring it back.
  const revokedAt = overlapMs === 0 ? expiresAt : null;
  expect(await keys()).toMatchObject([{ expiresAt, revokedAt }, successor]);
  expect((await app.get('/v1/pets', { key: keyOf(made) })).status).toBe(200);
  const page = await ada.get('/account');
  expect(plainText(page)).toContain(`UTC) Replaces ${hint(old)}`);
  expect(plainText(page)).toContain(`Replaced by ${hint(made)}`);
  expect(page.text).not.toContain('action="/account/keys/2/rotate"');
  if (overlapMs > 0) expect(await shown()).toContain(`(put ${hint(made)} into its program)`);
});

test('a key can end at a date, which counts more than the choice beside it', async () => {
  const { ada, keys, shown } = await startWithAda();
  const made = await makeKey(ada, { expires: '30d', date: '2027-05-31' });
  expect(plainText(made)).toContain('It expires 2027-05-31 00:00 UTC.');
  expect(await keys()).toMatchObject([{ expiresAt: new Date('2027-05-31') }]);
  expect(await shown()).toContain('(2027-05-31 00:00 UTC)');
  await makeKey(ada, { name: 'import', expires: '30d', date: '' });
  expect((await keys())[1]).toMatchObject({ expiresAt: later(30 * dayMs) });
});

describe('the page of a key', () => {
  const page = '/account/keys/2';
  const both = ['pets:read', 'pets:write'];
  const change = { name: ' till ', scopes: 'pets:read', date: '2027-03-31' };

  test('renames it, takes a scope away, and ends it earlier; its successor has the scope and the lifetime that are left', async () => {
    const { app, ada, keys } = await startWithAda();
    const key = keyOf(await makeKey(ada));
    expect((await app.get('/v1/pets', { key })).status).toBe(200);
    expect(await ada.post(page, change)).toMatchObject(redirect(`${page}?done=changed`));
    // The key is still cached.
    const refused = await app.call('POST', '/v1/pets', { key, body: { name: 'Tabby', categoryId: 7 } });
    expect(refused).toMatchObject({ status: 403, json: { code: 'insufficient_scope' } });
    expect((await app.get('/v1/pets', { key })).status).toBe(200);
    const expiresAt = new Date('2027-03-31');
    expect(await keys()).toMatchObject([{ name: 'till', scopes: ['pets:read'], expiresAt }]);
    const shown = await ada.get(`${page}?done=changed`);
    expect(noticeOf(shown)).toBe('The key is changed. Within a second, this applies to all requests with it.');
    expect(plainText(shown)).toMatch(/Key till .*pets:read Active/);
    expect(shown.text).not.toContain('pets:write');
    app.setTime(later(hourMs / 2));
    await rotateKey(ada, 2, '24h');
    expect((await keys())[1]).toMatchObject({
      name: 'till',
      scopes: ['pets:read'],
      expiresAt: new Date(expiresAt.getTime() + hourMs / 2),
    });
  });

  test('takes pets:read away: within a second, reads get 403', async () => {
    const { app, ada } = await startWithAda();
    const key = keyOf(await makeKey(ada));
    expect((await app.get('/v1/pets', { key })).status).toBe(200);
    await ada.post(page, { name: 'website', scopes: 'pets:write' });
    const status = async () => (await app.get('/v1/pets', { key })).status;
    await expect.poll(status, { timeout: 1000, interval: 50 }).toBe(403);
  });

  test('leaves what is not changed', async () => {
    const { ada, keys } = await startWithAda();
    await makeKey(ada, { expires: '90d' });
    const before = await keys();
    await ada.post(page, { name: 'website', scopes: both, date: '' });
    expect(await keys()).toEqual(before);
  });

  const date = 'Expiry date must be from 2027-03-02 to 9998-12-31 (UTC).';
  test.each<[given: Record<string, string | string[]>, field: string, text: string]>([
    [{ scopes: both }, 'scopes', 'Scopes can only be taken away from a key: make another one.'],
    [{ scopes: [] }, 'scopes', 'Scopes must be at least one of pets:read, pets:write.'],
    [{ name: '' }, 'name', 'Name must have 1 to 100 printable characters.'],
    [{ date: '2027-04-01' }, 'date', "Expiry date must not be after the key's current end."],
    [{ date: '2027-03-01' }, 'date', date],
    [{ date: '2027-02-30' }, 'date', date],
    [{ date: '2027-3-9' }, 'date', date],
    [{ date: 'tomorrow' }, 'date', date],
    [{ date: '9999-01-01' }, 'date', date],
    [{ date: '10000-01-01' }, 'date', date],
    [{ date: ['2027-03-09', '2027-03-09'] }, 'date', 'Date must be given once.'],
  ])('refuses %j, and shows what was given', async (given, field, text) => {
    const { ada, keys } = await startWithAda();
    await makeKey(ada, { scopes: 'pets:read', expires: '30d' });
    const before = await keys();
    const refused = await ada.post(page, { ...change, date: '2027-03-09', ...given });
    expect([refused.status, alertOf(refused), faultAt(refused, field)]).toEqual([400, text, text]);
    expect(refused.text).toContain(`value="${'name' in given ? '' : ' till '}"`);
    expect(await keys()).toEqual(before);
    if (typeof given.date !== 'string') return;
    expect(refused.text).toContain(`value="${given.date}"`);
    if (text !== date) return;
    const made = await makeKey(ada, { name: 'import', date: given.date });
    expect([made.status, faultAt(made, field)]).toEqual([400, text]);
  });

  test('changes no key that has ended', async () => {
    const { app, account, ada, keys } = await startWithAda();
    await makeKey(ada, { expires: '30d' });
    await makeKey(ada, { name: 'import' });
    await ada.post('/account/keys/3/revoke');
    const before = await keys();
    const revoked = await ada.post('/account/keys/3', change);
    expect([revoked.status, alertOf(revoked)]).toEqual(noKey);
    app.setTime(later(30 * dayMs));
    const late = await (await app.enter(account)).post(page, { ...change, date: '' });
    expect([late.status, alertOf(late)]).toEqual(noKey);
    expect(await keys()).toEqual(before);
  });
});

test('a key can be revoked; a second click, and a rotation from an open page, change nothing', async () => {
  const { ada, keys } = await startWithAda();
  await makeKey(ada);
  expect(await ada.post('/account/keys/2/revoke')).toMatchObject(redirect('/account?done=revoked'));
  const page = await ada.get('/account?done=revoked');
  expect(noticeOf(page)).toBe('The key is revoked. Within a second, requests with it are refused.');
  expect(plainText(page)).toMatch(/You have no active key\..* website .*Revoked now /);
  const before = await keys();
  expect(before).toMatchObject([{ revokedAt: start }]);
  await ada.post('/account/keys/2/revoke');
  const rotation = await rotateKey(ada, 2, 'none');
  expect([rotation.status, alertOf(rotation)]).toEqual(noKey);
  expect(await keys()).toEqual(before);
});

test('a key is rotated once, and needs a new one if its replacement has ended', async () => {
  const { ada } = await startWithAda();
  await makeKey(ada);
  await rotateKey(ada, 2, '1h');
  expect(alertOf(await rotateKey(ada, 2, '1h'))).toBe(noKey[1]);
  await ada.post('/account/keys/3/revoke');
  const page = plainText(await ada.get('/account'));
  expect(page).toMatch(/Ending soon: website in 1 hour .*\(its replacement has ended: make a new key\)\./);
});

test('an account has at most 50 active keys: more are refused, also by rotation', async () => {
  const { app, ada, keys } = await startWithAda();
  while ((await keys()).length < limits.activeKeys) await app.newKey({ account: 'ada' });
  const id = (await keys())[0]?.id as number;
  const before = await keys();
  const refused = await makeKey(ada, { name: 'one more' });
  expect(refused.text).toContain('value="one more"');
  expect(plainText(refused)).toContain('Active keys 50 of 50');
  for (const page of [refused, await rotateKey(ada, id, '24h')])
    expect([page.status, alertOf(page)]).toEqual([
      400,
      'You have 50 active keys, the most that an account can have: revoke one first.',
    ]);
  expect(await keys()).toEqual(before);
  expect((await rotateKey(ada, id, 'none')).status).toBe(200);
});

test('keys are listed newest first, with what they are for and how they were used', async () => {
  const { app, ada, shown } = await startWithAda();
  const first = await makeKey(ada, { scopes: 'pets:read' });
  const second = await makeKey(ada, { name: 'import', expires: '30d' });
  await app.store.accounts.recordUses([{ id: 2, lastUsedAt: later(hourMs), clientErrors: 3, deprecatedCalls: 3 }]);
  const created = 'Created now \\(2027-03-01 10:00 UTC\\) Last used';
  const newest = `import , ${hint(second).slice(0, -1)} ${hint(second)} pets:read pets:write ${created} never Expires in 30 days`;
  const used = `in 1 hour \\(2027-03-01 11:00 UTC\\) Expires never Deprecated calls today 3 3 requests today`;
  const oldest = `${hint(first)} pets:read ${created} ${used}`;
  expect(await shown()).toMatch(new RegExp(`Active keys 2 of 50\\. .*${newest}.*${oldest}`));
});

test('keys that have ended are listed apart, the latest 20', async () => {
  const { app, ada } = await startWithAda();
  for (let count = 0; count < 22; count++)
    await app.store.accounts.revokeKey((await app.newKey({ account: 'ada' })).id);
  const page = await ada.get('/account');
  expect(plainText(page)).toContain('The latest 20 are shown.');
  expect(page.text.match(/<dt>Revoked<\/dt>/g)).toHaveLength(20);
});

test('a key announces its end in its last two weeks', async () => {
  const { app, ada, shown } = await startWithAda();
  await makeKey(ada, { expires: '30d' });
  for (const [leftMs, when] of [
    [14 * dayMs + 1, undefined],
    [14 * dayMs, 'in 14 days'],
    [dayMs, 'in 1 day'],
    [dayMs - 1, 'in 1 day'],
    [dayMs - 60_000, 'in 24 hours'],
    [90 * 60_000, 'in 2 hours'],
    [60_000, 'in 1 minute'],
    [29_999, 'now'],
  ] as const) {
    app.setTime(later(30 * dayMs - leftMs));
    const text = await shown();
    if (when === undefined) expect(text).not.toContain('Ending soon');
    else
      expect(text).toContain(
        `Ending soon: website ${when} (2027-03-31 10:00 UTC) . Rotate a key before its end, and put the new one into its program.`,
      );
  }
});

test('times are relative, and exact for the mouse and for screen readers', async () => {
  const { app, account, ada } = await startWithAda();
  await makeKey(ada);
  for (const [ms, text] of [
    [0, 'now'],
    [59 * 60_000, '59 minutes ago'],
    [hourMs, '1 hour ago'],
    [2 * dayMs, '2 days ago'],
    [99 * dayMs, '99 days ago'],
    [122 * dayMs, '4 months ago'],
    [800 * dayMs, '2 years ago'],
  ] as const) {
    app.setTime(later(ms));
    const page = await (await app.enter(account)).get('/account/keys/2');
    expect(page.text).toContain(
      `<dt>Created</dt><dd><time datetime="2027-03-01T10:00:00.000Z" title="2027-03-01 10:00 UTC">${text}<span class="unseen"> (2027-03-01 10:00 UTC)</span></time>`,
    );
  }
});

describe('a form that makes a key', () => {
  const typed = { name: 'typed', scopes: 'pets:read', expires: '90d' };
  const outcomes = [
    ['/account/keys', typed, true],
    ['/account/keys', typed, false],
    ['/account/keys/2/rotate', { overlap: '24h' }, true],
    ['/account/keys/2/rotate', { overlap: '24h' }, false],
  ] as const;

  test.each(outcomes)(
    '%s %j whose outcome is unknown is shown again with what was chosen, below a list that tells it (made: %s)',
    async (path, form, isDone) => {
      const { app, ada } = await startWithAda();
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
      const isRotation = 'overlap' in form;
      const chosen = isRotation
        ? ['value="24h" selected']
        : ['value="typed"', 'value="pets:read" checked', 'value="pets:write">', 'value="90d" selected'];
      // A key that was rotated after all has no such form any more.
      if (isRotation && isDone) expect(shown).toBeUndefined();
      else for (const text of chosen) expect(shown).toContain(text);
    },
  );
});

test('a name that an active key has is a warning: nothing is made before it is confirmed', async () => {
  const { app, ada, keys } = await startWithAda();
  await makeKey(ada);
  const form = { name: ' website ', scopes: ['pets:read'], expires: '30d' };
  const warned = await ada.post('/account/keys', form);
  const sentence = 'You have an active key with this name: choose another, or make it anyway.';
  expect([warned.status, alertOf(warned), faultAt(warned, 'name')]).toEqual([400, sentence, sentence]);
  for (const text of [
    '<details id="make" open>',
    'value="pets:read" checked',
    'value="pets:write">',
    'value="30d" selected',
    'name="anyway" value="yes">Make it anyway<',
  ])
    expect(warned.text).toContain(text);
  expect(await keys()).toHaveLength(1);
  // Another fault has no such button, and the button does not hide it.
  const other = await ada.post('/account/keys', { ...form, scopes: [], anyway: 'yes' });
  expect([other.status, other.text.includes('Make it anyway')]).toEqual([400, false]);
  await makeKey(ada, { ...form, anyway: 'yes' });
  await app.store.accounts.revokeKey(2);
  await app.store.accounts.revokeKey(3);
  expect((await ada.get('/account')).text).toContain('<details id="make" open>');
  await makeKey(ada);
  expect(await keys()).toMatchObject([{}, { name: 'website' }, { revokedAt: null }]);
  expect((await ada.get('/account')).text).toContain('<details id="make">');
});

describe('a form makes one key, however often it is sent', () => {
  const made = redirect('/account?done=made');

  test.for([
    ['/account/keys', { name: 'report', scopes: 'pets:read', expires: 'never' }],
    ['/account/keys', { name: 'website', scopes: 'pets:read', expires: 'never', anyway: 'yes' }],
    ['/account/keys/2/rotate', { overlap: 'none' }],
    ['/account/keys/2/rotate', { overlap: '1h' }],
  ] as const)('%s %j', async ([path, fields]) => {
    const { app, ada, keys } = await startWithAda();
    await makeKey(ada);
    const form = { ...fields, token: formTokenOf(await ada.get('/account')) };
    // Two clicks.
    const pages = await Promise.all([ada.post(path, form), ada.post(path, form)]);
    const page = pages.find(({ status }) => status === 200) as Page;
    expect(pages.find((other) => other !== page)).toMatchObject(made);
    expect(page).toMatchObject({ headers: { 'cache-control': 'no-store' }, cookies: [] });
    expect(await app.call('GET', '/v1/pets', { key: keyOf(page) })).toMatchObject({ status: 200 });
    const before = await keys();
    expect(before).toHaveLength(2);
    // A reload.
    expect(await ada.post(path, form)).toMatchObject(made);
    expect(noticeOf(await ada.get('/account?done=made'))).toBe(
      'This form has made its key before. If you did not see it, revoke it and make another.',
    );
    expect(await keys()).toEqual(before);
  });

  test('and spends no other: of its page, with other fields, of another tab, or of another person', async () => {
    const { app, ada, keys } = await startWithAda();
    const ben = await app.enterAs('ben');
    await makeKey(ada);
    const form = { scopes: 'pets:read', expires: 'never' };
    const [tab, other] = [formTokenOf(await ada.get('/account')), formTokenOf(await ada.get('/account'))];
    for (const [client, path, fields] of [
      [ada, '/account/keys', { ...form, name: 'one', token: tab }],
      [ada, '/account/keys', { ...form, name: 'two', token: tab }],
      [ada, '/account/keys', { ...form, name: 'one', anyway: 'yes', token: other }],
      [ada, '/account/keys/2/rotate', { overlap: 'none', token: tab }],
      [ada, '/account/keys/3/rotate', { overlap: 'none', token: tab }],
      [ben, '/account/keys', { ...form, name: 'one', token: tab }],
    ] as const)
      expect((await client.post(path, fields)).status).toBe(200);
    expect(await keys()).toHaveLength(6);
  });

  test('but not one that was refused, nor a key that a page of 3.0.1 asks for, which has no token', async () => {
    const { ada, keys } = await startWithAda();
    const token = formTokenOf(await ada.get('/account'));
    expect((await makeKey(ada, { token, scopes: [] })).status).toBe(400);
    expect((await makeKey(ada, { token: [token, token] })).status).toBe(400);
    for (const more of [{ token }, { anyway: 'yes' }, { anyway: 'yes' }])
      expect((await makeKey(ada, more as Record<string, string>)).status).toBe(200);
    expect(await keys()).toHaveLength(3);
    // Its form, sent to 3.0.1, leads to a page that only 3.0.1 has.
    expect(await ada.get('/account/keys/new')).toMatchObject(made);
  });
});

describe('the keys of an account', () => {
  test.each<[lifetimeMs: number | null, overlapUntil: number, old: number, next: number | null]>([
    [90 * dayMs, 31 * dayMs, 31 * dayMs, 120 * dayMs],
    [90 * dayMs, 100 * dayMs, 90 * dayMs, 120 * dayMs],
    [null, 31 * dayMs, 31 * dayMs, null],
  ])('that live for %s ms and overlap until %s are rotated to keys like them', async (lifetimeMs, until, old, next) => {
    const { addKey, rotateKey, listKeys, findKey, setTime } = await openWithPeople();
    const key = await addKey('ada', lifetimeMs);
    setTime(30 * dayMs);
    const secret = newSecret(false);
    const { accountId, name, scopes } = key;
    const rotated = { id: 2, accountId, name, scopes, expiresAt: next && at(next), revokedAt: null };
    const replaced = { ...key, expiresAt: at(old) };
    expect(await rotateKey(key.id, at(until), secret)).toMatchObject({ key: rotated, old: replaced });
    expect((await listKeys())[0]).toEqual(replaced);
    expect((await findKey(secret.hash))?.id).toBe(2);
  });

  test('do not count for its limit when they are revoked or expired', async () => {
    const { addKey, revokeKey, setTime } = await openWithPeople();
    const add = async (count: number, lifetimeMs?: number) => {
      for (let index = 0; index < count; index++) await addKey('ada', lifetimeMs);
      await expect(addKey()).rejects.toThrow(RefusedError);
    };
    await add(limits.activeKeys, hourMs);
    await revokeKey(1);
    await add(1);
    setTime(hourMs - 1);
    await add(0);
    setTime(hourMs);
    await add(limits.activeKeys - 1);
  });

  test('are at most 100 in 24 hours if a person makes them; an operator may make more', async () => {
    const { addKey, addSession, setTime } = await openWithPeople();
    const session = await addSession();
    for (let index = 0; index < 100; index++) {
      setTime(2 * index);
      await addKey({ session }, 1);
    }
    setTime(1000);
    await expect(addKey({ session }, 1)).rejects.toMatchObject({ reason: 'too_many_today' });
    await addKey();
    setTime(25 * hourMs);
    expect(await addKey({ session: await addSession() }, 1)).toBeDefined();
  });
});
