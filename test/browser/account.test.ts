/** Tests in a real browser what people do on the account pages. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Account } from '../../src/core/accounts.ts';
import { newToken, type Person } from '../../src/core/people.ts';
import { type Server, startServer } from '../support/process.ts';
import { figure } from '../support/tier.ts';
import { openAccount, otherPassword, password, runShown, storeOf } from './account.ts';
import { describeInBrowser, otherHost } from './page.ts';

/** Expects that the server refuses a key at most one second later. */
async function expectRefused(server: Server, key: string, code: string): Promise<void> {
  const answer = async () => (await server.call(key, 'GET', '/v1/pets')).json.code;
  await expect.poll(answer, { timeout: 1000, interval: 20 }).toBe(code);
}

const clipboard = { permissions: ['clipboard-read', 'clipboard-write'] };

describeInBrowser('the account pages', () => {
  test.each([
    ['with', true],
    ['without', false],
  ])('%s JavaScript, take a person from the empty store to keys, and out again', async (_, javaScriptEnabled) => {
    const server = await startServer();
    const { page, faults, visit, shown, press, follow, signUp, signIn, makeKey, readKey, card } = await openAccount(
      server,
      { javaScriptEnabled },
    );
    await visit('');
    await shown('Sign in');
    await follow('Create one');
    await shown('Create an account');
    await signUp('robin');
    await page.getByText('You have no active key').waitFor();

    const first = await makeKey('website');
    expect(await page.getByRole('button', { name: 'Copy key' }).count()).toBe(javaScriptEnabled ? 1 : 0);
    expect(await runShown(first.curl)).toEqual({ status: 200, body: '[]' });
    await follow('I have stored the key');
    await card(first.key).getByRole('heading', { name: 'website Active', exact: true }).waitFor();

    await card(first.key).locator('summary').filter({ hasText: 'Rotate' }).click();
    await card(first.key).getByLabel('The old key still works for').selectOption('1 hour');
    await press('Rotate key');
    const second = await readKey();
    expect(second.key).not.toBe(first.key);
    for (const { curl } of [first, second]) expect((await runShown(curl)).status).toBe(200);

    await follow('API keys');
    await card(first.key).getByText('Active until').waitFor();
    await card(second.key).locator('summary').filter({ hasText: 'Revoke' }).click();
    await press('Revoke key');
    await page.getByText('The key is revoked.').waitFor();
    await expectRefused(server, second.key, 'revoked_api_key');
    await card(second.key).getByRole('heading', { name: 'website Revoked', exact: true }).waitFor();
    expect((await runShown(first.curl)).status).toBe(200);

    await press('Sign out');
    await page.getByText('You are signed out.').waitFor();
    await signIn('robin');

    await follow('Settings');
    await page.getByLabel('Current password').first().fill(password);
    await page.getByLabel('New password').fill(otherPassword);
    await press('Change password');
    await page.getByText('Your password is changed').waitFor();
    await press('Sign out everywhere');
    await page.getByText('You are signed out.').waitFor();
    await visit('/settings');
    await shown('Sign in');

    await signIn('robin', otherPassword);
    await follow('Settings');
    await page.getByText('Delete the account…').click();
    await page.locator('details').getByLabel('Current password').fill(otherPassword);
    await press('Delete account and keys');
    await page.getByText('Your account and its keys are deleted.').waitFor();
    await expectRefused(server, first.key, 'invalid_api_key');
    expect(faults()).toEqual([]);
  });

  test('lead from the reference page to the first call', async () => {
    const server = await startServer();
    const { page, shown, press, readKey } = await openAccount(server);
    const since = performance.now();
    await page.goto(server.url);
    await page.getByRole('link', { name: 'Create an account' }).click();
    await shown('Create an account');
    await page.getByLabel('Name').fill('robin');
    await page.getByLabel('Password', { exact: true }).fill(password);
    await press('Create account');
    await page.getByLabel('Name').fill('website');
    await press('Make key');
    expect(await runShown((await readKey()).curl)).toEqual({ status: 200, body: '[]' });
    const seconds = ((performance.now() - since) / 1000).toFixed(1);
    figure(`account pages: ${seconds} s from the reference page of an empty store to the first curl, by a program`);
  });

  test('copy the new key and its command to the clipboard', async () => {
    const server = await startServer();
    const { page, faults, signUp, makeKey, press } = await openAccount(server, clipboard);
    await signUp('robin');
    const { key, curl } = await makeKey('website');
    for (const [button, text] of [
      ['Copy key', key],
      ['Copy command', curl],
    ] as const) {
      await press(button);
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(text);
      await page.getByRole('button', { name: button }).waitFor();
    }
    expect(faults()).toEqual([]);
  });

  test('warn before a new key is left that was neither copied nor confirmed, and only then', async () => {
    const server = await startServer();
    const { page, signUp, makeKey, press, follow, shown, visit } = await openAccount(server, clipboard);
    let warnings = 0;
    page.on('dialog', () => void warnings++);
    await signUp('robin');
    const ways: [string, number, () => Promise<unknown>][] = [
      ['copied with the button', 0, async () => press('Copy key').then(() => page.getByText('Copied').waitFor())],
      [
        'copied by hand',
        0,
        async () =>
          page
            .locator('#curl')
            .selectText()
            .then(() => page.keyboard.press('Control+C')),
      ],
      ['neither', 1, async () => undefined],
    ];
    for (const [way, expected, act] of ways) {
      warnings = 0;
      await makeKey('website');
      await act();
      await follow('Settings');
      await shown('Settings');
      expect(warnings, way).toBe(expected);
    }
    warnings = 0;
    await makeKey('website');
    await follow('I have stored the key');
    await shown('API keys');
    await visit('/settings');
    expect(warnings).toBe(0);
  });

  test('work over plain http from another machine, where the browser sends no Sec-Fetch-Site and has no clipboard object', async () => {
    const server = await startServer({ env: { ALLOWED_HOSTS: otherHost } });
    const origin = `http://${otherHost}:${server.port}`;
    const { page, context, faults, signUp, makeKey, press } = await openAccount(server, { origin, ...clipboard });
    let site: string | undefined;
    page.on('request', (request) => {
      site ??= request.headers()['sec-fetch-site'];
    });
    await signUp('robin');
    const { key, curl } = await makeKey('website');
    expect(curl).toContain(`${origin}/v1/pets`);
    expect(await page.evaluate('typeof navigator.clipboard')).toBe('undefined');
    await press('Copy key');
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    // Chromium ignores this header over plain http, and says so for each page.
    expect(faults().filter((fault) => !fault.includes('Cross-Origin-Opener-Policy'))).toEqual([]);
    expect(site).toBeUndefined();
    // Only a page of this machine can read the clipboard.
    const reader = await context.newPage();
    await reader.goto(`${server.url}/account/sign-in`);
    expect(await reader.evaluate('navigator.clipboard.readText()')).toBe(key);
  });

  test('ask for confirmation in place, one at a time; Escape closes', async () => {
    const server = await startServer();
    const { page, signUp, makeKey, visit, card, faults } = await openAccount(server);
    await signUp('robin');
    const { key } = await makeKey('website');
    await visit('');
    const opener = (text: string) => card(key).locator('summary').filter({ hasText: text });
    const [rotate, revoke] = [opener('Rotate'), opener('Revoke')];
    const [rotateKey, revokeKey] = [card(key).getByText('Rotate key'), card(key).getByText('Revoke key')];
    expect(await rotateKey.isVisible()).toBe(false);
    await rotate.click();
    await rotateKey.waitFor();
    await revoke.click();
    await revokeKey.waitFor();
    await rotateKey.waitFor({ state: 'hidden' });
    await page.keyboard.press('Tab');
    await page.keyboard.press('Escape');
    await revokeKey.waitFor({ state: 'hidden' });
    expect(await page.evaluate('document.activeElement.textContent')).toBe(await revoke.textContent());
    await page.keyboard.press('Enter');
    await revokeKey.waitFor();
    // A key that is held down must not confirm.
    await page.keyboard.press('Enter');
    await revokeKey.waitFor({ state: 'hidden' });
    expect((await server.call(key, 'GET', '/v1/pets')).status).toBe(200);
    expect(faults()).toEqual([]);
  });

  test('show the typed password on demand, and hide it before it is sent', async () => {
    const server = await startServer();
    const { page, visit, shown, press } = await openAccount(server);
    await visit('/sign-up');
    const field = page.getByLabel('Password', { exact: true });
    await page.getByLabel('Name').fill('robin');
    await field.fill(password);
    expect(await field.getAttribute('type')).toBe('password');
    await page.getByLabel('Show password').check();
    expect(await field.getAttribute('type')).toBe('text');
    await page.evaluate(`addEventListener('submit', (event) => {
      sessionStorage.type = event.target.elements.password.type;
    })`);
    await press('Create account');
    await shown('API keys');
    expect(await page.evaluate('sessionStorage.type')).toBe('password');
  });

  test('end the session in another browser when the password changes, and everywhere on demand', async () => {
    const server = await startServer();
    const one = await openAccount(server);
    const two = await openAccount(server);
    await one.signUp('robin');
    await two.signIn('robin');

    await one.visit('/settings');
    await one.page.getByLabel('Current password').first().fill(password);
    await one.page.getByLabel('New password').fill(otherPassword);
    await one.press('Change password');
    await one.page.getByText('all other sessions have ended').waitFor();
    await two.follow('Settings');
    await two.page.getByText('Your session has ended.').waitFor();
    await one.follow('API keys');
    await one.shown('API keys');

    await two.signIn('robin', otherPassword);
    await two.follow('Settings');
    await two.press('Sign out everywhere');
    await two.shown('Sign in');
    await one.page.getByLabel('Name').fill('website');
    await one.press('Make key');
    await one.page.getByText('Your session has ended.').waitFor();
    const { accounts } = await storeOf(server);
    expect(await accounts.listKeys('robin')).toEqual([]);
  });

  test('lead to the sign-in page, and do nothing, when the session has ended meanwhile', async () => {
    const server = await startServer();
    const { page, faults, signUp, signIn, makeKey, visit, shown, press, follow } = await openAccount(server);
    await signUp('robin');
    const { key } = await makeKey('website');
    const { people, accounts } = await storeOf(server);
    const { account } = (await people.findPerson('robin')) as { account: Account };
    const before = await accounts.listKeys('robin');

    const endAllSessions = async () => {
      const { passwordHash } = (await people.findPerson('robin')) as Person;
      const { hash } = newToken();
      await people.addSession(hash, account.id, passwordHash);
      await people.endSessions(hash);
    };

    /** Opens a page, ends the session in the store, and then acts on the page. */
    async function expectEnded(place: string, act: () => Promise<void>): Promise<void> {
      await signIn('robin');
      await visit(place);
      await endAllSessions();
      await act();
      await shown('Sign in');
      await page.getByText('Your session has ended. Sign in again.').waitFor();
    }

    const confirm = async (summary: string, button: string) => {
      await page.locator('summary').filter({ hasText: summary }).click();
      await press(button);
    };
    await endAllSessions();
    await follow('Settings');
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    await expectEnded('', () => follow('Settings'));
    await expectEnded('', async () => {
      await page.getByLabel('Name').fill('other');
      await press('Make key');
    });
    await expectEnded('', () => confirm('Rotate', 'Rotate key'));
    await expectEnded('', () => confirm('Revoke', 'Revoke key'));
    await expectEnded('/settings', async () => {
      await page.getByLabel('Current password').first().fill(password);
      await page.getByLabel('New password').fill(otherPassword);
      await press('Change password');
    });
    await expectEnded('/settings', () => press('Sign out everywhere'));
    await expectEnded('/settings', async () => {
      await page.getByText('Delete the account…').click();
      await page.locator('details').getByLabel('Current password').fill(password);
      await press('Delete account and keys');
    });
    expect(await accounts.listKeys('robin')).toEqual(before);
    expect((await server.call(key, 'GET', '/v1/pets')).status).toBe(200);
    await signIn('robin');
    expect(faults()).toEqual([]);
  });
});

/** The cache and the default arguments of playwright that are left out. */
const caches: [string, string[]][] = [
  ['without', []],
  ['with', ['--disable-back-forward-cache']],
];

for (const [cache, ignoreDefaultArgs] of caches) {
  const tests = () => {
    test.each([
      ['the list', true],
      ['the new key', false],
    ])('the back button shows no key and no account page after sign-out on the page of %s', async (_, onList) => {
      const server = await startServer();
      const { page, signUp, makeKey, shown, press, follow } = await openAccount(server);
      await signUp('robin');
      const { key } = await makeKey('website');
      if (onList) {
        await follow('Settings');
        await shown('Settings');
        await follow('API keys');
        await shown('API keys');
      }
      await press('Sign out');
      await page.getByText('You are signed out.').waitFor();
      const length = (await page.evaluate('history.length')) as number;
      expect(length).toBeGreaterThan(3);
      for (let back = 1; back < length; back++) {
        // Instead of the result of a form, the browser shows an error page of its own (ERR_CACHE_MISS).
        const moved = page.waitForEvent('framenavigated');
        await page.goBack({ waitUntil: 'commit' }).catch((error) => expect(String(error)).toContain('ERR_CACHE_MISS'));
        await moved;
        expect(page.url()).toMatch(/\/account\/sign-(in|up)$|^chrome-error:|^about:blank$/);
        let content: string | undefined;
        while (content === undefined) content = await page.content().catch(() => undefined);
        for (const secret of [key, key.slice(0, 13), 'website', 'robin', 'Sign out'])
          expect(content).not.toContain(secret);
      }
    });

    test('the back button shows no key a second time, also to a person who is still signed in', async () => {
      const server = await startServer();
      const { page, signUp, makeKey, shown, follow } = await openAccount(server);
      await signUp('robin');
      const { key } = await makeKey('website');
      expect(await page.content()).toContain(key);
      await follow('Settings');
      await shown('Settings');
      const moved = page.waitForEvent('framenavigated');
      await page.goBack({ waitUntil: 'commit' }).catch((error) => expect(String(error)).toContain('ERR_CACHE_MISS'));
      await moved;
      let content: string | undefined;
      while (content === undefined) content = await page.content().catch(() => undefined);
      expect(content).not.toContain(key);
    });

    test.each([true, false])(
      'Back and Forward make no second key, and show none (JavaScript: %s)',
      async (javaScriptEnabled) => {
        const server = await startServer();
        const { page, signUp, makeKey, card, press, readKey, visit } = await openAccount(server, { javaScriptEnabled });
        const { accounts } = await storeOf(server);
        await signUp('robin');
        const { key: first } = await makeKey('website');
        await visit('');
        await card(first).locator('summary').filter({ hasText: 'Rotate' }).click();
        await press('Rotate key');
        const { key: rotated } = await readKey();
        const { key: last } = await makeKey('import');

        const before = await accounts.listKeys('robin');
        /** What a page, or the browser's own error page in its place, shows after a step of the history. */
        async function expectNoKey(step: 'goBack' | 'goForward'): Promise<void> {
          const moved = page.waitForEvent('framenavigated');
          await page[step]({ waitUntil: 'commit' }).catch((error) => expect(String(error)).toContain('ERR_CACHE_MISS'));
          await moved;
          let content: string | undefined;
          while (content === undefined) content = await page.content().catch(() => undefined);
          for (const secret of [first, rotated, last]) expect(content).not.toContain(secret);
        }
        await visit('/settings');
        await expectNoKey('goBack');
        await expectNoKey('goForward');
        expect(await accounts.listKeys('robin')).toEqual(before);
      },
    );

    test('a second click, while the first is on its way, makes no second key; after the back button, it does', async () => {
      const server = await startServer();
      const { page, signUp, shown } = await openAccount(server);
      const { accounts } = await storeOf(server);
      await signUp('robin');
      for (const expected of [1, 2]) {
        await page.getByLabel('Name').fill('website');
        const button = page.getByRole('button', { name: 'Make key' });
        await button.scrollIntoViewIfNeeded();
        const { x, y } = (await button.boundingBox()) as { x: number; y: number };
        process.kill(server.pid, 'SIGSTOP');
        for (let click = 0; click < 2; click++) {
          await page.mouse.click(x + 10, y + 10);
          await sleep(300);
        }
        process.kill(server.pid, 'SIGCONT');
        await shown('Your new API key');
        // A second request would have been answered by then.
        await sleep(500);
        expect((await accounts.listKeys('robin')).length).toBe(expected);
        await page.goBack({ waitUntil: 'commit' });
        await shown('API keys');
      }
    });
  };
  describeInBrowser(`the account pages ${cache} the back/forward cache`, tests, { ignoreDefaultArgs });
}
