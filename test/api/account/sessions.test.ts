import { describe, expect, test } from 'vitest';
import { ApiError } from '../../../src/core/errors.ts';
import { dayMs, hourMs, minuteMs } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import {
  ended,
  next,
  noticeOf,
  password,
  plainText,
  redirect,
  removedCookie,
  sessionCookie,
  signedOut,
  startPages,
  startWithAda,
  toKeys,
} from '../../support/account-pages.ts';
import { at, openWithPeople } from '../../support/people.ts';
import { textRows } from '../../support/store.ts';

describe('a session', () => {
  test('ends 12 hours after its start, even if it is in use, and an hour after its last use', async () => {
    const { addSession, findSession, touchSession, setTime } = await openWithPeople();
    const [used, unused] = [await addSession(), await addSession()];
    for (let ms = hourMs / 2; ms < 12 * hourMs; ms += hourMs / 2) {
      setTime(ms);
      // The second is used too late: it does not begin again.
      for (const hash of ms < hourMs ? [used] : [used, unused]) await touchSession(hash);
      if (ms >= hourMs) expect(await findSession(unused)).toBeUndefined();
    }
    setTime(12 * hourMs - 1);
    expect(await findSession(used)).toBeDefined();
    setTime(12 * hourMs);
    expect(await findSession(used)).toBeUndefined();
  });

  test('ends an hour after its last request, or its last recorded one if none can be recorded', async () => {
    const app = await startPages();
    app.setTime(at(0));
    const ada = await app.enterAs('ada');
    for (const [minutes, answer] of [
      [59, { status: 200 }],
      [118, { status: 200 }],
      [177, { status: 200 }],
      [178, ended],
    ] as const) {
      if (minutes > 118) app.store.people.touchSession = () => Promise.reject(new ApiError('service_unavailable'));
      app.setTime(at(minutes * minuteMs));
      expect(await ada.get('/account'), `${minutes} minutes`).toMatchObject(answer);
    }
  });

  test('ends with sign-out in this browser, or everywhere, and in no other account', async () => {
    const { app, account, here, there } = await startWithAda();
    const ben = await app.enterAs('ben');
    const token = here.jar.get(here.sessionName) as string;
    expect(await here.post('/account/sign-out')).toMatchObject({
      ...signedOut,
      cookies: [expect.stringMatching(removedCookie)],
    });
    expect(noticeOf(await here.get('/account/sign-in?done=signed-out'))).toBe('You are signed out.');
    expect(await here.post('/account/sign-out')).toMatchObject(signedOut);
    here.jar.set(here.sessionName, token);
    expect(await here.get('/account')).toMatchObject(ended);
    const again = await app.enter(account);
    const out = await there.post('/account/sign-out-everywhere');
    expect(out).toMatchObject({ ...signedOut, cookies: [expect.stringMatching(removedCookie)] });
    expect(await again.get('/account')).toMatchObject(ended);
    expect(noticeOf(await again.get('/account/sign-in?done=ended'))).toBe('Your session has ended. Sign in again.');
    expect((await ben.get('/account')).status).toBe(200);
  });

  test('ends with a new password in other browsers; this one goes on with a new token', async () => {
    const { app, here, there } = await startWithAda();
    const before = here.jar.get(here.sessionName);
    expect(plainText(await here.get('/account/settings'))).toMatch(/ as ada \./);
    const changed = await here.post('/account/password', { name: 'ada', current: password, password: next });
    expect(changed).toMatchObject(redirect('/account/settings?done=password'));
    expect(changed.cookies).toEqual([expect.stringMatching(sessionCookie)]);
    const page = await here.get('/account/settings?done=password');
    expect(noticeOf(page)).toBe('Your password is changed, and all other sessions have ended.');
    expect(await there.get('/account')).toMatchObject(ended);
    expect(await app.open({ cookie: `${here.sessionName}=${before}` }).get('/account')).toMatchObject(ended);
    expect([(await app.signIn('ada')).status, (await app.signIn('ada', next)).status]).toEqual([403, 303]);
  });

  test('that a client had before is ended by each form that begins one: its thief does not become the victim', async () => {
    const app = await startPages();
    const ada = await app.addPerson('ada');
    const forms: [path: string, form: Record<string, string>][] = [
      ['/account/sign-in', { name: 'ada', password }],
      ['/account/sign-up', { name: 'eve', password: next }],
      [await app.addLink('invitation'), { name: 'eva', password: next }],
      [await app.addLink('reset', ada), { password: next }],
    ];
    for (const [at, [path, form]] of forms.entries()) {
      const attacker = await app.enterAs(`thief ${at}`);
      const planted = attacker.jar.get(attacker.sessionName) as string;
      const victim = app.open();
      // The second was never a session: the client chose it.
      for (const token of at === 0 ? [planted, newToken().token] : [planted]) {
        victim.jar.set(victim.sessionName, token);
        expect(await victim.post(path, form), path).toMatchObject(toKeys);
        expect(victim.jar.get(victim.sessionName)).not.toBe(token);
        const thief = app.open({ cookie: `${victim.sessionName}=${token}` });
        expect(await thief.get('/account'), path).toMatchObject(redirect('/account/sign-in?done=ended'));
      }
    }
  });

  test('is found only by its exact token in its own cookie, and not by what the store has', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const name = ada.sessionName;
    const token = ada.jar.get(name) as string;
    const [{ hash } = {}] = await textRows(app.databaseUrl, 'SELECT hash FROM session');
    const stored = Buffer.from(String(hash).replace(/^\\x/, ''), 'latin1');
    const otherThan = (character = '') => (character === 'A' ? 'B' : 'A');
    const values = [
      `${token.slice(0, -1)}${otherThan(token.at(-1))}`,
      token.slice(0, -1),
      `${token}=`,
      `"${token}"`,
      token.toUpperCase(),
      `${token}%00`,
      ...(['hex', 'base64url'] as const).map((encoding) => stored.toString(encoding)),
      encodeURIComponent(String(hash)),
      `${token}${'a'.repeat(8000)}`,
      '',
      '%',
      '"',
      // Two cookies of this name: one path or domain set the other. The first counts, never both.
      `${newToken().token}; ${name}=${token}`,
    ];
    const names = ['session', 'Session', '__Host-session', `${name}x`];
    const others = [...names.map((other) => `${other}=${token}`), name, ';;;===;;'];
    const statusOf = async (cookie: string) => (await app.open({ cookie }).get('/account')).status;
    for (const cookie of [...values.map((value) => `${name}=${value}`), ...others])
      expect(await statusOf(cookie), cookie.slice(0, 60)).toBe(303);
    for (const cookie of [`a=b; ${name}=${token}; c=d`, `${name}=${token}; ${name}=${newToken().token}`])
      expect(await statusOf(cookie), cookie).toBe(200);
    expect(await statusOf(`${name}=${'a'.repeat(20_000)}`)).toBe(431);
    expect(app.log()).not.toContain('"level":50');
  });

  test('is not ended by another server on the host, nor by a cookie of another program', async () => {
    const [one, two] = [await startPages(), await startPages()];
    const browser = await one.enterAs('ada');
    const other = await two.enterAs('bea');
    for (const [name, value] of other.jar) browser.jar.set(name, value);
    browser.jar.set('session', newToken().token);
    expect((await browser.get('/account')).text).toContain('ada');
    for (const [name, value] of browser.jar) other.jar.set(name, value);
    await other.post('/account/sign-out');
    expect((await browser.get('/account')).text).toContain('ada');
  });
});

test('a clock that is set back by a day ends sessions and links, which would live for longer', async () => {
  const { addSession, findSession, addLink, findLink, setPassword, signUp, endSessions, setTime } =
    await openWithPeople();
  setTime(dayMs);
  const [session, reset] = [await addSession(), await addLink('reset', 1)];
  const invitation = await addLink('invitation', null);
  const found = async () => [await findSession(session), await findLink(reset)].map(Boolean);
  setTime(dayMs - 60_000);
  expect(await found()).toEqual([true, true]);
  setTime(0);
  expect(await found()).toEqual([false, false]);
  expect(await endSessions(session)).toBe(false);
  expect(await setPassword(1, 'new', { link: reset })).toBe(false);
  expect(await signUp('cleo', 'old', invitation)).toBe('link_used');
  // Whoever signs in deletes sessions of the future: they do not come back when the clock gets there again.
  await addSession(2);
  setTime(dayMs);
  expect(await findSession(session)).toBeUndefined();
});
