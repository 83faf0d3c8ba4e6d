/** Tests of one-time links: invitations, and resets of passwords. */

import { describe, expect, test } from 'vitest';
import { dayMs, hourMs } from '../../../src/core/limits.ts';
import {
  alertOf,
  ended,
  namesOf,
  next,
  password,
  plainText,
  sessionCookie,
  startPages,
  startWithAda,
  toKeys,
} from '../../support/account-pages.ts';
import { newHash, openWithPeople } from '../../support/people.ts';

describe('a one-time link', () => {
  test('is valid to the millisecond: 24 hours for an invitation, one for a reset', async () => {
    const { signUp, setPassword, addLink, addAccount, findLink, setTime } = await openWithPeople();
    await addAccount('operator');
    const reset = await addLink('reset', 1);
    const lateReset = await addLink('reset', 2);
    const [own, first] = [await addLink('invitation', 3), await addLink('invitation', null)];
    setTime(hourMs - 1);
    expect(await setPassword(1, 'new', { link: reset })).toBe(true);
    setTime(hourMs);
    expect(await setPassword(2, 'new', { link: lateReset })).toBe(false);
    setTime(dayMs - 1);
    expect(await setPassword(3, 'new', { link: own })).toBe(true);
    expect(await signUp('cleo', 'old', first)).toMatchObject({ name: 'cleo' });
    const late = await addLink('invitation', null);
    setTime(2 * dayMs - 2);
    expect(await findLink(late)).toEqual({ purpose: 'invitation', account: null });
    setTime(2 * dayMs - 1);
    expect(await findLink(late)).toBeUndefined();
    expect(await signUp('dora', 'old', late)).toBe('link_used');
  });

  test('creates an account or sets a password only if it is for that', async () => {
    const { signUp, setPassword, addLink, findLink, findPerson, addSession, findSession, count } =
      await openWithPeople();
    const session = await addSession();
    const own = await addLink('reset', 1);
    const invitation = await addLink('invitation', null);
    const others = [await addLink('reset', null), await addLink('invitation', 2), newHash()];
    for (const link of [own, ...others]) expect(await signUp('cleo', 'old', link)).toBe('link_used');
    for (const link of [invitation, ...others]) expect(await setPassword(1, 'new', { link })).toBe(false);
    expect([await count('account'), await count('one_time_link')]).toEqual([2, 4]);
    expect(await findLink(own)).toMatchObject({ purpose: 'reset', account: { name: 'ada' } });
    expect(await findSession(session)).toBeDefined();
    expect((await findPerson('ada'))?.passwordHash).toBe('old');
  });
});

describe('a one-time link', () => {
  const gone =
    'This link is not valid: it was used, or it has expired. Ask the operator of this service for a new one.';

  test('of an invitation creates one account; GET, HEAD, an error and a taken name do not use it up', async () => {
    const app = await startPages({ signUp: 'invitation' });
    await app.addPerson('ben');
    const link = await app.addLink('invitation');
    const ada = app.open();
    for (const method of ['HEAD', 'OPTIONS', 'PUT']) await ada.send(method, link);
    expect(plainText(await ada.get(link))).toContain('You are invited to create an account');
    for (const form of [{ name: 'ben', password }, { name: 'ada', password: 'short' }, { name: 'ada' }])
      expect((await ada.post(link, form as Record<string, string>)).status).toBe(400);
    const created = await ada.post(link, { name: 'ada', password });
    expect(created).toMatchObject({ ...toKeys, cookies: [expect.stringMatching(sessionCookie)] });
    expect((await ada.get('/account')).status).toBe(200);
    for (const again of [await app.open().get(link), await app.open().post(link, { name: 'eve', password })])
      expect([again.status, alertOf(again), again.cookies]).toEqual([404, gone, []]);
    expect(await namesOf(app)).toEqual(['ben', 'ada']);
  });

  test('of an invitation for an account that has no password sets its first', async () => {
    const app = await startPages({ signUp: 'invitation' });
    const [tests] = await app.store.accounts.listAccounts();
    const link = await app.addLink('invitation', tests);
    const client = app.open();
    expect((await client.get(link)).text).toMatch(/<input [^>]*value="tests" [^>]*readonly/);
    expect(await client.post(link, { password: next })).toMatchObject(toKeys);
    expect((await client.get('/account')).text).toContain('1 of 50');
    expect((await app.signIn('tests', next)).status).toBe(303);
  });

  test('of a reset replaces the password, and ends all sessions and other links of the account', async () => {
    const { app, account, here } = await startWithAda();
    const links = [await app.addLink('reset', account), await app.addLink('reset', account)] as const;
    const ben = await app.enterAs('ben');
    const ada = app.open();
    expect((await ada.get(links[0])).text).toContain('Its API keys stay valid');
    expect(await ada.post(links[0], { password: next })).toMatchObject(toKeys);
    expect(await here.get('/account')).toMatchObject(ended);
    for (const client of [ada, ben]) expect((await client.get('/account')).status).toBe(200);
    for (const used of links) expect((await app.open().post(used, { password })).status).toBe(404);
    expect([(await app.signIn('ada')).status, (await app.signIn('ada', next)).status]).toEqual([403, 303]);
  });

  test('that is unknown or malformed returns 404', async () => {
    const client = (await startPages()).open();
    for (const token of ['a'.repeat(43), 'a', 'a'.repeat(5000), '%00', '..%2fkeys']) {
      const page = await client.get(`/account/links/${token}`);
      expect([page.status, alertOf(page)], token.slice(0, 50)).toEqual([404, gone]);
    }
  });
});
