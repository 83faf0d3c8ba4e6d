/** Tests in a real browser that everybody can read and operate the account pages, and that a name cannot change them. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { startServer } from '../support/process.ts';
import { type AccountPage, addOldKeys, linkOf, openAccount, otherPassword, password, storeOf } from './account.ts';
import { accessibilityFaults, describeInBrowser, picture } from './page.ts';

/** A page in one state, for example with an error. */
interface State {
  name: string;
  /** The main heading. */
  heading: string;
  refused: boolean;
}

/** The names of an account and of its keys. */
interface Names {
  account: string;
  key: string;
}

const plain: Names = { account: 'robin', key: 'website' };

/** Brings the browser to every page in every state, expects no fault there, and calls `look`. */
async function tour(account: AccountPage, names: Names, look: (state: State) => Promise<void>): Promise<void> {
  const { server, page, faults, visit, shown, press, follow, makeKey, readKey, card } = account;
  const store = await storeOf(server);

  async function stop(name: string, heading: string, refused = false): Promise<void> {
    // The page before can have the same heading.
    if (refused) await page.getByRole('alert').waitFor();
    await shown(heading);
    // A browser reports each page whose status is 4xx.
    const expected = refused ? [expect.stringMatching(/^console: Failed to load resource: .* status of 4/)] : [];
    await expect.poll(faults, { message: name }).toEqual(expected);
    faults().splice(0);
    await look({ name, heading, refused });
    expect(faults(), name).toEqual([]);
  }
  const refused = (name: string, heading: string) => stop(name, heading, true);

  /** Fills in the form of a button, and presses it. */
  async function send(button: string, name: string | undefined, ...passwords: string[]): Promise<void> {
    const form = page.locator('form').filter({ has: page.getByRole('button', { name: button, exact: true }) });
    if (name !== undefined) await form.getByLabel('Name').fill(name);
    for (const [index, secret] of passwords.entries()) await form.locator('[type="password"]').nth(index).fill(secret);
    await press(button);
  }
  const openForm = (key: string, text: string) => card(key).locator('summary').filter({ hasText: text }).click();

  await visit('');
  await stop('sign-in', 'Sign in');
  await follow('Create one');
  await stop('sign-up', 'Create an account');
  await send('Create account', names.account, 'password password password');
  await refused('sign-up-refused', 'Create an account');
  await send('Create account', names.account, password);
  await stop('keys-empty', 'API keys');

  const { key: old } = await makeKey(names.key);
  await stop('new-key', 'Your new API key');
  await follow('I have stored the key');
  await openForm(old, 'Rotate');
  await stop('keys-rotating', 'API keys');
  await press('Rotate key');
  await stop('new-key-rotated', 'Your new API key');
  const { key } = await readKey();
  const { key: other } = await makeKey(names.key);
  await addOldKeys(store, names.account, names.key);
  await follow('API keys');
  await openForm(other, 'Revoke');
  await stop('keys-revoking', 'API keys');
  await press('Revoke key');
  await page.getByText('The key is revoked.').waitFor();
  await stop('keys', 'API keys');
  await page.getByRole('link', { name: 'Usage by day' }).first().click();
  await stop('key', `Usage of ${names.key}`);
  await follow('API keys');
  await shown('API keys');
  for (const scope of await page.getByRole('checkbox').all()) await scope.uncheck();
  await send('Make key', names.key);
  await refused('keys-refused', 'API keys');
  expect((await server.call(key, 'GET', '/v1/pets')).status).toBe(200);

  await follow('Settings');
  await stop('settings', 'Settings');
  await page.getByText('Delete the account…').click();
  await stop('settings-deleting', 'Settings');
  await send('Change password', undefined, otherPassword, otherPassword);
  await refused('settings-refused', 'Settings');
  await press('Sign out');
  await stop('signed-out', 'Sign in');
  await send('Sign in', names.account, otherPassword);
  await refused('sign-in-refused', 'Sign in');
  await follow('Create one');
  await send('Create account', names.account, password);
  await refused('name-taken', 'Create an account');

  await visit(await linkOf(server, 'invite'));
  await stop('invitation', 'Create an account');
  await send('Create account', names.account, password);
  await refused('invitation-refused', 'Create an account');
  const reset = await linkOf(server, 'reset', names.account);
  await visit(reset);
  await stop('reset', 'Choose a password');
  await send('Save password', undefined, 'password password password');
  await refused('reset-refused', 'Choose a password');
  await send('Save password', undefined, otherPassword);
  await shown('API keys');
  await visit(reset);
  await refused('not-found', 'Not found');
}

const beyond = (page: Page) => page.evaluate('document.documentElement.scrollWidth - innerWidth');

/** What Tab reaches on a page, in this order. */
async function tabStops(page: Page): Promise<string[]> {
  const stops: string[] = [];
  for (;;) {
    await page.keyboard.press('Tab');
    const stop = (await page.evaluate(focused)) as { name: string; outline: string } | null;
    if (stop === null) return stops;
    expect(stop.outline, stop.name).toBe('solid 2px');
    stops.push(stop.name);
  }
}

const focused = `(() => {
  const element = document.activeElement;
  if (element === document.body) return null;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const name = (element.labels?.[0] ?? element).textContent.replace(/\\s+/g, ' ').trim();
  return { name, outline: outlineStyle + ' ' + outlineWidth };
})()`;

describeInBrowser('the account pages', () => {
  const narrow = { width: 390, height: 844 };
  test.each([
    ['light', {}],
    ['dark', { colorScheme: 'dark' }],
    ['narrow', { viewport: narrow }],
    ['narrow-dark', { viewport: narrow, colorScheme: 'dark' }],
  ] as const)('have no violation that axe finds, and fit into the window: %s', async (name, options) => {
    const server = await startServer();
    const account = await openAccount(server, options);
    const { page } = account;
    async function look(state: Pick<State, 'name'>, where: Page): Promise<void> {
      expect(await accessibilityFaults(where, 'best-practice'), state.name).toEqual([]);
      expect(await beyond(where), state.name).toBeLessThanOrEqual(0);
      await picture(where, `account-${state.name}-${name}`, { fullPage: true });
    }
    await tour(account, plain, (state) => look(state, page));

    const closed = await openAccount(await startServer({ env: { SIGN_UP: 'invitation' } }), options);
    for (const place of ['sign-in', 'sign-up']) {
      await closed.visit(`/${place}`);
      await look({ name: `${place}-by-invitation` }, closed.page);
    }
    expect(closed.faults()).toEqual([]);
  });

  test.each([
    ['light', 'Dark', 'rgb(15, 15, 15)'],
    ['dark', 'Light', 'rgb(255, 255, 255)'],
  ] as const)('have the theme that the reader chose on the reference page: %s, %s', async (...given) => {
    const [colorScheme, theme, ground] = given;
    const { page, server, signUp, visit, faults } = await openAccount(await startServer(), { colorScheme });
    await page.goto(`${server.url}/docs`);
    await page.getByLabel('Theme').selectOption(theme);
    // Without the script of the page: the theme is there before the page is painted.
    await page.route('**/docs/account.js', (route) => route.fulfill({ contentType: 'text/javascript', body: '' }));
    await signUp('robin');
    for (const place of ['', '/settings']) {
      await visit(place);
      expect(await page.evaluate('getComputedStyle(document.body).backgroundColor'), place).toBe(ground);
      expect(await accessibilityFaults(page, 'best-practice'), place).toEqual([]);
      await picture(page, `account${place.replace('/', '-')}-chosen-${theme.toLowerCase()}`, { fullPage: true });
    }
    expect(faults()).toEqual([]);
  });

  test('fit into each window from 320 pixels on with names of 100 characters, and have a title, one main heading and labels', async () => {
    const account = await openAccount(await startServer());
    const { page } = account;
    const long = 'W'.repeat(100);
    await tour(account, { account: long, key: long }, async ({ name, heading, refused }) => {
      for (const width of [1280, 640, 390, 320]) {
        await page.setViewportSize({ width, height: 844 });
        expect(await beyond(page), `${name}, ${width} pixels`).toBeLessThanOrEqual(0);
      }
      expect(await page.title(), name).toBe(`${refused ? 'Error: ' : ''}${heading} · Animal Store`);
      expect(await page.locator('h1').allInnerTexts(), name).toEqual([heading]);
      const labels = await page.evaluate(
        `[...document.querySelectorAll('input:not([hidden], [type="hidden"]), select')].map(({ labels }) => labels.length)`,
      );
      expect(new Set(labels as number[]), name).toEqual(
        new Set(name === 'not-found' || name === 'key' || /^new-key/.test(name) ? [] : [1]),
      );
    });
  });

  test('tell password managers which field is which', async () => {
    const server = await startServer();
    const { page, signUp, visit } = await openAccount(server);
    /** The autocomplete attributes of each form with a password. */
    async function forms(place: string): Promise<unknown> {
      await visit(place);
      return page.evaluate(
        `[...document.querySelectorAll('form:has([type="password"])')].map((form) =>
          [...form.querySelectorAll('[autocomplete]')].map(({ autocomplete }) => autocomplete))`,
      );
    }
    expect(await forms('/sign-up')).toEqual([['username', 'new-password']]);
    expect(await forms('/sign-in')).toEqual([['username', 'current-password']]);
    expect(await forms(await linkOf(server, 'invite'))).toEqual([['username', 'new-password']]);
    await signUp('robin');
    expect(await forms(await linkOf(server, 'reset', 'robin'))).toEqual([['username', 'new-password']]);
    expect(await forms('/settings')).toEqual([
      ['username', 'current-password', 'new-password'],
      ['username', 'current-password'],
    ]);
    const names = `[...document.querySelectorAll('[autocomplete="username"]')].map(({ value }) => value)`;
    expect(await page.evaluate(names)).toEqual(['robin', 'robin']);
  });

  test('lead from sign-up to the copied key with the keyboard alone', async () => {
    const permissions = ['clipboard-read', 'clipboard-write'];
    const server = await startServer();
    const { page, visit, shown, readKey, faults } = await openAccount(server, { viewport: narrow, permissions });
    const { keyboard } = page;

    /** Presses Tab until the focus is on the control with this name. */
    async function tabTo(name: string): Promise<void> {
      for (let presses = 0; presses < 30; presses++) {
        await keyboard.press('Tab');
        const stop = (await page.evaluate(focused)) as { name: string } | null;
        if (stop?.name.startsWith(name)) return;
      }
      throw new Error(`Tab does not reach ${name}`);
    }

    await visit('/sign-up');
    const header = ['Skip to the content', 'Animal Store', 'Reference'];
    const form = ['Name', 'Password', 'Show password', 'Create account', 'Sign in'];
    expect(await tabStops(page)).toEqual([...header, ...form]);
    await tabTo('Skip to the content');
    expect(await page.getByText('Skip to the content').boundingBox()).toMatchObject({ x: 0, y: 0 });
    await keyboard.press('Enter');
    await keyboard.press('Tab');
    expect(await page.evaluate(focused)).toMatchObject({ name: 'Name' });
    await keyboard.type('robin');
    await tabTo('Password');
    await keyboard.type('too short to send');
    await keyboard.press('Enter');
    await shown('API keys');

    const signedIn = ['Skip to the content', 'Animal Store', 'API keys', 'Settings', 'Reference', 'Sign out'];
    const make = ['Name', 'pets:read list animals, fetch one', 'pets:write add animals', 'Expires', 'Make key'];
    expect(await tabStops(page)).toEqual([...signedIn, 'Make one below', ...make]);
    await tabTo('Name');
    await keyboard.type('website');
    await tabTo('pets:write');
    await keyboard.press('Space');
    await tabTo('Expires');
    await keyboard.press('ArrowDown');
    await tabTo('Make key');
    await keyboard.press('Enter');
    const { key } = await readKey();
    await tabTo('Copy key');
    await keyboard.press('Space');
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key);
    expect((await server.call(key, 'GET', '/v1/pets')).status).toBe(200);
    expect((await server.call(key, 'POST', '/v1/pets', { name: 'Crumb', categoryId: 7 })).status).toBe(403);

    await tabTo('I have stored the key');
    await keyboard.press('Enter');
    await shown('API keys');
    await page.getByText('Active until').waitFor();
    const card = ['Usage by day of website', 'Rotate website…', 'Revoke website…'];
    expect(await tabStops(page)).toEqual([...signedIn, 'Make another key', ...card, ...make]);
    await tabTo('Revoke website');
    await keyboard.press('Enter');
    await tabTo('Revoke key');
    await keyboard.press('Space');
    await page.getByText('The key is revoked.').waitFor();
    expect(faults()).toEqual([]);
  });

  test.each([true, false])(
    'put the focus on the message of a refused form (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const { page, visit, press } = await openAccount(await startServer(), { javaScriptEnabled });
      await visit('/sign-up');
      await page.getByLabel('Name').fill('robin');
      await page.getByLabel('Password', { exact: true }).fill('password password password');
      await press('Create account');
      await page.getByRole('alert').waitFor();
      expect(await page.evaluate('document.activeElement.id')).toBe('error');
      const field = page.getByLabel('Password', { exact: true });
      expect(await field.getAttribute('aria-invalid')).toBe('true');
      expect(await field.getAttribute('aria-describedby')).toBe('password-hint password-fault');
      expect(await page.getByLabel('Name').getAttribute('aria-invalid')).toBeNull();
      // The first stop is the link to the field.
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('password');
    },
  );

  test('show again what was chosen in a refused form, except passwords, and which field was refused', async () => {
    const { page, signUp, press, follow } = await openAccount(await startServer());
    await signUp('robin');
    await page.getByLabel('Name').fill('website');
    for (const scope of await page.getByRole('checkbox').all()) await scope.uncheck();
    await page.getByLabel('Expires').selectOption('after 90 days');
    await press('Make key');
    await page.getByRole('alert').getByText('Scopes must be').waitFor();
    expect(await page.getByLabel('Name').inputValue()).toBe('website');
    expect(await page.getByRole('checkbox', { checked: true }).count()).toBe(0);
    expect(await page.getByLabel('Expires').inputValue()).toBe('90d');
    expect(await page.getByRole('group', { name: 'Scopes' }).getAttribute('aria-describedby')).toBe('scopes-fault');

    await follow('Settings');
    await page.getByText('Delete the account…').click();
    await page.locator('details').getByLabel('Current password').fill(otherPassword);
    await press('Delete account and keys');
    await page.getByRole('alert').waitFor();
    expect(await page.locator('details').getByLabel('Current password').inputValue()).toBe('');
    const invalid = page.locator('[aria-invalid]');
    expect(await invalid.count()).toBe(1);
    expect(await invalid.getAttribute('id')).toBe('confirm');
    expect(await invalid.isVisible()).toBe(true);
  });

  test.each([
    '<img src=x onerror=alert(1)>',
    '"><script>alert(1)</script>',
    '" autofocus onfocus="alert(1)',
    "' onfocus='alert(1)",
    '{{7*7}} <%= 7*7 %>',
    '</title></textarea></style>&lt;&amp;&#60;',
  ])('show the name %s as text', async (nasty) => {
    const account = await openAccount(await startServer());
    const { page, faults, visit, press } = account;
    const names = { account: nasty, key: `key ${nasty}` };

    async function expectOwnMarkup(name: string): Promise<void> {
      const found = await page.evaluate(`({
        loaded: document.querySelectorAll('script, img, link, iframe, object, style').length,
        handlers: [...document.querySelectorAll('*')].flatMap(({ attributes }) => [...attributes]).filter(({ name }) => /^on|^style$/.test(name)).length,
        focused: document.querySelectorAll('[autofocus]:not(#error)').length,
      })`);
      expect(found, name).toEqual({ loaded: 5, handlers: 0, focused: 0 });
    }

    await tour(account, names, async ({ name }) => {
      await expectOwnMarkup(name);
      const words = await page.locator('main').innerText();
      if (/^keys-[^e]/.test(name)) expect(words).toContain(names.key);
      if (/^settings/.test(name)) expect(words).toContain(nasty);
      const field = { 'keys-refused': names.key }[name] ?? nasty;
      if (/^(reset|.*-refused|name-taken)/.test(name) && !/^settings|^not-found/.test(name))
        expect(await page.locator('#name').inputValue(), name).toBe(field);
    });

    // A name of a field, which the message repeats.
    await visit('');
    await page.getByLabel('Name').fill('website');
    await page.evaluate(`document.querySelector('form[action$="/keys"]').append(
      Object.assign(document.createElement('input'), { name: ${JSON.stringify(nasty)}, hidden: true }))`);
    await press('Make key');
    expect(await page.getByRole('alert').textContent()).toContain(JSON.stringify(nasty));
    await expectOwnMarkup('unknown-field');
    await expect.poll(faults).toEqual([expect.stringContaining('status of 400')]);
  });
});
