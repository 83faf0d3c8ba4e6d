import { expect, test } from 'vitest';
import { accessibilityFaults, describeInBrowser, openReference, picture } from './page.ts';

describeInBrowser('for everybody', () => {
  const narrow = { width: 390, height: 844 };
  test.each([
    ['light', {}],
    ['dark', { colorScheme: 'dark' }],
    ['narrow', { viewport: narrow }],
    ['narrow-dark', { viewport: narrow, colorScheme: 'dark' }],
  ] as const)('axe finds nothing, nothing is wider than the page: %s', async (name, options) => {
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

  test('the keyboard alone reaches an operation and its panel, and leaves it', async () => {
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
