/** Tests the contents, the search and the theme of the reference page in a real browser. */
import { expect, test } from 'vitest';
import { accessibilityFaults, describeInBrowser, looks, openReference } from './page.ts';

describeInBrowser('the contents', () => {
  test('are within reach on a phone at any depth, and cover nothing that a link leads to', async () => {
    const { page, open, faults } = await openReference(looks[2][1]);
    await open('');
    const summary = page.getByText('Contents', { exact: true });
    for (const depth of [0, 0.5, 1]) {
      await page.evaluate(`scrollTo(0, document.documentElement.scrollHeight * ${depth})`);
      await summary.click();
      const links = page.getByRole('navigation', { name: 'Contents' }).getByRole('link');
      for (const link of await links.all()) expect(await link.isVisible()).toBe(true);
      // They cover a part of what is behind them.
      expect(await accessibilityFaults(page, '.contents')).toEqual([]);
      await links.last().focus();
      await page.keyboard.press('Escape');
      expect(await links.first().isVisible()).toBe(false);
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Contents');
    }
    await summary.click();
    await page.getByRole('link', { name: 'Add an animal' }).first().click();
    const heading = page.getByRole('heading', { name: 'Add an animal' });
    const bar = (await page.locator('.contents').boundingBox()) ?? { y: 0, height: 0 };
    await expect.poll(async () => (await heading.boundingBox())?.y).toBeGreaterThanOrEqual(bar.height);
    expect(bar.y).toBe(0);
    expect(faults()).toEqual([]);
  });
});

describeInBrowser('the contents on a wide screen', () => {
  test('are all visible at a height of 800 px, scroll for everybody at less, and no focus ring is cut off', async () => {
    const { page, open } = await openReference({ viewport: { width: 1280, height: 800 } });
    await open('');
    const links = page.locator('.sections a');
    for (const link of await links.all()) {
      const { y, height } = (await link.boundingBox()) ?? { y: Number.NaN, height: 0 };
      expect(y + height).toBeLessThanOrEqual(800);
    }
    await page.setViewportSize({ width: 1280, height: 500 });
    expect(await accessibilityFaults(page)).toEqual([]);
    const offset = 'getComputedStyle(document.activeElement).outlineOffset';
    for (const place of [links.last(), page.locator('.tabs summary').first()]) {
      await place.focus();
      await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Tab');
      expect(await page.evaluate(offset)).toBe('-2px');
    }
  });
});

describeInBrowser('the search', () => {
  test('finds operations, fields, error codes and headers, and leads to them', async () => {
    const { page, open, faults } = await openReference();
    await open('');
    const found = page.locator('.found a');
    for (const [text, first, hash] of [
      ['LIST ANIMALS', 'List all animals', '#animal-store/tag/pets/listPets'],
      ['categoryid', 'categoryId', '#animal-store/tag/pets/createPet/body/categoryId'],
      ['rate_lim', 'rate_limited', '#error/rate_limited'],
      ['ratelimit-rem', 'RateLimit-Remaining', '#header/RateLimit-Remaining'],
      ['id', 'id', '#animal-store/model/Pet/id'],
      // What the texts say.
      ['pagination', 'Paging', '#guides/paging'],
      ['authentication', 'Authentication and keys', '#guides/authentication-and-keys'],
      ['cors', 'Methods, paths and origins', '#methods'],
      ['64-bit', 'Exact numbers', '#guides/exact-numbers'],
      ['next', 'List all animals', '#animal-store/tag/pets/listPets'],
      ['delete', 'Change or delete an animal', '#changes'],
      ['update', 'Change or delete an animal', '#changes'],
      ['token', 'Authentication and keys', '#guides/authentication-and-keys'],
      ['webhook', 'Webhooks and SDKs', '#absent'],
      ['sdk', 'Webhooks and SDKs', '#absent'],
      ['version', 'Versions', '#versions'],
    ] as const) {
      await page.keyboard.press(text === 'token' ? '/' : 'Control+k');
      await page.keyboard.type(text);
      await expect.poll(() => found.first().innerText()).toContain(first);
      await page.keyboard.press('Enter');
      await expect.poll(() => decodeURIComponent(new URL(page.url()).hash)).toBe(hash);
      await page.evaluate('document.activeElement.blur()');
      expect(await page.locator('#search').inputValue()).toBe('');
      expect(await page.locator(`[id="${hash.slice(1)}"]`).isVisible()).toBe(true);
    }
    await page.keyboard.press('/');
    await page.keyboard.type('a/b');
    expect(await page.locator('#search').inputValue()).toBe('a/b');
    expect(await page.locator('.search output').innerText()).toContain('Nothing found. Try key,');
    expect(faults()).toEqual([]);
  });

  test('is on the page for a mistyped address, and leads on to what is found', async () => {
    const { page, server } = await openReference();
    await page.goto(`${server.url}/dosc/x`);
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.getByLabel('Search the reference').fill('paging');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('.found a').first().innerText()).toContain('Paging');
    await page.keyboard.press('Enter');
    await expect.poll(() => new URL(page.url()).hash).toBe('#guides/paging');
  });
});

describeInBrowser('the search by keyboard', () => {
  test('marks results with the arrow keys, and opens the marked one', async () => {
    const { page, open } = await openReference();
    await open('');
    const search = page.getByRole('combobox', { name: 'Search' });
    await search.fill('rate');
    const marked = page.locator('[role="option"][aria-selected="true"]');
    const titles = await page.locator('[role="option"]').allInnerTexts();
    expect(titles.length).toBeGreaterThan(2);
    for (const [pressed, at] of [
      ['ArrowDown', 1],
      ['ArrowDown', 2],
      ['ArrowUp', 1],
      ['ArrowUp', 0],
      ['ArrowUp', titles.length - 1],
      ['ArrowDown', 0],
      ['ArrowDown', 1],
    ] as const) {
      await page.keyboard.press(pressed);
      expect(await marked.allInnerTexts()).toEqual([titles[at]]);
      expect(await search.getAttribute('aria-activedescendant')).toBe(await marked.getAttribute('id'));
    }
    const target = await marked.getAttribute('href');
    await page.keyboard.press('Enter');
    expect(new URL(page.url()).hash).toBe(target);
  });

  test('opens from its icon on a phone, where no key is named', async () => {
    const { page, open } = await openReference(looks[2][1]);
    await open('');
    await page.getByRole('button', { name: 'Search' }).click();
    expect(await page.locator('#search').getAttribute('placeholder')).toBe('Search');
    await page.keyboard.type('paging');
    await page.keyboard.press('Enter');
    await expect.poll(() => new URL(page.url()).hash).toBe('#guides/paging');
    const { height } = (await page.locator('header').boundingBox()) as { height: number };
    expect(height).toBeLessThan(60);
  });
});

describeInBrowser('the theme', () => {
  const ground = 'getComputedStyle(document.body).backgroundColor';
  const [white, dark] = ['rgb(255, 255, 255)', 'rgb(15, 15, 15)'];

  test.each([
    ['light', white, 'Dark', dark],
    ['dark', dark, 'Light', white],
  ] as const)('follows the system, %s, until the reader chooses another', async (colorScheme, own, other, chosen) => {
    const { page, server, open } = await openReference({ colorScheme });
    await open('');
    expect(await page.evaluate(ground)).toBe(own);
    await page.getByLabel('Theme').selectOption(other);
    expect(await page.evaluate(ground)).toBe(chosen);
    // Before the script of the page has run.
    await page.route('**/docs/page.js', (route) => route.abort());
    for (const url of [page.url(), `${server.url}/account/sign-up`]) {
      await page.goto(url);
      expect(await page.evaluate(ground)).toBe(chosen);
      expect(await accessibilityFaults(page)).toEqual([]);
    }
    await page.unroute('**/docs/page.js');
    await open('');
    await page.getByLabel('Theme').selectOption('System');
    expect(await page.evaluate(ground)).toBe(own);
    expect(await page.evaluate('({ ...localStorage })')).toEqual({});
  });
});

const kept = { ignoreDefaultArgs: ['--disable-back-forward-cache'] };
for (const options of [{}, kept])
  describeInBrowser(
    options === kept ? 'Back to a page that the browser kept' : 'Back to a page that the browser loads again',
    () => {
      test('shows the theme that was chosen since, and the body that the samples have', async () => {
        const { page, open } = await openReference();
        const operation = await open('pets/createPet');
        const body = operation.getByLabel('Request body');
        await body.fill('{"name":"Crumb"}');
        await page.getByRole('link', { name: 'Changelog' }).click();
        await page.getByLabel('Theme').selectOption('Dark');
        await page.goBack({ waitUntil: 'commit' });
        await expect.poll(() => page.getByLabel('Theme').inputValue()).toBe('dark');
        expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
        const { name } = JSON.parse(await body.inputValue());
        expect(name).toBe(options === kept ? 'Crumb' : 'Biscuit');
        expect(await operation.locator('.samples').innerText()).toContain(`"name":"${name}"`);
      });
    },
    options,
  );
