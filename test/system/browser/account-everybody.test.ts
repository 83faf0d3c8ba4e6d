/** Tests in a real browser that everybody can read and operate the account pages, and that a name cannot change them. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { type AccountPage, addOldKeys, linkOf, openAccount, otherPassword, password, storeOf } from './account.ts';
import { accessibilityFaults, describeInBrowser, looks } from './page.ts';

/** Brings the browser to every page in every state, expects no fault there, and calls `look`. The account and its keys have the same name. */
async function tour(
  account: AccountPage,
  ownName: string,
  look: (state: string, heading: string) => Promise<void>,
): Promise<void> {
  const { server, page, faults, visit, shown, press, follow, makeKey, readKey, name, openAction } = account;
  const store = await storeOf(server);

  async function stop(state: string, heading: string): Promise<void> {
    const isRefused = /refused|not-found/.test(state);
    // The page before can have the same heading.
    if (isRefused) await page.getByRole('alert').waitFor();
    await shown(heading);
    // A browser reports each page whose status is 4xx.
    const expected = isRefused ? [expect.stringMatching(/^console: Failed to load resource: .* status of 4/)] : [];
    await expect.poll(faults, { message: state }).toEqual(expected);
    faults().splice(0);
    await look(state, heading);
    expect(faults(), state).toEqual([]);
  }

  /** Fills in the form of a button, and presses it. */
  async function send(button: string, name: string | undefined, ...passwords: string[]): Promise<void> {
    const form = page.locator('form').filter({ has: page.getByRole('button', { name: button, exact: true }) });
    if (name !== undefined) await form.getByLabel('Name').fill(name);
    for (const [index, secret] of passwords.entries()) await form.locator('[type="password"]').nth(index).fill(secret);
    await press(button);
  }

  await visit('');
  await stop('sign-in', 'Sign in');
  await follow('Create one');
  await stop('sign-up', 'Create an account');
  await send('Create account', ownName, 'too short');
  await stop('sign-up-refused', 'Create an account');
  await send('Create account', ownName, password);
  await stop('keys-empty', 'API keys');

  const { key: old } = await makeKey(ownName);
  await stop('new-key', 'Your new API key');
  await follow('I have stored the key');
  await openAction(old, 'Rotate');
  await stop('keys-rotating', 'API keys');
  await press('Rotate key');
  await readKey();
  await visit('');
  await name(ownName);
  await press('Make key');
  await stop('name-refused', 'API keys');
  await press('Make it anyway');
  const { key } = await readKey();
  await addOldKeys(store, ownName);
  await follow('API keys');
  await openAction(key, 'Revoke');
  await stop('keys-revoking', 'API keys');
  await press('Revoke key');
  await page.getByText('The key is revoked.').waitFor();
  await stop('keys', 'API keys');
  await page.locator('.keys').getByRole('link').first().click();
  await stop('key', `Key ${ownName}`);
  await follow('API keys');
  await shown('API keys');
  await name(ownName);
  for (const scope of await page.getByRole('checkbox').all()) await scope.uncheck();
  await press('Make key');
  await stop('keys-refused', 'API keys');

  await follow('Settings');
  await stop('settings', 'Settings');
  await page.getByText('Delete the account…').click();
  await stop('settings-deleting', 'Settings');
  await send('Change password', undefined, otherPassword, otherPassword);
  await stop('settings-refused', 'Settings');
  await page.getByText('Delete the account…').click();
  await send('Delete account and keys', undefined, otherPassword);
  await stop('delete-refused', 'Settings');
  await press('Sign out');
  await stop('signed-out', 'Sign in');
  await page.context().addCookies([{ name: `session-${server.port}`, value: 'ended', url: server.url }]);
  await visit('/settings');
  await stop('session-ended', 'Sign in');
  await send('Sign in', ownName, otherPassword);
  await stop('sign-in-refused', 'Sign in');

  await visit(await linkOf(server, 'invite'));
  await stop('invitation', 'Create an account');
  const reset = await linkOf(server, 'reset', ownName);
  await visit(reset);
  await stop('reset', 'Choose a password');
  await send('Save password', undefined, otherPassword);
  await shown('API keys');
  await visit(reset);
  await stop('not-found', 'Not found');
}

/** How many pixels of the page are beyond the window. */
const beyond = (page: Page) => page.evaluate('document.documentElement.scrollWidth - innerWidth');

/** Where the shown elements begin. */
const edges = (selector: string): number[] => {
  // biome-ignore lint/suspicious/noExplicitAny: it runs in the page, whose globals have no types here.
  const shown = [...(globalThis as any).document.querySelectorAll(selector)].filter((element) =>
    element.checkVisibility(),
  );
  return [...new Set(shown.map((element) => element.getBoundingClientRect().left))];
};

const names = {
  plain: 'robin',
  long: 'W'.repeat(100),
  nasty: `"><img src=x onerror=alert(1)>' autofocus onfocus='alert(1)`,
};
const tours = [
  [...looks[0], names.plain],
  [...looks[1], names.nasty],
  [...looks[2], names.long],
  [...looks[3], names.plain],
] as const;

describeInBrowser('the account pages', () => {
  test('can be operated with the keyboard alone', async () => {
    const { page, visit, shown, faults } = await openAccount(await startServer());
    /** Presses Tab until it reaches what has this text or label. */
    const goTo = async (name: string) => {
      for (let index = 0; index < 30; index++) {
        await page.keyboard.press('Tab');
        const found = await page.evaluate(`(({ labels, textContent, ariaLabel }) =>
          [ariaLabel ?? (labels?.length ? labels[0].textContent : textContent)].join('').trim())(document.activeElement)`);
        if (String(found).startsWith(name)) return;
      }
      throw new Error(`Tab does not reach ${name}`);
    };
    const type = async (label: string, text: string) => {
      await goTo(label);
      await page.keyboard.type(text);
    };
    const activate = async (name: string) => {
      await goTo(name);
      await page.keyboard.press('Enter');
    };
    await visit('/sign-up');
    await type('Name', 'robin');
    await type('Password', password);
    await page.keyboard.press('Enter');
    await shown('API keys');
    await type('Name', 'website');
    await activate('Make key');
    await shown('Your new API key');
    await activate('I have stored the key');
    await shown('API keys');
    for (const [action, button, result] of [
      ['Rotate', 'Rotate key', 'Your new API key'],
      ['Revoke', 'Revoke key', 'API keys'],
    ] as const) {
      await visit('');
      await activate('Actions for website');
      await activate(action);
      await activate(button);
      await shown(result);
    }
    await page.getByText('The key is revoked.').waitFor();
    await activate('Settings');
    await shown('Settings');
    await activate('Delete the account…');
    await type('Current password', 'not the password of robin');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    // The next field after the message is the one that is wrong.
    await activate('The account is not deleted');
    await page.keyboard.type(password);
    await page.keyboard.press('Enter');
    await page.getByText('Your account and its keys are deleted.').waitFor();
    expect(faults()).toEqual([expect.stringMatching(/status of 403/)]);
  });

  test('are black on white on paper, without what only a screen needs', async () => {
    const { page, signUp, makeKey, visit } = await openAccount(await startServer(), { colorScheme: 'dark' });
    await signUp('robin');
    await makeKey('website');
    for (const place of ['', '/settings', '/keys/2', '/nothing']) {
      await visit(place);
      await page.emulateMedia({ media: 'print' });
      expect(await page.evaluate('getComputedStyle(document.body).color'), place).toBe('rgb(27, 27, 27)');
      expect(await page.locator('header nav, .skip').filter({ visible: true }).count(), place).toBe(0);
      expect(await page.locator('h1').isVisible(), place).toBe(true);
      await page.emulateMedia({ media: 'screen' });
    }
  });

  test.each(tours)(
    'have no violation that axe finds, fit into each window, and point to what was refused: %s',
    async (_look, options, name) => {
      const account = await openAccount(await startServer({ env: { RATE_LIMIT: '600' } }), options);
      const { page } = account;
      const fields: Record<string, unknown> = {};
      await tour(account, name, async (state, heading) => {
        fields[state] = await page.evaluate(
          `[...document.querySelectorAll('form:has([type="password"]) [autocomplete]')].map((field) => field.autocomplete).join(' ')`,
        );
        expect(await accessibilityFaults(page), state).toEqual([]);
        expect(await page.title(), state).toContain(`${heading} · Animal Store`);
        if (/refused/.test(state)) expect(await page.evaluate('document.activeElement.id'), state).toBe('error');
        const size = page.viewportSize() as { width: number; height: number };
        for (const width of [1280, 640, 390, 320, size.width]) {
          await page.setViewportSize({ ...size, width });
          const at = `${state}, ${width} pixels`;
          expect(await beyond(page), at).toBeLessThanOrEqual(0);
          // All pages have one left edge.
          expect(await page.evaluate(edges, '.brand, h1, h2'), at).toEqual([Math.max(16, (width - 1024) / 2)]);
          for (const numbers of ['#ended ~ .keys > li:first-child dt', 'main > dl dt', '.usage li'])
            if (width < 400) expect((await page.evaluate(edges, numbers)).length, at).toBeLessThanOrEqual(1);
        }
      });

      // Password managers need them.
      const [ofNew, ofKnown] = ['username new-password', 'username current-password'];
      expect(fields).toMatchObject({ 'sign-up': ofNew, invitation: ofNew, reset: ofNew, 'sign-in': ofKnown });
      expect(fields.settings).toBe(`${ofKnown} new-password ${ofKnown}`);
    },
  );
});
