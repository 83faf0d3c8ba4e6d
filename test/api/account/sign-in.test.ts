/** Tests of guessing passwords, and of what a thief gets who knows an old one. Windows and simultaneous attempts: unit/account/attempts.test.ts. */

import { describe, expect, test } from 'vitest';
import { alertOf, next, password, startPages, toKeys, wrong } from '../../support/account-pages.ts';
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
