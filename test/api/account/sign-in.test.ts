/** Tests of guessing passwords, of what a thief gets who knows an old one, and of where sign-in leads. Windows and simultaneous attempts: unit/account/attempts.test.ts. */

import { describe, expect, test } from 'vitest';
import {
  alertOf,
  next,
  noticeOf,
  password,
  redirect,
  sessionCookie,
  startPages,
  startWithAda,
  toKeys,
  wrong,
} from '../../support/account-pages.ts';
import type { Page } from '../../support/form-client.ts';

describe('brute force', () => {
  function expectLimited(page: Page) {
    const sentence = 'Too many failed attempts in 15 minutes: try again in 15 minutes.';
    expect([page.status, page.cookies, alertOf(page)]).toEqual([429, [], sentence]);
    expect(Number(page.headers['retry-after'])).toBeGreaterThan(0);
  }

  /** A server behind a proxy, with an account `ada`. */
  async function startBehindProxy() {
    const app = await startPages({ trustProxy: ['127.0.0.1'] });
    const account = await app.addPerson('ada');
    const signIn = (address: string, text: string) => app.signIn('ada', text, { 'x-forwarded-for': address });
    return { app, account, signIn };
  }

  test('through the forms that ask for the current password counts, too', async () => {
    const { app, account, signIn } = await startBehindProxy();
    const thief = await app.enter(account, { 'x-forwarded-for': '192.0.2.7' });
    for (let guess = 1; guess <= 90; guess++) await signIn(`203.0.113.${guess}`, wrong);
    for (let guess = 1; guess <= 10; guess++) {
      const form = guess % 2 ? { current: wrong, password: next } : { current: wrong };
      expect((await thief.post(`/account/${guess % 2 ? 'password' : 'delete'}`, form)).status).toBe(403);
    }
    expectLimited(await thief.post('/account/password', { current: password, password: next }));
    expectLimited(await thief.post('/account/delete', { current: password }));
    expect(app.events().at(-1)).toMatchObject({ event: 'sign_in_refused', account: account.id });
    expectLimited(await signIn('192.0.2.8', password));
    expect((await thief.get('/account')).status).toBe(200);
  });

  test('from one network locks out this network, and not the owner elsewhere', async () => {
    const { signIn } = await startBehindProxy();
    for (let guess = 1; guess <= 10; guess++) expect((await signIn('203.0.113.1', wrong)).status).toBe(403);
    expectLimited(await signIn('203.0.113.1', password));
    expect(await signIn('192.0.2.8', password)).toMatchObject(toKeys);
  });
});

test('a wrong password and an unknown name get the same response, but for the name that was typed', async () => {
  const app = await startPages();
  await app.addPerson('ada-1');
  // The last has no password.
  const names = ['ada-1', 'eve-1', 'tests'];
  const answers = await Promise.all(names.map((name) => app.signIn(name, wrong)));
  const [known, ...others] = answers.map(({ status, headers: { date, 'x-request-id': id, ...headers }, text }, at) => ({
    status,
    headers,
    text: text.replaceAll(names[at] as string, 'NAME'),
  }));
  expect([known?.status, known?.text.includes(wrong)]).toEqual([403, false]);
  for (const other of others) expect(other).toEqual(known);
});

describe('a thief who knows the old password', () => {
  const own = 'the thief has a password of his own';

  test.each([
    ['gets no session', '/account/sign-in', { name: 'ada', password }],
    ['cannot change it', '/account/password', { current: password, password: own }],
    ['cannot delete the account', '/account/delete', { current: password }],
  ] as const)('%s if the owner resets it meanwhile', async (_what, path, form) => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const thief = path === '/account/sign-in' ? app.open() : await app.enter(account);
    const { people } = app.store;
    const { findPerson } = people;
    // After the store has been asked for the old hash.
    people.findPerson = async (name) => {
      people.findPerson = findPerson;
      const found = await findPerson(name);
      expect(await app.open().post(await app.addLink('reset', account), { password: next })).toMatchObject(toKeys);
      return found;
    };
    await thief.post(path, form);
    expect((await thief.get('/account')).status).toBe(303);
    expect([(await app.signIn('ada', own)).status, (await app.signIn('ada', next)).status]).toEqual([403, 303]);
  });
});

describe('after sign-in', () => {
  const form = { name: 'ada', password };
  /** Where the form of a sign-in page leads. */
  const actionOf = ({ text }: Page) => /<form class="stack" method="post" action="([^"]*)"/.exec(text)?.[1] as string;

  test('a person is where she wanted to go, also after a wrong password', async () => {
    const app = await startPages();
    await app.addPerson('ada');
    const ada = app.open();
    const first = await ada.get('/account/keys/3?x=1');
    expect(first).toMatchObject(redirect('/account/sign-in?to=/keys/3'));
    const action = actionOf(await ada.get(first.headers.location as string));
    const refused = await ada.post(action, { ...form, password: wrong });
    expect([refused.status, actionOf(refused)]).toEqual([403, action]);
    expect(await ada.post(action, form)).toMatchObject(redirect('/account/keys/3?done=signed-in'));
    // Another tab has still the sign-in page.
    expect(await ada.get(action)).toMatchObject(redirect('/account/keys/3'));
    const lost = await app.open().get('/account/keys/3?done=signed-in');
    expect(lost).toMatchObject(redirect('/account/sign-in?to=/keys/3&done=no-cookie'));
    expect(noticeOf(await app.open().get(lost.headers.location as string))).toMatch(/^You are not signed in/);
  });

  test.each([
    ['GET', '/settings', '/settings', '/settings'],
    ['GET', '', '', ''],
    // From a form to its page.
    ['POST', '/password', '/password', '/settings'],
    ['POST', '/keys/2/revoke', '/keys/2/revoke', ''],
  ] as const)('so is one whose session ended: %s %s', async (method, path, to, page) => {
    const { here, there } = await startWithAda();
    await there.post('/account/sign-out-everywhere');
    const out = method === 'GET' ? await here.get(`/account${path}`) : await here.post(`/account${path}`);
    expect(out).toMatchObject(redirect(`/account/sign-in?${to && `to=${to}&`}done=ended`));
    const shown = await here.get(out.headers.location as string);
    expect(noticeOf(shown)).toBe('Your session has ended. Sign in again.');
    const entered = await here.post(actionOf(shown), form);
    expect(entered).toMatchObject(redirect(`/account${to}?done=signed-in`));
    const final = await here.get(entered.headers.location as string);
    if (to === page) expect(final.status).toBe(200);
    else expect(final).toMatchObject(redirect(`/account${page}`));
  });

  test('below the path of the public address', async () => {
    const app = await startPages({ baseUrl: 'http://127.0.0.1/store/v1' });
    const ada = await app.enterAs('ada');
    expect(await app.open().get('/account/settings')).toMatchObject(redirect('/store/account/sign-in?to=/settings'));
    expect(await ada.get('/account/sign-in?to=/settings')).toMatchObject(redirect('/store/account/settings'));
  });

  const evil = 'evil.example.com';
  test.each([
    ...[
      `//${evil}`,
      `/\\${evil}`,
      `\\\\${evil}`,
      `///${evil}`,
      `https://${evil}`,
      `https:${evil}`,
      `@${evil}`,
      `.${evil}`,
      `:80@${evil}`,
    ],
    ...[
      'javascript:alert(1)',
      'keys',
      '/',
      '/keys/',
      '/keys//3',
      '/..',
      '/../../docs',
      '/.//x',
      '/%2e%2e',
      '/%2F%2Fx',
      '%2F%2Fx',
    ],
    ...[
      '/keys?x=1',
      '/keys#x',
      ' /keys',
      '/keys ',
      '/KEYS',
      '/k\u00e9ys',
      '/\uff0fx',
      '/keys"><script>',
      '/keys\0',
      '/keys\t',
    ],
    ...['/keys\r\nset-cookie: session=x', '/keys\n', '/keys\r', '/keys\u2028', '\r\n\r\n', '/keys/3\r\nlocation: //x'],
  ])('nobody is led to anything but a page of the account: %j', async (to) => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (const query of [
      `to=${encodeURIComponent(to)}`,
      `to=${to.replace(/[^!-~]|["<>#\\]/g, encodeURIComponent)}`,
      `to=/settings&to=${encodeURIComponent(to)}`,
    ]) {
      const path = `/account/sign-in?${query}`;
      expect(actionOf(await app.open().get(path)), query).toBe('/account/sign-in');
      const entered = await app.open().post(path, form);
      expect(entered, query).toMatchObject(toKeys);
      expect(entered.cookies, query).toEqual([expect.stringMatching(sessionCookie)]);
      expect(await ada.get(path), query).toMatchObject(redirect('/account'));
    }
  });

  test('the sign-in page is told of no address but that of a page', async () => {
    const app = await startPages();
    const paths = [
      `keys/%2F%2F${evil}`,
      `keys/%0d%0aset-cookie:x`,
      `keys/%5C%5C${evil}`,
      `keys/@${evil}`,
      'keys/..%2f',
    ];
    for (const path of paths)
      expect((await app.open().get(`/account/${path}`)).headers.location, path).toBe('/account/sign-in');
  });
});
