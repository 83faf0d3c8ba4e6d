/** Tests the accessibility of the reference page in a real browser. */
import { expect, test } from 'vitest';
import { accessibilityFaults, describeInBrowser, openReference, picture } from './page.ts';

describeInBrowser('accessibility', () => {
  const narrow = { width: 390, height: 844 };
  const looks = [
    ['light', {}],
    ['dark', { colorScheme: 'dark' }],
    ['narrow', { viewport: narrow }],
    ['narrow-dark', { viewport: narrow, colorScheme: 'dark' }],
  ] as const;

  test.each(looks)('axe reports no violation, and nothing is wider than the page: %s', async (name, options) => {
    const { page, open, faults } = await openReference(options);
    for (const place of ['', 'pets/listPets', 'pets/getPet', 'store/listOrders']) {
      await open(place);
      await page.waitForLoadState('networkidle');
      expect(await accessibilityFaults(page), place).toEqual([]);
      const beyond = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      expect(beyond, place).toBeLessThanOrEqual(0);
      await picture(page, [name, ...(place ? [place.split('/')[1]] : [])].join('-'));
    }
    expect(faults()).toEqual([]);
  });

  test.each(looks)('axe reports no violation in the panel, before and after a response: %s', async (name, options) => {
    const { page, server, key, open, authenticate, send, faults } = await openReference(options);
    // Enough pets for a response that has to scroll.
    for (let index = 0; index < 20; index++)
      await server.call(key, 'POST', '/v1/pets', { name: 'Crumb', categoryId: 7 });
    for (const place of ['listPets', 'getPet', 'createPet']) {
      const operation = await open(`pets/${place}`);
      await authenticate(key);
      const panel = await send(operation, async (opened) => {
        await opened.getByRole('button', { name: 'Send' }).first().waitFor();
        expect(await accessibilityFaults(page), `${place}, opened`).toEqual([]);
      });
      await panel.locator('.cm-content[contenteditable="false"]').first().waitFor();
      expect(await accessibilityFaults(page), `${place}, answered`).toEqual([]);
      await picture(page, `panel-${place}-${name}`);
    }
    expect(faults()).toEqual([]);
  });

  test('the keyboard alone opens the panel of an operation and closes it', async () => {
    const { page, open, faults } = await openReference();
    const operation = await open('pets/listPets');
    await operation.getByRole('button', { name: 'Shell Curl' }).focus();
    await expect
      .poll(async () => {
        await page.keyboard.press('Tab');
        return page.evaluate('document.activeElement.textContent');
      })
      .toContain('Test Request');
    await page.keyboard.press('Enter');
    const panel = page.getByRole('dialog');
    await panel.waitFor();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'hidden' });
    expect(faults()).toEqual([]);
  });
});
