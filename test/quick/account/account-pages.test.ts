/** Tests of the account pages over HTTP: what each page and each form does. */
import { readFile as readFromDisk } from 'node:fs/promises';
import { describe, expect, test, vi } from 'vitest';
import { ApiError } from '../../../src/core/errors.ts';
import {
  alertOf,
  curlOf,
  faultAt,
  keyOf,
  makeKey,
  noticeOf,
  type PagesApp,
  password,
  plainText,
  redirect,
  rotateKey,
  startPages,
} from '../../support/account-pages.ts';
import type { FormClient, Page } from '../../support/form-client.ts';
import { textRows } from '../../support/store.ts';

const start = new Date('2027-03-01T10:00:00Z');
const later = (ms: number) => new Date(start.getTime() + ms);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const cookie = /^session=[A-Za-z0-9_-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/;
const removed = /^session=; (?:Max-Age=0; )?Path=\/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Lax$/;

const toSignIn = redirect('/account/sign-in');
const ended = redirect('/account/sign-in?done=ended');

const namesOf = async ({ databaseUrl }: PagesApp) =>
  (await textRows(databaseUrl, "SELECT name FROM account WHERE name <> 'tests' ORDER BY id")).map(({ name }) => name);

describe('creating an account', () => {
  test('signs the person in, and leads to a page without a key', async () => {
    const app = await startPages();
    const ada = app.open();
    const form = await ada.get('/account/sign-up');
    expect(form).toMatchObject({ status: 200, cookies: [] });
    expect(form.text).toMatch(/<form [^>]*method="post" action="\/account\/sign-up">/);
    const created = await ada.post('/account/sign-up', { name: 'ada', password });
    expect(created).toMatchObject({ ...redirect('/account'), text: '' });
    expect(created.cookies).toEqual([expect.stringMatching(cookie)]);
    const keys = await ada.get('/account');
    expect(keys.status).toBe(200);
    expect(keys.text).toContain('You have no active key.');
    expect(await namesOf(app)).toEqual(['ada']);
  });

  test.each([
    ['invitation', 'Sign-up is by invitation: ask the operator of this service for a link.'],
    ['off', 'New accounts cannot be created here.'],
  ] as const)('is refused if SIGN_UP is %s: there is no form, and POST returns 403', async (signUp, sentence) => {
    const app = await startPages({ signUp });
    const client = app.open();
    const page = await client.get('/account/sign-up');
    expect(page.status).toBe(200);
    expect(page.text).not.toContain('<form');
    expect(page.text).not.toContain('<input');
    expect(plainText(page)).toContain(sentence);
    const refused = await client.post('/account/sign-up', { name: 'ada', password });
    expect(refused).toMatchObject({ status: 403, cookies: [] });
    expect(alertOf(refused)).toBe(sentence);
    expect((await client.get('/account/sign-in')).text).not.toContain('/account/sign-up');
    expect(await namesOf(app)).toEqual([]);
  });

  test('trims the name and normalizes it to NFC; both forms of the name sign in', async () => {
    const app = await startPages();
    await app.open().post('/account/sign-up', { name: ' \t Ame\u0301lie ', password });
    await app.open().post('/account/sign-up', { name: 'am\u00e9lie', password });
    // Capital and small letters differ.
    expect(await namesOf(app)).toEqual(['Am\u00e9lie', 'am\u00e9lie']);
    for (const name of ['Am\u00e9lie', 'Ame\u0301lie', '  Am\u00e9lie\r\n'])
      expect(await app.open().post('/account/sign-in', { name, password })).toMatchObject(redirect('/account'));
  });

  const hundred = 'n'.repeat(100);
  const wrongName = 'Name must have 1 to 100 printable characters.';

  test('refuses a password or a name that breaks a rule', async () => {
    const app = await startPages();
    const good = 'forty herons walk by the canal';
    const refusals = [
      ['ada', 'q8#nV2!xLp0@kZ', 'The password must have 15 to 256 characters; it has 14.'],
      ['ada', 'q8#nV2!xLp0@kZ7'.repeat(18).slice(0, 257), 'The password must have 15 to 256 characters; it has 257.'],
      ['ada', '', 'The password must have 15 to 256 characters; it has 0.'],
      ['ada', 'password123456789', 'The password is too common: choose one that nobody else would think of.'],
      ['ada', 'q8#nVq8#nVq8#nV', 'The password must not repeat the same characters.'],
      ['Captain Of A Blue Boat', 'captain of a blue boat', 'The password must be more than the name of the account.'],
      ...['', '   ', `${hundred}n`, 'ad\u0007a', 'ad\na', 'ad\u202Ea', `${'🦊'.repeat(101)}`].map((name) => [
        name,
        good,
        wrongName,
      ]),
    ] as const;
    for (const [name, text, sentence] of refusals) {
      const refused = await app.open().post('/account/sign-up', { name, password: text } as Record<string, string>);
      expect(refused, `${name}: ${text}`).toMatchObject({ status: 400, cookies: [] });
      expect(alertOf(refused)).toBe(sentence);
    }
    expect(await namesOf(app)).toEqual([]);
  });

  test('accepts a name of 100 code points, and a password of 256 in any script', async () => {
    const app = await startPages();
    const long = `${'Füchse schlafen 狐は眠る 🦊 '.repeat(20).slice(0, 250)}äöü€ß!`;
    const names = [hundred, '🦊'.repeat(100), '名前', "O'clock & more"];
    for (const name of names) {
      const form = { name, password: [...long].slice(0, 256).join('') };
      const browser = app.open();
      expect(await browser.post('/account/sign-up', form), name).toMatchObject({ status: 303 });
      expect(keyOf(await makeKey(browser, { name }))).toMatch(/^ast_test_/);
      expect(await app.open().post('/account/sign-in', form), name).toMatchObject({ status: 303 });
    }
    expect(await namesOf(app)).toEqual(names);
  });
});

describe('signing in', () => {
  test('begins a session with a new token each time, and ends the one that the browser had', async () => {
    const app = await startPages();
    await app.addPerson('ada');
    const [first, second] = [app.open(), app.open()];
    const signed = await first.post('/account/sign-in', { name: 'ada', password });
    expect(signed).toMatchObject({ ...redirect('/account'), text: '' });
    expect(signed.cookies).toEqual([expect.stringMatching(cookie)]);
    await second.post('/account/sign-in', { name: 'ada', password });
    const before = first.jar.get('session') as string;
    await first.post('/account/sign-in', { name: 'ada', password });
    const tokens = [before, first.jar.get('session'), second.jar.get('session')];
    expect(new Set(tokens).size).toBe(3);
    const statuses = tokens.map(async (token) => {
      const { status } = await app.open({ cookie: `session=${token}` }).get('/account');
      return status;
    });
    expect(await Promise.all(statuses)).toEqual([303, 200, 200]);
  });

  test('a person who is signed in is led from the forms to her keys', async () => {
    const app = await startPages();
    const ada = await app.enter(await app.addPerson('ada'));
    for (const path of ['/account/sign-in', '/account/sign-up'])
      expect(await ada.get(path)).toMatchObject(redirect('/account'));
  });

  test('a person who is signed in and mistypes another password is told so, and stays signed in', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    await app.addPerson('ben');
    const refused = await ada.post('/account/sign-in', { name: 'ben', password: 'wrong horse wrong battery' });
    expect([refused.status, alertOf(refused)]).toEqual([403, 'The name or the password is wrong.']);
    const taken = await ada.post('/account/sign-up', { name: 'ben', password });
    expect([taken.status, alertOf(taken)]).toEqual([400, 'This name is taken: choose another.']);
    expect((await ada.get('/account')).status).toBe(200);
  });

  test('each page that needs a session leads to the form; with a session that has ended it says so', async () => {
    const app = await startPages();
    const paths = ['/account', '/account/settings', '/account/keys', '/account/password', '/account/delete'];
    for (const path of paths) {
      expect(await app.open().get(path), path).toMatchObject({ ...toSignIn, cookies: [], text: '' });
      const late = app.open();
      late.jar.set('session', 'a'.repeat(43));
      expect(await late.get(path), path).toMatchObject(ended);
    }
    expect(noticeOf(await app.open().get('/account/sign-in?done=ended'))).toBe(
      'Your session has ended. Sign in again.',
    );
  });

  test('POST without a session leads to the form, and does nothing', async () => {
    const app = await startPages();
    await app.addPerson('ada');
    const form = { name: 'website', scopes: 'pets:read', expires: 'never' };
    for (const path of ['/account/keys', '/account/password', '/account/delete', '/account/sign-out-everywhere'])
      expect(await app.open().post(path, form), path).toMatchObject(toSignIn);
    expect(await app.store.accounts.listKeys('ada')).toEqual([]);
  });
});

describe('a session', () => {
  test('ends an hour after its last request', async () => {
    const app = await startPages();
    app.setTime(start);
    const ada = await app.enter(await app.addPerson('ada'));
    app.setTime(later(59 * minuteMs));
    expect((await ada.get('/account')).status).toBe(200);
    app.setTime(later(118 * minuteMs));
    expect((await ada.get('/account')).status).toBe(200);
    app.setTime(later(178 * minuteMs));
    expect(await ada.get('/account')).toMatchObject(ended);
    app.setTime(later(118 * minuteMs));
    expect((await ada.get('/account')).status).toBe(200);
  });

  test('is found though its use cannot be recorded, and then ends an hour after its last recorded use', async () => {
    const app = await startPages();
    app.setTime(start);
    const ada = await app.enterAs('ada');
    app.store.people.touchSession = () => Promise.reject(new ApiError('service_unavailable'));
    for (const minutes of [0, 2, 59]) {
      app.setTime(later(minutes * minuteMs));
      expect((await ada.get('/account')).status, `${minutes} minutes`).toBe(200);
    }
    app.setTime(later(hourMs));
    expect(await ada.get('/account')).toMatchObject(ended);
  });

  test('sign-out ends it in this browser only, and removes the cookie', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [here, there] = [await app.enter(account), await app.enter(account)];
    const token = here.jar.get('session');
    const out = await here.post('/account/sign-out');
    expect(out).toMatchObject(redirect('/account/sign-in?done=signed-out'));
    expect(out.cookies).toEqual([expect.stringMatching(removed)]);
    expect(noticeOf(await here.get('/account/sign-in?done=signed-out'))).toBe('You are signed out.');
    here.jar.set('session', token as string);
    expect(await here.get('/account')).toMatchObject(ended);
    expect((await there.get('/account')).status).toBe(200);
    // Without a session it says the same.
    expect(await app.open().post('/account/sign-out')).toMatchObject(redirect('/account/sign-in?done=signed-out'));
  });

  test('sign-out everywhere ends all of the account, and none of another', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [here, there] = [await app.enter(account), await app.enter(account)];
    const ben = await app.enter(await app.addPerson('ben'));
    const out = await here.post('/account/sign-out-everywhere');
    expect(out).toMatchObject(redirect('/account/sign-in?done=signed-out'));
    expect(out.cookies).toEqual([expect.stringMatching(removed)]);
    expect(await there.get('/account')).toMatchObject(ended);
    expect((await ben.get('/account')).status).toBe(200);
  });
});

describe('settings', () => {
  const next = 'forty herons walk by the canal';

  test('a new password ends the sessions of other browsers; this one goes on with a new token', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [here, there] = [await app.enter(account), await app.enter(account)];
    const before = here.jar.get('session');
    const form = await here.get('/account/settings');
    expect(plainText(form)).toMatch(/ as ada \./);
    const changed = await here.post('/account/password', { name: 'ada', current: password, password: next });
    expect(changed).toMatchObject(redirect('/account/settings?done=password'));
    expect(changed.cookies).toEqual([expect.stringMatching(cookie)]);
    expect(here.jar.get('session')).not.toBe(before);
    const page = await here.get('/account/settings?done=password');
    expect(noticeOf(page)).toBe('Your password is changed, and all other sessions have ended.');
    expect(await there.get('/account')).toMatchObject(ended);
    expect(await app.open({ cookie: `session=${before}` }).get('/account')).toMatchObject(ended);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password })).status).toBe(403);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password: next })).status).toBe(303);
  });

  test('a wrong current password, or a form with a fault, changes nothing', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [here, there] = [await app.enter(account), await app.enter(account)];
    for (const [form, status, sentence] of [
      [{ current: 'wrong horse wrong battery', password: next }, 403, 'The current password is wrong.'],
      [{ current: password, password: 'short' }, 400, 'The password must have 15 to 256 characters; it has 5.'],
      [
        { current: password, password: 'ada-password-2024' },
        400,
        'The password must be more than the name of the account.',
      ],
      [{ password: next }, 400, 'Current is required.'],
      [{ current: password, password: next, admin: '1' }, 400, '"admin" is not a known field.'],
    ] as [Record<string, string>, number, string][]) {
      const refused = await here.post('/account/password', form);
      expect(refused, sentence).toMatchObject({ status, cookies: [] });
      expect(alertOf(refused)).toBe(sentence);
      expect(refused.text).toContain('action="/account/password"');
    }
    for (const client of [here, there]) expect((await client.get('/account')).status).toBe(200);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password })).status).toBe(303);
  });

  test('deletion removes the account, its sessions and its keys, and no others', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [here, there] = [await app.enter(account), await app.enter(account)];
    const own = await app.newKey({ account: 'ada' });
    const other = await app.newKey();
    expect((await app.call('GET', '/v1/pets', { key: own.key })).status).toBe(200);

    const refused = await here.post('/account/delete', { current: 'wrong horse wrong battery' });
    expect(refused.status).toBe(403);
    expect(alertOf(refused)).toBe('The current password is wrong.');
    expect(await namesOf(app)).toEqual(['ada']);

    const deleted = await here.post('/account/delete', { name: 'ada', current: password });
    expect(deleted).toMatchObject(redirect('/account/sign-in?done=deleted'));
    expect(deleted.cookies).toEqual([expect.stringMatching(removed)]);
    expect(noticeOf(await here.get('/account/sign-in?done=deleted'))).toBe('Your account and its keys are deleted.');
    expect(await namesOf(app)).toEqual([]);
    expect(await there.get('/account')).toMatchObject(ended);
    await vi.waitFor(async () => expect((await app.call('GET', '/v1/pets', { key: own.key })).status).toBe(401), {
      timeout: 1000,
      interval: 50,
    });
    expect((await app.call('GET', '/v1/pets', { key: other.key })).status).toBe(200);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password })).status).toBe(403);
    // The name is free again, and what the old account had does not come back.
    const again = await app.addPerson('ada');
    expect(again.id).not.toBe(account.id);
    expect(await there.get('/account')).toMatchObject(ended);
  });
});

describe('a one-time link', () => {
  const next = 'forty herons walk by the canal';
  const gone =
    'This link is not valid: it was used, or it has expired. Ask the operator of this service for a new one.';

  test.each(['open', 'invitation'] as const)(
    'of an invitation creates an account whose name the person chooses, SIGN_UP %s',
    async (signUp) => {
      const app = await startPages({ signUp });
      const link = await app.addLink('invitation');
      const ada = app.open();
      const page = await ada.get(link);
      expect(plainText(page)).toContain('You are invited to create an account');
      const created = await ada.post(link, { name: 'ada', password });
      expect(created).toMatchObject(redirect('/account'));
      expect(created.cookies).toEqual([expect.stringMatching(cookie)]);
      expect((await ada.get('/account')).status).toBe(200);
      expect(await namesOf(app)).toEqual(['ada']);
      for (const again of [await app.open().get(link), await app.open().post(link, { name: 'eve', password })]) {
        expect(again).toMatchObject({ status: 404, cookies: [] });
        expect(alertOf(again)).toBe(gone);
      }
      expect(await namesOf(app)).toEqual(['ada']);
    },
  );

  test('of an invitation is refused if SIGN_UP is off, and a reset is not', async () => {
    const app = await startPages({ signUp: 'off' });
    const [invitation, reset] = [
      await app.addLink('invitation'),
      await app.addLink('reset', await app.addPerson('ada')),
    ];
    for (const refused of [
      await app.open().get(invitation),
      await app.open().post(invitation, { name: 'eve', password }),
    ]) {
      expect(refused).toMatchObject({ status: 403, cookies: [] });
      expect(alertOf(refused)).toBe('New accounts cannot be created here.');
    }
    expect(await app.open().post(reset, { password: next })).toMatchObject(redirect('/account'));
    expect(await namesOf(app)).toEqual(['ada']);
  });

  test('of an invitation for an account that has no password sets its first', async () => {
    const app = await startPages({ signUp: 'invitation' });
    const [tests] = await app.store.accounts.listAccounts();
    const link = await app.addLink('invitation', tests);
    const client = app.open();
    expect((await client.get(link)).text).toMatch(/<input [^>]*value="tests" [^>]*readonly/);
    expect(await client.post(link, { password: next })).toMatchObject(redirect('/account'));
    expect((await client.get('/account')).text).toContain('1 of 50');
    expect(await app.open().post('/account/sign-in', { name: 'tests', password: next })).toMatchObject({ status: 303 });
    expect((await client.get(link)).status).toBe(404);
  });

  test('of a reset replaces the password, and ends all sessions and other links of the account', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [first, second] = [await app.addLink('reset', account), await app.addLink('reset', account)];
    const thief = await app.enter(account);
    const ben = await app.enter(await app.addPerson('ben'));
    const ada = app.open();
    expect((await ada.get(first)).text).toMatch(/Its API keys stay valid/);
    expect(await ada.post(first, { password: next })).toMatchObject(redirect('/account'));
    expect((await ada.get('/account')).status).toBe(200);
    expect(await thief.get('/account')).toMatchObject(ended);
    expect((await ben.get('/account')).status).toBe(200);
    for (const used of [first, second]) expect((await app.open().post(used, { password })).status).toBe(404);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password })).status).toBe(403);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password: next })).status).toBe(303);
  });

  test('is not used up by GET, by HEAD, by a form with an error or by a name that is taken', async () => {
    const app = await startPages({ signUp: 'invitation' });
    await app.addPerson('ben');
    const link = await app.addLink('invitation');
    const client = app.open();
    for (const method of ['GET', 'HEAD', 'GET', 'OPTIONS', 'PUT']) await client.send(method, link);
    const taken = await client.post(link, { name: 'ben', password });
    expect([taken.status, alertOf(taken)]).toEqual([400, 'This name is taken: choose another.']);
    expect(taken.text).toContain('value="ben"');
    const short = await client.post(link, { name: 'ada', password: 'short' });
    expect([short.status, alertOf(short)]).toEqual([400, 'The password must have 15 to 256 characters; it has 5.']);
    expect((await client.post(link, { name: 'ada' })).status).toBe(400);
    expect(await namesOf(app)).toEqual(['ben']);
    expect(await client.post(link, { name: 'ada', password })).toMatchObject(redirect('/account'));
  });

  test('that is unknown or malformed returns 404', async () => {
    const app = await startPages();
    for (const token of [
      'a'.repeat(43),
      'a',
      'a'.repeat(5000),
      `${'a'.repeat(42)}=`,
      '%00',
      '..%2fkeys',
      '%F0%9F%A6%8A',
    ]) {
      const page = await app.open().get(`/account/links/${token}`);
      expect([page.status, alertOf(page)], token.slice(0, 50)).toEqual([404, gone]);
    }
  });
});

/** Each path of the pages with its methods, and what it needs: a session, a link or nothing. */
const paths = [
  ['/account', 'GET, HEAD', 'session'],
  ['/account/settings', 'GET, HEAD', 'session'],
  ['/account/keys', 'GET, HEAD, POST', 'session'],
  ['/account/keys/2/rotate', 'GET, HEAD, POST', 'session'],
  ['/account/keys/2/revoke', 'GET, HEAD, POST', 'session'],
  ['/account/password', 'GET, HEAD, POST', 'session'],
  ['/account/delete', 'GET, HEAD, POST', 'session'],
  ['/account/sign-out-everywhere', 'GET, HEAD, POST', 'session'],
  ['/account/sign-out', 'GET, HEAD, POST', 'nothing'],
  ['/account/sign-in', 'GET, HEAD, POST', 'nothing'],
  ['/account/sign-up', 'GET, HEAD, POST', 'nothing'],
  ['/account/links/LINK', 'GET, HEAD, POST', 'nothing'],
] as const;

describe('paths and methods', () => {
  test('each path returns 405 to other methods, 204 to OPTIONS, and to HEAD what it returns to GET, without its content', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [ada, nobody] = [await app.enter(account), app.open()];
    // The client itself asks to close the connection after HEAD.
    const without = ({ headers }: Page) =>
      Object.entries(headers).filter(([name]) => !/^(date|x-request-id|connection|keep-alive)$/.test(name));
    for (const [path, methods, needs] of paths) {
      const url = path.replace('/account/links/LINK', await app.addLink('reset', account));
      const allow = `${methods}, OPTIONS`;
      const others = ['PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', ...(methods.includes('POST') ? [] : ['POST'])];
      for (const client of needs === 'session' ? [ada, nobody] : [nobody]) {
        for (const method of others) {
          const headers = { origin: app.url, 'sec-fetch-site': 'same-origin' };
          const refused = await client.send(method, url, headers);
          expect(refused, `${method} ${path}`).toMatchObject({ status: 405, headers: { allow } });
        }
        expect(await client.send('OPTIONS', url), path).toMatchObject({ status: 204, text: '', headers: { allow } });
      }
      const client = needs === 'session' ? ada : nobody;
      const [got, head] = [await client.get(url), await client.send('HEAD', url)];
      expect([head.status, head.text], path).toEqual([got.status, '']);
      expect(without(head), path).toEqual(without(got));
    }
    expect((await app.store.accounts.listAccounts()).map(({ name }) => name)).toContain('ada');
  });

  test('GET of a path that has a form only leads to the page of the form, and changes nothing', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    await makeKey(ada);
    for (const [path, location] of [
      ['/account/keys', '/account'],
      ['/account/keys/2/rotate', '/account'],
      ['/account/keys/2/revoke', '/account'],
      ['/account/password', '/account/settings'],
      ['/account/delete', '/account/settings'],
      ['/account/sign-out-everywhere', '/account/settings'],
      ['/account/sign-out', '/account'],
    ] as const)
      expect(await ada.get(path), path).toMatchObject({ ...redirect(location), cookies: [] });
    expect((await ada.get('/account')).status).toBe(200);
    expect(await app.store.accounts.listKeys('ada')).toMatchObject([{ revokedAt: null, expiresAt: null }]);
  });

  test('other paths return 404', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const unknown = ['sign-in/', 'keys/', 'unknown', 'keys/2', 'links', 'links/', 'account.eta', 'keys.eta'];
    const others = ['/Account', '/account/../package.json', '/account/%2e%2e/package.json'];
    for (const path of [...unknown.map((name) => `/account/${name}`), ...others])
      for (const method of ['GET', 'HEAD'])
        expect((await ada.send(method, path)).status, `${method} ${path}`).toBe(404);
  });

  test('an unknown path says so to people, and leads back to the account or to the sign-in page', async () => {
    const app = await startPages({ baseUrl: 'http://animals.example.com/store/v1' });
    const ada = await app.enterAs('ada');
    for (const [client, link] of [
      [app.open(), '<a href="/store/account">Go to the sign-in page</a>'],
      [ada, '<a href="/store/account">Back to your account</a>'],
    ] as const) {
      for (const path of [
        '/account/nothing',
        '/account/keys/9/use',
        '/account/sign-in/',
        '/account/links/',
        '/account/a/b?c',
      ]) {
        const page = await client.get(path);
        expect([page.status, alertOf(page)], path).toEqual([404, 'There is no such page.']);
        expect(page.text).toContain(link);
        expect(plainText(page)).not.toMatch(/API is|GET/);
      }
    }
    expect(app.log()).toContain('"method":"GET","route":null,"path":"/account/…","status":404');
    expect(app.log()).not.toContain('"route":"/account/*"');
  });

  test('nothing is served if SIGN_UP is none', async () => {
    const app = await startPages({ signUp: 'none' });
    const client = app.open();
    for (const [path] of paths) expect((await client.get(path)).status, path).toBe(404);
    expect((await client.post('/account/sign-up', { name: 'ada', password })).status).toBe(404);
    expect(await namesOf(app)).toEqual([]);
  });

  test('notices come only from a fixed set', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (const query of [
      'done=hello',
      'done=toString',
      'done=__proto__',
      'done=',
      'done=revoked&done=revoked',
      'done[]=revoked',
      'error=x&notice=y',
      'done=%3Cb%3E',
    ]) {
      for (const page of [
        await ada.get(`/account?${query}`),
        await ada.get(`/account/settings?${query}`),
        await app.open().get(`/account/sign-in?${query}`),
      ]) {
        expect(page.status).toBe(200);
        expect([noticeOf(page), alertOf(page)], query).toEqual([undefined, undefined]);
      }
    }
    // A notice of one page is not shown on another.
    expect(noticeOf(await ada.get('/account/settings?done=revoked'))).toBeUndefined();
  });

  test('a client that wants no page gets errors in the shape of the API', async () => {
    const app = await startPages();
    const client = app.open({ accept: 'application/json' });
    const refused = await client.post('/account/sign-in', { name: 'ada', password: 'x' });
    expect(refused.headers['content-type']).toBe('application/json');
    expect(JSON.parse(refused.text)).toEqual({
      code: 'forbidden',
      message: 'The name or the password is wrong.',
      status: 403,
    });
  });

  test('a template that could not be read is read again for the next page', async () => {
    let failures = 1;
    const readFile = async (name: string) => {
      if (name.endsWith('.eta') && failures-- > 0) throw Object.assign(new Error('too many files'), { code: 'EMFILE' });
      return readFromDisk(new URL(`../../../src/pages/${name}`, import.meta.url));
    };
    const client = (await startPages({ readFile })).open();
    expect((await client.get('/account/sign-in')).status).toBe(500);
    expect((await client.get('/account/sign-in')).status).toBe(200);
  });

  test('a failure of the store shows a page with 503 and Retry-After, and another error one with 500', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    app.store.accounts.listOwnKeys = () => Promise.reject(new ApiError('service_unavailable'));
    const unavailable = await ada.get('/account');
    expect(unavailable).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    expect(alertOf(unavailable)).toMatch(/cannot answer right now/);
    app.store.accounts.listOwnKeys = () => Promise.reject(new Error('a secret of the store'));
    const broken = await ada.get('/account');
    expect(broken.status).toBe(500);
    expect(broken.text).not.toContain('a secret');
    // The form's page cannot be shown again either.
    expect((await makeKey(ada, { name: '' })).status).toBe(400);
  });
});

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
];

function expectPageHeaders({ headers, status, text }: Page, where: string, referrer = 'no-referrer'): void {
  expect(headers, where).toMatchObject({
    'cache-control': 'no-store',
    'referrer-policy': referrer,
    'x-content-type-options': 'nosniff',
    'cross-origin-opener-policy': 'same-origin',
    'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
  });
  expect(String(headers['content-security-policy']).split('; '), where).toEqual(policy);
  if (status === 303) return;
  expect(headers['content-type'], where).toBe('text/html; charset=utf-8');
  // Nothing that the policy would block, and nothing of another host.
  expect(text, where).not.toMatch(
    /<style|<script>|\sstyle=|\son\w+=|javascript:|(?:href|src|action)="(?!\/|#[a-z0-9-]+")/i,
  );
}

describe('a refused form', () => {
  const wrongName = 'Name must have 1 to 100 printable characters.';
  const short = 'The password must have 15 to 256 characters; it has 5.';
  const noPassword = 'The password must have 15 to 256 characters; it has 0.';
  const wrongPassword = 'The current password is wrong.';
  const next = 'forty herons walk by the canal';
  const lifetime = 'Expires must be one of never, 30d, 90d, 365d.';
  const overlap = 'Overlap must be one of none, 1h, 24h, 7d.';
  const noScope = 'Scopes must be at least one of pets:read, pets:write.';

  const refused: [string, Record<string, string>, Record<string, string>][] = [
    ['/account/sign-in', { name: 'ada', password: 'wrong' }, { password: 'The name or the password is wrong.' }],
    ['/account/sign-in', { name: '', password }, { name: wrongName }],
    ['/account/sign-up', { name: '', password }, { name: wrongName }],
    ['/account/sign-up', { name: 'ada', password }, { name: 'This name is taken: choose another.' }],
    ['/account/sign-up', { name: 'ben', password: 'short' }, { password: short }],
    ['/account/sign-up', { name: '', password: '' }, { name: wrongName, password: noPassword }],
    ['/account/sign-up', {}, { name: 'Name is required.', password: 'Password is required.' }],
    ['INVITATION', { name: '', password: 'short' }, { name: wrongName, password: short }],
    ['INVITATION', { name: 'ada', password }, { name: 'This name is taken: choose another.' }],
    ['INVITATION', { name: 'ben', password: 'short' }, { password: short }],
    ['RESET', { password: 'short' }, { password: short }],
    ['/account/keys', { name: '', expires: 'never' }, { name: wrongName, scopes: noScope }],
    ['/account/keys', { name: 'x', scopes: 'pets:read', expires: 'soon' }, { expires: lifetime }],
    ['/account/keys/2/rotate', { overlap: 'long' }, { 'overlap-2': overlap }],
    ['/account/password', { current: 'wrong', password: next }, { current: wrongPassword }],
    ['/account/password', { current: password, password: 'short' }, { password: short }],
    ['/account/delete', { current: 'wrong' }, { confirm: wrongPassword }],
  ];

  test('has each fault at its field, and in a summary that links to it', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const [ada, nobody] = [await app.enter(account), app.open()];
    await makeKey(ada);
    const links: Record<string, string> = {
      INVITATION: await app.addLink('invitation'),
      RESET: await app.addLink('reset', account),
    };
    for (const [path, form, faults] of refused) {
      const page = await (/keys|password|delete/.test(path) ? ada : nobody).post(links[path] ?? path, form);
      const what = `${path} ${JSON.stringify(form)}`;
      for (const [id, text] of Object.entries(faults)) {
        expect(faultAt(page, id), what).toBe(text);
        const [control] = new RegExp(`<[^>]* id="${id}"[^>]*>`).exec(page.text) ?? [];
        const described = id === 'scopes' ? `<fieldset aria-describedby="scopes-fault">` : control;
        expect(described, what).toMatch(new RegExp(`aria-describedby="([a-z0-9-]+-hint )?${id}-fault"`));
        if (id !== 'scopes') expect(control, what).toContain('aria-invalid="true"');
        else expect(page.text).toContain(described);
      }
      expect(page.text.match(/class="fault"/g), what).toHaveLength(Object.keys(faults).length);
      const [alert = ''] =
        /<div class="error" role="alert" id="error" tabindex="-1" autofocus>[\s\S]*?<\/div>/.exec(page.text) ?? [];
      const linked = [...alert.matchAll(/<a href="#([^"]*)">([^<]*)<\/a>/g)].map(([, id, text]) => [id, text]);
      expect(linked, what).toEqual(Object.entries(faults));
      expect(page.text).toContain('<title>Error: ');
      if (form.name) expect(page.text, what).toContain(`value="${form.name}"`);
      if (form.password) expect(page.text, what).not.toContain(`"${form.password}"`);
    }
  });
});

describe('the headers', () => {
  test('of every page and every error page keep it out of caches, frames and other sites', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const ada = await app.enter(account, { 'sec-fetch-site': 'same-origin' });
    const nobody = app.open({ 'sec-fetch-site': 'none' });
    const links = [await app.addLink('invitation'), await app.addLink('reset', account)];
    const wrong = { name: 'ada', current: 'x', password: 'y' };
    const pages: [string, Page][] = [];
    for (const [path] of paths) {
      if (path.includes('LINK')) continue;
      pages.push([`GET ${path}`, await ada.get(path)], [`GET ${path} without a session`, await nobody.get(path)]);
      pages.push([`POST ${path}, other site`, await ada.post(path, wrong, { 'sec-fetch-site': 'cross-site' })]);
      pages.push([`PUT ${path}`, await ada.send('PUT', path)]);
    }
    for (const link of [...links, '/account/links/x'])
      pages.push([`GET ${link}`, await nobody.get(link)], [`POST ${link}`, await nobody.post(link, wrong)]);
    for (const path of ['sign-in', 'sign-up'])
      pages.push([`POST ${path}`, await nobody.post(`/account/${path}`, { name: 'ada', password: 'y' })]);
    for (const path of ['keys', 'password', 'delete', 'keys/9/revoke', 'keys/9/rotate'])
      pages.push([`POST ${path}`, await ada.post(`/account/${path}`, wrong)]);
    pages.push(['413', await ada.post('/account/keys', 'a'.repeat(20_000))]);
    pages.push(['415', await ada.post('/account/keys', '{}', { 'content-type': 'application/json' })]);
    pages.push(['new key', await makeKey(ada)]);
    pages.push(['unknown path', await nobody.get('/account/unknown')]);
    expect(new Set(pages.map(([, { status }]) => status))).toEqual(new Set([200, 303, 400, 403, 404, 405, 413, 415]));
    for (const [where, page] of pages) expectPageHeaders(page, `${where}: ${page.status}`);
  });

  test('let browsers that send no Sec-Fetch-Site send Origin', async () => {
    const app = await startPages();
    expectPageHeaders(await app.open().get('/account/sign-in'), 'sign-in', 'same-origin');
  });

  test('of errors in the shape of the API are as strict', async () => {
    const app = await startPages();
    const api = app.open({ accept: '*/*' });
    const pages = [...(await Promise.all(['links/x', 'unknown'].map((path) => api.get(`/account/${path}`))))];
    // The path cannot be decoded: it belongs to no page.
    pages.push(await app.open().get('/account/links/x%'));
    for (const { headers } of pages)
      expect(headers).toMatchObject({
        'content-type': 'application/json',
        'cache-control': 'no-store',
        'content-security-policy': expect.stringMatching(/^default-src 'none';.* frame-ancestors 'none'$/),
        'x-content-type-options': 'nosniff',
      });
    expect(pages.map(({ status }) => status)).toEqual([404, 404, 400]);
  });
});

describe('the trail', () => {
  test('has one log line and one count for each event, with ids and the address', async () => {
    const app = await startPages({ trustProxy: ['127.0.0.1'] });
    const ada = app.open({ 'x-forwarded-for': '192.0.2.7' });
    const next = 'forty herons walk by the canal';
    const invitation = await app.addLink('invitation');
    await ada.post('/account/sign-up', { name: 'ada', password });
    await ada.post('/account/sign-out');
    await ada.post('/account/sign-in', { name: 'ada', password });
    await ada.post('/account/sign-in', { name: 'ada', password: 'wrong' });
    await ada.post('/account/sign-in', { name: 'nobody', password: 'wrong' });
    await makeKey(ada);
    await rotateKey(ada, 2, '1h');
    await ada.post('/account/keys/2/revoke');
    await ada.post('/account/password', { current: password, password: next });
    await ada.post('/account/password', { current: 'wrong', password: next });
    await ada.post('/account/delete', { current: 'wrong' });
    await ada.post('/account/delete', { current: next });
    await ada.post(invitation, { name: 'ben', password });
    const [, ben] = await app.store.accounts.listAccounts();
    await ada.post(await app.addLink('reset', ben), { password: next });
    // None of these is an event.
    await ada.post('/account/sign-up', { name: 'ben', password });
    await ada.post('/account/keys/99/revoke');
    await ada.post('/account/sign-out-everywhere');

    const [first, second] = [2, (ben as { id: number }).id];
    const expected = [
      { event: 'account_created', account: first },
      { event: 'signed_in', account: first },
      { event: 'sign_in_refused', account: first },
      { event: 'sign_in_refused' },
      { event: 'key_created', account: first, key: 2 },
      { event: 'key_rotated', account: first, key: 3 },
      { event: 'key_revoked', account: first, key: 2 },
      { event: 'password_changed', account: first },
      { event: 'sign_in_refused', account: first },
      { event: 'sign_in_refused', account: first },
      { event: 'account_removed', account: first },
      { event: 'account_created', account: second },
      { event: 'password_changed', account: second },
    ];
    const found = app.events();
    expect(
      found.map(({ event, account, key }) => ({ event, ...(account && { account }), ...(key && { key }) })),
    ).toEqual(expected);
    for (const { address, reqId } of found) {
      expect(address).toBe('192.0.2.7');
      expect(app.log().split(`"reqId":"${reqId}"`), 'the line of the event and of the request').toHaveLength(3);
    }
    const counts: Record<string, number> = {};
    for (const { event } of expected) counts[event] = (counts[event] ?? 0) + 1;
    expect(await app.counts()).toEqual(counts);
  });

  test('has the same address as the line of the request, whatever the proxy sends', async () => {
    const app = await startPages({ trustProxy: ['127.0.0.1'] });
    const sent = [
      ['192.0.2.7', '192.0.2.7'],
      ['192.0.2.7:5001', '192.0.2.7'],
      ['[2001:db8::7]:5001', '2001:db8::7'],
      ['no address', '127.0.0.1'],
    ] as const;
    const lines = () => app.log().trim().split('\n');
    for (const [count, [forwarded]] of sent.entries()) {
      await app.open({ 'x-forwarded-for': forwarded }).post('/account/sign-in', { name: 'ada', password });
      await vi.waitFor(() => expect(lines()).toHaveLength(2 * (count + 1)));
    }
    expect(
      lines()
        .map((line) => JSON.parse(line))
        .map(({ msg, address }) => [msg, address]),
    ).toEqual(
      sent.flatMap(([, address]) => [
        ['sign in refused', address],
        ['request', address],
      ]),
    );
  });

  test('neither log nor metrics have a name, a password, a session, a link or a key', async () => {
    const app = await startPages();
    const secrets = {
      name: 'canary-name-4711',
      key: 'canary-key-4712',
      password: 'canary password of 4713',
      next: 'canary password of 4714',
      wrong: 'canary password of 4715',
    };
    const words: string[] = Object.values(secrets);
    const ada = app.open();
    const remember = () => words.push(ada.jar.get('session') as string);
    const link = await app.addLink('invitation');
    words.push(link.slice('/account/links/'.length));
    await ada.get(link);
    await ada.post(link, { name: secrets.name, password: secrets.password });
    remember();
    await ada.post('/account/sign-in', { name: secrets.name, password: secrets.wrong });
    await ada.post('/account/sign-in', { name: secrets.name, password: secrets.password });
    remember();
    const made = await makeKey(ada, { name: secrets.key });
    const rotated = await rotateKey(ada, 2, '1h');
    for (const page of [made, rotated]) {
      words.push(keyOf(page), keyOf(page).slice(0, 13));
      await app.call('GET', '/v1/pets', { key: keyOf(page) });
      await app.call('GET', '/v1/pets/1', { key: keyOf(page) });
    }
    await ada.post('/account/keys/2/revoke');
    await ada.post('/account/password', { current: secrets.wrong, password: secrets.next });
    await ada.post('/account/password', { current: secrets.password, password: secrets.next });
    remember();
    const unlucky = [
      `/account/sign-in?name=${secrets.name}`,
      `/account/${secrets.name}`,
      `/account/links/${secrets.name}`,
      `/account/keys/${secrets.name}/revoke`,
    ];
    for (const path of unlucky) await ada.get(path);
    await ada.post('/account/keys', { [secrets.name]: secrets.password });
    await ada.post('/account/keys', `${secrets.name}=%FF${secrets.password}`);
    await ada.post('/account/delete', { current: secrets.next });
    const texts = app.log() + (await app.metrics.registry.metrics());
    expect(app.events().length).toBeGreaterThan(7);
    expect(words.filter((word) => word.length < 10)).toEqual([]);
    expect(words.filter((word) => texts.includes(word) || texts.includes(encodeURIComponent(word)))).toEqual([]);
  });
});

describe('with a public address of https', () => {
  const baseUrl = 'https://animals.example.com/v1';
  const https = { 'x-forwarded-proto': 'https', host: 'animals.example.com', origin: 'https://animals.example.com' };
  const refusal = 'This page is only available over https, at https://animals.example.com/account.';
  const secure = /^__Host-session=[A-Za-z0-9_-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/;
  const none = { 'sec-fetch-site': undefined, origin: https.origin };

  test('the cookie is for this host over https alone', async () => {
    const app = await startPages({ baseUrl, trustProxy: ['127.0.0.1'] });
    const ada = app.open(https);
    for (const [path, headers] of [
      ['sign-up', {}],
      ['sign-in', none],
    ] as const) {
      const signed = await ada.post(
        `/account/${path}`,
        { name: 'ada', password },
        { ...headers, origin: https.origin },
      );
      expect(signed).toMatchObject(redirect('/account'));
      expect(signed.cookies).toEqual([expect.stringMatching(secure)]);
    }
    expect((await ada.get('/account')).status).toBe(200);
    const out = await ada.post('/account/sign-out', {}, { origin: https.origin });
    expect(out.cookies[0]).toMatch(/^__Host-session=; .*Path=\/; .*HttpOnly; Secure; SameSite=Lax$/);
    expect(curlOf(await makeKey(await app.enter(await app.addPerson('ben'), https)))).toContain(
      " 'https://animals.example.com/v1/pets'",
    );
  });

  test('a form whose Origin is the http address or the address of this process is refused', async () => {
    const app = await startPages({ baseUrl, trustProxy: ['127.0.0.1'] });
    await app.addPerson('ada');
    for (const origin of [
      'http://animals.example.com',
      app.url,
      'https://animals.example.com:8443',
      'https://animals.example.com.evil.example.com',
    ]) {
      const sent = await app.open(https).post('/account/sign-in', { name: 'ada', password }, { ...none, origin });
      expect(sent, origin).toMatchObject({ status: 403, cookies: [] });
    }
  });

  test.each([
    ['without the proxy', ['127.0.0.1'], {}],
    ['with X-Forwarded-Proto: http', ['127.0.0.1'], { 'x-forwarded-proto': 'http' }],
    ['with X-Forwarded-Proto of an address that is not trusted', ['192.0.2.1'], { 'x-forwarded-proto': 'https' }],
    ['without TRUST_PROXY', undefined, { 'x-forwarded-proto': 'https' }],
  ] as const)(
    'every page is refused over plain http, %s, and no cookie is read or set',
    async (_how, proxy, headers) => {
      const trustProxy = proxy && [...proxy];
      const app = await startPages({ baseUrl, trustProxy });
      const account = await app.addPerson('ada');
      const ada = await app.enter(account, headers);
      const link = await app.addLink('reset', account);
      for (const [path] of paths) {
        for (const page of [
          await ada.get(path),
          await ada.post(path, { name: 'ada', password }, { ...none, 'sec-fetch-site': 'same-origin' }),
        ]) {
          if (page.status === 405) continue;
          expect(page, path).toMatchObject({ status: 403, cookies: [] });
          expect(alertOf(page)).toBe(refusal);
          // The page does not show whose session the cookie is.
          expect(page.text).not.toContain('Sign out');
        }
      }
      expect(await ada.post(link, { password: 'forty herons walk by the canal' }, none)).toMatchObject({ status: 403 });
      expect(app.log().split('refused over plain http')).toHaveLength(2);
      expect((await app.call('GET', '/v1/pets')).status).toBe(200);
    },
  );
});

test('below a path of the public address, links, forms and redirects begin with it', async () => {
  const app = await startPages({ baseUrl: 'http://example.com/store/v1' });
  const account = await app.addPerson('ada');
  const origin = { origin: 'http://example.com', 'sec-fetch-site': undefined } as unknown as Record<string, string>;
  const [ada, nobody] = [await app.enter(account, origin), app.open(origin)];
  const post = (client: FormClient, path: string, form: Record<string, string>) => client.post(path, form, origin);
  const pages = [
    await nobody.get('/account/sign-in'),
    await nobody.get('/account/sign-up'),
    await nobody.get('/account'),
    await nobody.get(await app.addLink('reset', account)),
    await nobody.get('/account/links/x'),
    await ada.get('/account'),
    await ada.get('/account/settings'),
    await makeKey(ada, { scopes: 'pets:read' }, origin),
    await ada.get('/account'),
    await post(ada, '/account/keys/2/revoke', {}),
    await ada.get('/account/keys'),
    await post(ada, '/account/password', { current: 'x', password: 'y' }),
    await post(ada, '/account/sign-out', {}),
    await post(nobody, '/account/sign-in', { name: 'ada', password }),
  ];
  const addresses = pages.flatMap(({ text, headers }) => [
    ...[...text.matchAll(/(?:href|src|action)="([^"]*)"/g)].map(([, address]) => address as string),
    ...(headers.location ? [headers.location as string] : []),
  ]);
  expect(addresses.length).toBeGreaterThan(60);
  expect(addresses.filter((address) => !/^(\/store\/(account|docs)(\/|$|\?|#)|#[a-z0-9-]+$)/.test(address))).toEqual(
    [],
  );
});
