/** Tests in a real browser that everybody can use the reference page, on any screen. */
import { expect, test } from 'vitest';
import { accessibilityFaults, clipped, describeInBrowser, openReference, picture } from './page.ts';

describeInBrowser('accessibility', () => {
  const narrow = { width: 390, height: 844 };
  const looks = [
    ['light', {}],
    ['dark', { colorScheme: 'dark' }],
    ['narrow', { viewport: narrow }],
    ['narrow-dark', { viewport: narrow, colorScheme: 'dark' }],
  ] as const;

  test.each(looks)('axe has no remark on the pages, not even on best practice: %s', async (name, options) => {
    const { page, server, open, faults } = await openReference(options);
    for (const slug of ['animal-store', 'messages-quickstart']) {
      await open('', slug);
      await picture(page, slug === 'animal-store' ? name : `${name}-quickstart`);
      expect(await accessibilityFaults(page, 'best-practice'), slug).toEqual([]);
      await clipped(page);
      expect(await accessibilityFaults(page, 'best-practice'), `${slug}, all parts open`).toEqual([]);
    }
    await page.goto(`${server.url}/docs/changelog`);
    await picture(page, `${name}-changelog`);
    expect(await accessibilityFaults(page, 'best-practice'), 'changelog').toEqual([]);
    expect(await clipped(page), 'changelog').toEqual([]);
    for (const place of ['pets/listPets', 'pets/getPet', 'store/listOrders']) {
      await open(place);
      await picture(page, `${name}-${place.split('/')[1]}`);
    }
    expect(faults()).toEqual([]);
  });

  test.each(looks)('axe has no remark on the panels, before and after a response: %s', async (name, options) => {
    const { page, server, key, open, authenticate, send, faults } = await openReference(options);
    // Enough pets for a response that has to scroll.
    for (let index = 0; index < 20; index++)
      await server.call(key, 'POST', '/v1/pets', { name: 'Crumb', categoryId: 7 });
    for (const place of ['listPets', 'getPet', 'createPet']) {
      const operation = await open(`pets/${place}`);
      await authenticate(key);
      await send(operation, async () => {
        expect(await accessibilityFaults(page, 'best-practice'), `${place}, opened`).toEqual([]);
      });
      // Half under the bar of a phone, a control would be too small for axe. Readers scroll.
      await page.evaluate('scrollTo(0, 0)');
      expect(await accessibilityFaults(page, 'best-practice'), `${place}, answered`).toEqual([]);
      await operation.scrollIntoViewIfNeeded();
      await picture(page, `panel-${place}-${name}`);
    }
    expect(faults()).toEqual([]);
  });

  test.each([320, 390, 768, 1024, 1280, 1920])('nothing is cut off or covered at a width of %d', async (width) => {
    const { page, key, open, authenticate, send } = await openReference({ viewport: { width, height: 800 } });
    await open('', 'messages-quickstart');
    expect(await clipped(page)).toEqual([]);
    await open('');
    await authenticate(key);
    // A long message, and a long word.
    await send(page.locator('section[id$="pets/createPet"]'), (panel) =>
      panel.getByLabel('Request body').fill(`{"${'colour'.repeat(40)}": 1, "name": "", "categoryId": "x"}`),
    );
    expect(await clipped(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
  });

  test('on a phone the response is in sight after Send, also a long one', async () => {
    const { page, server, key, open, authenticate, send } = await openReference({ viewport: narrow });
    for (let index = 0; index < 20; index++)
      await server.call(key, 'POST', '/v1/pets', { name: 'Crumb', categoryId: 7 });
    for (const place of ['listPets', 'createPet', 'getPet']) {
      const operation = await open(`pets/${place}`);
      await authenticate(key);
      const panel = await send(operation);
      for (const part of [panel.getByRole('status'), panel.getByLabel('Response body')]) {
        await part.waitFor();
        const { y, height } = (await part.boundingBox()) ?? { y: Number.NaN, height: 0 };
        expect(y, place).toBeGreaterThanOrEqual(0);
        expect(y + height, place).toBeLessThanOrEqual(narrow.height);
      }
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    }
  });

  test('the keyboard alone opens a panel, sends its request and scrolls the response', async () => {
    const { page, key, open, authenticate, faults } = await openReference();
    const operation = await open('pets/listPets');
    await authenticate(key);
    const press = async (times: number, name: string) => {
      for (let index = 0; index < times; index++) await page.keyboard.press(name);
    };
    const isFocused = (name: string) =>
      page.evaluate(`document.activeElement.textContent.trim() + document.activeElement.ariaLabel`).then((text) => {
        return (text as string).includes(name);
      });
    const goTo = async (name: string, most: number) => {
      for (let index = 0; index < most && !(await isFocused(name)); index++) await press(1, 'Tab');
      expect(await isFocused(name), name).toBe(true);
    };
    await goTo('Try it', 60);
    await press(1, 'Enter');
    await goTo('Send', 10);
    await press(1, 'Enter');
    await operation.getByRole('status').filter({ hasText: '200 OK' }).waitFor();
    await goTo('Response body', 2);
    expect(faults()).toEqual([]);
  });

  test('the keyboard skips the contents', async () => {
    const { page, open } = await openReference();
    await open('');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(page.url()).toMatch(/#main$/);
  });
});
