/** Tests in a real browser what people do on the account pages. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Locator, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { limits } from '../../../src/core/limits.ts';
import { startServer } from '../../support/process.ts';
import { openAccount, password, runShown, storeOf } from './account.ts';
import { clipboard, describeInBrowser, otherHost } from './page.ts';

/** What a page shows after a step of the history. */
async function contentAfter(page: Page, step: 'goBack' | 'goForward'): Promise<string> {
  const moved = page.waitForEvent('framenavigated');
  // Instead of the result of a form, the browser shows an error page of its own.
  await page[step]({ waitUntil: 'commit' }).catch((error) => expect(String(error)).toContain('ERR_CACHE_MISS'));
  await moved;
  let content: string | undefined;
  while (content === undefined) content = await page.content().catch(() => undefined);
  return content;
}

describeInBrowser('the account pages', () => {
  test.each([true, false])(
    'take a person from the reference page to keys, and out again (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const server = await startServer();
      const account = await openAccount(server, { javaScriptEnabled, ...clipboard });
      const { page, faults, visit, shown, press, follow, fill, makeKey, readKey, row, openAction } = account;
      await page.goto(server.url);
      await page.getByRole('link', { name: 'Create an account' }).click();
      await shown('Create an account');
      await fill('robin', password);
      await press('Create account');
      await page.getByText('You have no active key').waitFor();

      const first = await makeKey('website');
      const copied = javaScriptEnabled ? { 'Copy key': first.key, 'Copy command': first.curl } : {};
      expect(await page.getByRole('button', { name: 'Copy' }).count()).toBe(Object.keys(copied).length);
      for (const [button, text] of Object.entries(copied)) {
        await press(button);
        await page.getByRole('button', { name: 'Copied' }).waitFor();
        expect(await page.evaluate('navigator.clipboard.readText()')).toBe(text);
        await page.getByRole('button', { name: button }).waitFor();
      }
      expect(await runShown(first.curl)).toBe('[] 200');
      await follow('I have stored the key');
      await row(first.key).getByRole('heading', { name: 'website' }).waitFor();
      expect(await row(first.key).textContent()).toMatch(/Expires\s*in 90 days/);

      await openAction(first.key, 'Rotate');
      await row(first.key).getByLabel('The old key still works for').selectOption('1 hour');
      await press('Rotate key');
      const second = await readKey();
      for (const { curl } of [first, second]) expect(await runShown(curl)).toBe('[] 200');

      await follow('API keys');
      await row(first.key).getByText('in 1 hour').waitFor();
      await openAction(second.key, 'Revoke');
      await press('Revoke key');
      await page.getByText('The key is revoked.').waitFor();

      await press('Sign out');
      await page.getByText('You are signed out.').waitFor();
      await visit('/settings');
      await shown('Sign in');
      expect(faults()).toEqual([]);
    },
  );

  test.each([true, false])(
    'lead to the form that was refused, below the first screen (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const viewport = { width: 390, height: 500 };
      const { page, signUp, visit, press } = await openAccount(await startServer(), { javaScriptEnabled, viewport });
      await signUp('robin');
      await visit('/settings');
      await page.getByText('Delete the account…').click();
      await page.locator('#confirm').fill('not the password of robin');
      await press('Delete account and keys');
      const error = page.getByRole('region', { name: 'Delete the account' }).getByRole('alert');
      await error.getByRole('link', { name: 'The account is not deleted: the current password is wrong.' }).waitFor();
      expect(await page.getByRole('alert').count()).toBe(1);
      await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('error');
      // With its form, and below the header, which stays.
      const inSight = async (part: Locator) => {
        const { y, height } = (await part.boundingBox()) as { y: number; height: number };
        return y > 56 && y + height <= viewport.height;
      };
      await expect.poll(() => inSight(error)).toBe(true);
      expect(await inSight(page.getByRole('button', { name: 'Delete account and keys' }))).toBe(true);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      expect(await page.locator('#confirm').evaluate((field) => field.matches(':target'))).toBe(true);
      await page.locator('#confirm').fill(password);
      await page.keyboard.press('Enter');
      await page.getByText('Your account and its keys are deleted.').waitFor();
    },
  );

  test.each([true, false])(
    'lead after sign-in to the page that was asked for, also after a reload and a wrong password (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const server = await startServer();
      const { page, context, signUp, visit, shown, fill, press } = await openAccount(server, { javaScriptEnabled });
      await signUp('robin');
      const ended = page.getByText('Your session has ended.');
      await context.addCookies([{ name: `session-${server.port}`, value: 'ended', url: server.url }]);
      await visit('/settings');
      await ended.waitFor();
      await page.reload();
      await shown('Sign in');
      // The script keeps the notice out of a reload or bookmark.
      expect(await ended.isVisible()).toBe(!javaScriptEnabled);
      await fill('robin', 'not the password of robin');
      await press('Sign in');
      await page.getByRole('alert').waitFor();
      await fill('robin', password);
      await press('Sign in');
      await shown('Settings');
    },
  );

  test('warn before a new key is left that was neither copied nor confirmed, and only then', async () => {
    const { page, signUp, makeKey, press, follow, shown } = await openAccount(await startServer(), clipboard);
    let warnings = 0;
    page.on('dialog', () => void warnings++);
    await signUp('robin');
    const ways: [way: string, warnings: number, act: () => Promise<unknown>][] = [
      ['with the button', 0, () => press('Copy key').then(() => page.getByText('Copied').waitFor())],
      ['confirmed', 0, () => follow('I have stored the key')],
      ['neither', 1, async () => undefined],
    ];
    for (const [way, expected, act] of ways) {
      warnings = 0;
      await makeKey(way);
      await act();
      await follow('Settings');
      await shown('Settings');
      expect(warnings, way).toBe(expected);
    }
  });

  test('hand a new key to the reference in another tab, and no address has it', async () => {
    const server = await startServer();
    const { page, context, signUp, makeKey, follow, shown } = await openAccount(server);
    const places: string[] = [];
    context.on('request', (request) => void places.push(request.url() + request.headers().referer));
    let warnings = 0;
    page.on('dialog', () => void warnings++);
    await signUp('robin');
    const { key } = await makeKey('website');
    const tryIt = async () => {
      const [reference] = await Promise.all([
        context.waitForEvent('page'),
        follow('Try it in the reference (new tab)'),
      ]);
      await expect.poll(() => reference.url()).toBe(`${server.url}/docs#start`);
      return reference;
    };
    const field = (of: Page) => of.getByLabel('API key', { exact: true }).first();
    const reference = await tryIt();
    await expect.poll(() => field(reference).inputValue()).toBe(key);
    expect(await reference.evaluate('opener')).toBeNull();
    // The history of the browser also keeps an address that a script replaces.
    const opened = String(await reference.evaluate(`performance.getEntriesByType('navigation')[0].name`));
    expect(opened).toContain('/docs#new-key-');
    places.push(opened);
    await reference.getByRole('button', { name: 'List all animals', exact: true }).click();
    await reference.locator('.steps').getByRole('status').filter({ hasText: '200 OK' }).waitFor();
    // Nothing asks again, and the first tab keeps what is entered there.
    await reference.reload();
    await field(reference).fill('another');
    const second = await tryIt();
    await expect.poll(() => field(second).inputValue()).toBe(key);
    expect(await field(reference).inputValue()).toBe('another');
    expect(warnings).toBe(0);
    // The key is not stored by that.
    await follow('Settings');
    await shown('Settings');
    expect(warnings).toBe(1);
    expect(places.join()).not.toContain(key.slice(9));
  });

  test('let the reference make a key in one step, for the person who is signed in, and no address has it', async () => {
    const server = await startServer();
    const { page, context, signUp, visit, press, shown, faults } = await openAccount(server);
    const places: string[] = [];
    context.on('request', (request) => void places.push(request.url()));
    /** Opens the reference. What it shows needs no account page. */
    const openDocs = async (isIn: boolean) => {
      places.length = 0;
      await page.goto(`${server.url}/docs`);
      const [member, stranger] = [page.getByText('You are signed in as robin.'), page.getByText('Create an account')];
      await (isIn ? member : stranger).waitFor();
      expect(await (isIn ? stranger : member).isVisible()).toBe(false);
      expect(places.filter((place) => place.includes('/account'))).toEqual([]);
    };
    const make = () => page.getByRole('button', { name: 'Make a key' }).click();
    await openDocs(false);
    await signUp('robin');
    expect(await page.evaluate('localStorage.member')).toMatch(/^\d{13} robin$/);
    await openDocs(true);
    await make();
    await page.getByText('It is entered, and expires after 30 days.').waitFor();
    const key = await page.getByLabel('API key', { exact: true }).first().inputValue();
    expect(key).toMatch(/^ast_test_\w{36}$/);
    // The first call follows by itself.
    await page.locator('.steps').getByRole('status').filter({ hasText: '200 OK' }).waitFor();
    expect(places.join()).not.toContain(key.slice(9));
    expect(await page.evaluate('Object.values({ ...localStorage, ...sessionStorage }).join()')).not.toContain('ast_');
    await visit('');
    expect(await page.getByRole('listitem').filter({ hasText: 'reference, 20' }).count()).toBe(1);
    // A session that lasts an hour without a page.
    await page.evaluate(`localStorage.member = Date.now() - 3_600_001 + ' robin'`);
    await openDocs(false);
    await visit('');
    await shown('API keys');
    await openDocs(true);
    await visit('');
    await press('Sign out');
    await shown('Sign in');
    await openDocs(false);
    expect(faults()).toEqual([]);
  });

  test('tell in the reference that a session has ended meanwhile', async () => {
    const server = await startServer();
    const { page, context, signUp, faults } = await openAccount(server);
    await signUp('robin');
    await page.goto(`${server.url}/docs`);
    await context.clearCookies();
    await page.getByRole('button', { name: 'Make a key' }).click();
    await page.getByText('Your session has ended.').waitFor();
    await page.getByRole('link', { name: 'Create an account' }).waitFor();
    expect(await page.getByText('You are signed in').isVisible()).toBe(false);
    await page.reload();
    await page.getByRole('link', { name: 'Create an account' }).waitFor();
    expect(
      await page
        .getByText(/You are signed in|Your session/)
        .filter({ visible: true })
        .count(),
    ).toBe(0);
    expect(faults()).toEqual([]);
  });

  test.each([1280, 360])('have the actions of a key side by side, %s px wide, also if they are open', async (width) => {
    const { page, signUp, makeKey, visit, row } = await openAccount(await startServer(), {
      viewport: { width, height: 800 },
    });
    await signUp('robin');
    const { key } = await makeKey('website');
    await visit('');
    const menu = row(key).locator('.more');
    await menu.locator('> summary').click();
    const link = menu.locator('.actions');
    const own = page.locator('main > .actions');
    for (const [actions, names] of [
      [link, ['Rotate', 'Revoke']],
      [own, ['Change', 'Rotate', 'Revoke']],
    ] as const) {
      if (actions === own) await row(key).getByRole('link').click();
      const boxes = () => Promise.all(names.map((name) => actions.getByText(name).first().boundingBox()));
      const closed = await boxes();
      const first = closed[0];
      for (const box of closed) expect(box).toMatchObject({ y: first?.y, height: first?.height });
      for (const name of names) await actions.getByText(name).first().click();
      expect(await boxes()).toEqual(closed);
      expect(await actions.getByRole('button').count()).toBe(names.length);
    }
  });

  test('change a key on its page', async () => {
    const server = await startServer();
    const { page, faults, signUp, makeKey, visit, row, follow, press, shown } = await openAccount(server);
    await signUp('robin');
    const { key } = await makeKey('website');
    await visit('');
    await row(key).getByRole('link').click();
    await page.getByText('Change…').click();
    await page.getByLabel('Name').fill('till');
    await page.getByLabel('pets:write').uncheck();
    const date = new Date(Date.now() + 30 * 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
    await page.getByLabel('Expiry date').fill(date);
    await press('Save changes');
    await page.getByText('The key is changed.').waitFor();
    await shown('Key till');
    expect(await page.getByText(`${date} 00:00 UTC`).count()).toBe(1);
    await page.getByText('Change…').click();
    expect(await page.getByRole('checkbox').count()).toBe(1);
    await follow('All API keys');
    await row(key).getByRole('heading', { name: 'till' }).waitFor();
    expect(faults()).toEqual([]);
  });

  test('have one main button beside a new key', async () => {
    const { page, signUp, makeKey } = await openAccount(await startServer());
    await signUp('robin');
    await makeKey('website');
    const filled = `[...document.querySelectorAll('main :is(button, .button)')]
      .filter((button) => getComputedStyle(button).backgroundColor !== 'rgba(0, 0, 0, 0)').map((button) => button.textContent)`;
    expect(await page.evaluate(filled)).toEqual(['Copy key']);
  });

  test('show fifty keys in three screens; menus open one at a time, and move nothing', async () => {
    const server = await startServer();
    const { page, signUp, visit } = await openAccount(server, { viewport: { width: 1280, height: 800 } });
    await signUp('robin');
    const { accounts } = await storeOf(server);
    const key = { account: 'robin', scopes: ['pets:read' as const, 'pets:write' as const], lifetimeMs: null };
    for (let made = 0; made < limits.activeKeys; made++)
      await accounts.addKey({ ...key, name: `a program with a name ${made}`, secret: newSecret(false) });
    await visit('');
    expect(await page.evaluate('document.documentElement.scrollHeight')).toBeLessThanOrEqual(3 * 800);

    const tops = () => page.evaluate(`[...document.querySelectorAll('.keys > li')].map((row) => row.offsetTop)`);
    const before = await tops();
    const menus = page.locator('.more');
    const open = () =>
      page.evaluate(`[...document.querySelectorAll('.more')].flatMap(({ open }, at) => (open ? [at] : []))`);
    const menu = menus.nth(7);
    await menus.nth(3).locator('> summary').click();
    await menu.locator('> summary').click();
    expect(await open()).toEqual([7]);
    const revoke = menu.locator('summary').filter({ hasText: 'Revoke' });
    await menu.locator('summary').filter({ hasText: 'Rotate' }).click();
    const top = async () => Number((await revoke.boundingBox())?.y) + Number(await page.evaluate('scrollY'));
    const topBefore = await top();
    await revoke.click();
    expect(await top()).toBe(topBefore);
    expect(await menu.getByRole('button').allTextContents()).toEqual(['Rotate key', 'Revoke key']);
    expect(await tops()).toEqual(before);

    await menu.getByRole('button', { name: 'Revoke key' }).press('Escape');
    expect(await menu.getByRole('button').allTextContents()).toEqual(['Rotate key']);
    expect(await open()).toEqual([7]);
    await revoke.press('Escape');
    expect(await open()).toEqual([]);
    await menu.locator('> summary').click();
    await page.getByRole('heading', { level: 1 }).click();
    expect(await open()).toEqual([]);
  });

  test('show the start of a long name, also of one from right to left', async () => {
    for (const name of ['שלום '.repeat(20).trim(), 'robin '.repeat(16).trim()]) {
      const { page, signUp, makeKey, visit } = await openAccount(await startServer());
      await signUp(name);
      await makeKey(name);
      await visit('');
      const starts = `['.keys h3 a', '.who'].map((place) => {
        const box = document.querySelector(place);
        const range = new Range();
        range.setStart(box.firstChild, 0);
        range.setEnd(box.firstChild, 1);
        const [outer, inner] = [box, range].map((part) => part.getBoundingClientRect());
        return [box.scrollWidth > box.clientWidth, inner.left >= outer.left - 1 && inner.right <= outer.right + 1];
      })`;
      expect(await page.evaluate(starts)).toEqual(Array(2).fill([true, true]));
    }
  });

  test('say in the menu of a phone who is signed in', async () => {
    for (const width of [320, 390]) {
      const { page, signUp } = await openAccount(await startServer(), { viewport: { width, height: 800 } });
      await signUp('robin');
      await page.getByText('Menu', { exact: true }).click();
      expect(await page.locator('.who').evaluate((box) => box.scrollWidth - box.clientWidth)).toBe(0);
    }
  });

  test('work over plain http from another machine, without Sec-Fetch-Site and a clipboard', async () => {
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
});

const caches: [cache: string, ignoreDefaultArgs: string[]][] = [
  ['without', []],
  ['with', ['--disable-back-forward-cache']],
];

for (const [cache, ignoreDefaultArgs] of caches) {
  const tests = () => {
    test('the back button shows no key and no account page after sign-out', async () => {
      const { page, signUp, makeKey, shown, press, follow } = await openAccount(await startServer());
      await signUp('robin');
      const { key } = await makeKey('website');
      for (const title of ['Settings', 'API keys', 'Settings', 'API keys']) {
        await follow(title);
        await shown(title);
      }
      await makeKey('import');
      await press('Sign out');
      await page.getByText('You are signed out.').waitFor();
      const length = (await page.evaluate('history.length')) as number;
      expect(length).toBeGreaterThan(6);
      for (let back = 1; back < length; back++) {
        const content = await contentAfter(page, 'goBack');
        expect(page.url()).toMatch(/\/account\/sign-(in|up)(\?to=\/settings)?$|^chrome-error:|^about:blank$/);
        for (const secret of [key, key.slice(0, 13), 'website', 'robin', 'Sign out'])
          expect(content).not.toContain(secret);
      }
    });

    /** What the page says instead of a key. */
    const made = /This form has made its key before\./;

    describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
      async function openWithKeys() {
        const server = await startServer();
        const account = await openAccount(server, { javaScriptEnabled });
        await account.signUp('robin');
        const { accounts } = await storeOf(server);
        return { ...account, keys: () => accounts.listKeys('robin') };
      }

      test('a reload, Back and Forward make no second key, and show none', async () => {
        const { page, keys, makeKey, openAction, press, readKey, visit, shown } = await openWithKeys();
        const { key: first } = await makeKey('website');
        await page.reload();
        await shown('API keys');
        await page.getByText(made).waitFor();
        await openAction(first, 'Rotate');
        await press('Rotate key');
        const { key: rotated } = await readKey();
        const { key: last } = await makeKey('import');
        const before = await keys();
        expect(before).toHaveLength(3);
        await visit('/settings');
        for (const step of ['goBack', 'goForward'] as const) {
          const content = await contentAfter(page, step);
          for (const secret of [first, rotated, last]) expect(content).not.toContain(secret);
        }
        expect(await keys()).toEqual(before);
      });

      test('a second click meanwhile makes no second key; after the back button, it does', async () => {
        const { page, server, keys, shown, name } = await openWithKeys();
        for (const expected of [1, 2]) {
          await name(`website ${expected}`);
          const button = page.getByRole('button', { name: 'Make key' });
          await button.scrollIntoViewIfNeeded();
          const { x, y } = (await button.boundingBox()) as { x: number; y: number };
          process.kill(server.pid, 'SIGSTOP');
          for (let click = 0; click < 2; click++) {
            await page.mouse.click(x + 10, y + 10);
            await sleep(300);
          }
          process.kill(server.pid, 'SIGCONT');
          // Without a script the second form takes the place of the first, whose key nobody sees.
          if (javaScriptEnabled) await shown('Your new API key');
          else await page.locator('#key').or(page.getByText(made)).waitFor();
          // A second request would have been answered by then.
          await sleep(500);
          expect(await keys()).toHaveLength(expected);
          await page.goBack({ waitUntil: 'commit' });
          await shown('API keys');
        }
      });
    });

    test('a form that the browser stopped can be sent again', async () => {
      const server = await startServer();
      const { page, signUp, shown, name } = await openAccount(server);
      await signUp('robin');
      await name('website');
      const press = () => page.getByRole('button', { name: 'Make key' }).click({ noWaitAfter: true });
      process.kill(server.pid, 'SIGSTOP');
      await press();
      await sleep(300);
      await (await page.context().newCDPSession(page)).send('Page.stopLoading');
      process.kill(server.pid, 'SIGCONT');
      // The server may have made the first one.
      await name('website again');
      await press();
      await shown('Your new API key');
    });
  };
  describeInBrowser(`the account pages ${cache} the back/forward cache`, tests, { ignoreDefaultArgs });
}
