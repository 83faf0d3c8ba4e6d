/** Tests of who can create an account, how many, and with which name. */
import { hash } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { dayMs } from '../../../src/core/limits.ts';
import {
  alertOf,
  makeKey,
  namesOf,
  next,
  noticeOf,
  password,
  plainText,
  redirect,
  sessionCookie,
  startPages,
  toKeys,
} from '../../support/account-pages.ts';
import { at, newHash, openWithPeople } from '../../support/people.ts';
import { open } from '../../support/store.ts';

describe('creating an account', () => {
  test('signs the person in, and leads to a page without a key', async () => {
    const app = await startPages();
    const ada = app.open();
    const form = await ada.get('/account/sign-up');
    expect(form).toMatchObject({ status: 200, cookies: [] });
    expect(form.text).toContain('method="post" action="/account/sign-up">');
    const created = await ada.post('/account/sign-up', { name: 'ada', password });
    expect(created).toMatchObject({ ...toKeys, text: '', cookies: [expect.stringMatching(sessionCookie)] });
    const { text } = await ada.get('/account?done=signed-in');
    expect(text).toContain('You have no active key.');
    expect(text).toContain('<input name="account" value="ada" hidden>');
    // A browser that blocks cookies.
    expect(await app.open().get('/account?done=signed-in')).toMatchObject(redirect('/account/sign-in?done=no-cookie'));
    expect(noticeOf(await app.open().get('/account/sign-in?done=no-cookie'))).toMatch(
      /: allow cookies for this site\.$/,
    );
    // Whoever is signed in needs no form, and stays so after a mistake in one.
    for (const path of ['/account/sign-in', '/account/sign-up'])
      expect(await ada.get(path)).toMatchObject(redirect('/account'));
    expect((await ada.post('/account/sign-in', { name: 'ada', password: 'wrong' })).status).toBe(403);
    expect((await ada.get('/account')).status).toBe(200);
  });

  test.each([
    ['invitation', 'Sign-up is by invitation: ask the operator of this service for a link.'],
    ['off', 'New accounts cannot be created here.'],
  ] as const)('is refused if SIGN_UP is %s: there is no form, and POST returns 403', async (signUp, sentence) => {
    const app = await startPages({ signUp });
    const client = app.open();
    const page = await client.get('/account/sign-up');
    expect(page.text).not.toMatch(/<form|<input/);
    expect(plainText(page)).toContain(sentence);
    const refused = await client.post('/account/sign-up', { name: 'ada', password });
    expect([refused.status, alertOf(refused), refused.cookies]).toEqual([403, sentence, []]);
    expect((await client.get('/account/sign-in')).text).not.toContain('/account/sign-up');
    expect(await namesOf(app)).toEqual([]);
    const invitation = await app.addLink('invitation');
    const used = await client.post(invitation, { name: 'ben', password });
    expect([used.status, alertOf(used)]).toEqual(signUp === 'off' ? [403, sentence] : [303, undefined]);
    expect((await app.open().get(invitation)).status).toBe(signUp === 'off' ? 403 : 404);
    // A link to reset the password is for those who have an account.
    const reset = await app.addLink('reset', await app.addPerson('ada'));
    expect(await client.post(reset, { password: next })).toMatchObject(toKeys);
  });

  test('accepts 100 code points as a name, which it trims and normalizes to NFC, and 256 as a password', async () => {
    const app = await startPages();
    const long = `${[...'Füchse schlafen 狐は眠る 🦊 '.repeat(20)].slice(0, 250).join('')}äöü€ß!`;
    const names = [
      'n'.repeat(100),
      '🦊'.repeat(100),
      "O'clock & more",
      'am\u00e9lie',
      'حیوان\u200cها',
      '👩\u200d👧',
      ' \t Ame\u0301lie ',
    ];
    for (const name of names) {
      const browser = app.open();
      expect(await browser.post('/account/sign-up', { name, password: long }), name).toMatchObject(toKeys);
      expect((await makeKey(browser, { name })).status).toBe(200);
      for (const typed of [name, `${name.normalize('NFD')}\r\n`])
        expect(await app.signIn(typed, long), name).toMatchObject(toKeys);
    }
    // Capital and small letters differ.
    expect(await namesOf(app)).toEqual([...names.slice(0, -1), 'Am\u00e9lie']);
  });
});

describe('accounts of one network', () => {
  const network = newHash();

  test('are at most 50 in 24 hours, also if they were deleted; a name that was taken does not count', async () => {
    const { signUp, removeAccount, setTime, count } = await openWithPeople();
    for (let number = 0; number < 50; number++) {
      expect(await signUp('ada', 'old', undefined, network)).toBe('name_taken');
      expect(await signUp(`a${number}`, 'old', undefined, network)).toMatchObject({ name: `a${number}` });
    }
    await removeAccount('a0');
    setTime(dayMs - 1);
    expect(await signUp('new', 'old', undefined, network)).toBe('too_many');
    expect(await signUp('other', 'old', undefined, newHash())).toMatchObject({ name: 'other' });
    expect(await signUp('invited', 'old')).toMatchObject({ name: 'invited' });
    setTime(dayMs);
    expect(await signUp('new', 'old', undefined, network)).toMatchObject({ name: 'new' });
    for (let number = 0; number < 5; number++) await signUp(`b${number}`, 'old', undefined, network);
    // Those that are over are deleted.
    expect(await count('counted_attempt')).toBe(7);
  });

  test('are at most 50 if two servers create them at the same time', async () => {
    const { signUp, databaseUrl } = await openWithPeople();
    const other = await open(databaseUrl, { now: () => at(0) });
    onTestFinished(other.close);
    for (let number = 0; number < 48; number++) await signUp(`a${number}`, 'old', undefined, network);
    const outcomes = await Promise.all(
      Array.from(Array(8), (_, number) =>
        (number % 2 ? signUp : other.people.signUp)(`b${number}`, 'old', undefined, network),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 'too_many')).toHaveLength(6);
  });

  test('that a clock ahead has counted do not keep out others when it is set back', async () => {
    const { signUp, setTime } = await openWithPeople();
    setTime(dayMs);
    for (let number = 0; number < 50; number++) await signUp(`a${number}`, 'old', undefined, network);
    setTime(0);
    expect(await signUp('new', 'old', undefined, network)).toMatchObject({ name: 'new' });
  });
});

describe('sign-up forms of one network', () => {
  const from = (address: string) => ({ 'x-forwarded-for': address });

  /** A server behind a proxy, with an account `a1`; `signUp` resolves to the status, and to what the page says is wrong. */
  async function startBehindProxy() {
    const app = await startPages({ trustProxy: ['127.0.0.1'] });
    await app.addPerson('a1');
    return {
      findPerson: app.store.people.findPerson,
      add: (name: string, network: Buffer) => app.store.people.signUp(name, 'hash', undefined, network),
      async signUp(name: string, text = password, address = '192.0.2.7') {
        const page = await app.open(from(address)).post('/account/sign-up', { name, password: text });
        return [page.status, alertOf(page)];
      },
    };
  }
  const limited = [429, 'Too many new accounts from this address: try again in 1 day.'];

  test('that break a rule do not count, those that ask whether a name is taken do', async () => {
    const { signUp, findPerson } = await startBehindProxy();
    for (let form = 0; form < 51; form++) expect((await signUp('n', 'short'))[0]).toBe(400);
    for (let form = 0; form < 50; form++) expect((await signUp('a1'))[0]).toBe(400);
    expect(await signUp('n')).toEqual(limited);
    expect(await findPerson('n')).toBeUndefined();
  });

  test('count with what another process has counted, or this one before a restart', async () => {
    const { signUp, findPerson, add } = await startBehindProxy();
    const network = hash('sha256', '192.0.2.7', 'buffer');
    for (let number = 0; number < 50; number++) await add(`b${number}`, network);
    expect(await signUp('n')).toEqual(limited);
    expect(await findPerson('n')).toBeUndefined();
    expect(await signUp('n', password, '192.0.2.8')).toEqual([303, undefined]);
  });
});
