/** Tests in a real browser that everybody can use the reference page, on any screen. */
import { expect, test } from 'vitest';
import { accessibilityFaults, clipped, describeInBrowser, looks, openReference } from './page.ts';

describeInBrowser('everybody', () => {
  test.each(looks)(
    'axe has no remark on the pages and the panels; a response is in sight after Send: %s',
    async (_, options) => {
      const { page, server, open, authenticate, send, faults } = await openReference(options);
      const expectAccessible = async (where: string) => {
        // Half under the bar of a phone, a control would be too small for axe. Readers scroll.
        await page.evaluate('scrollTo(0, 0)');
        expect(await accessibilityFaults(page), where).toEqual([]);
      };
      for (const place of ['/docs', '/docs/quickstart', '/docs/changelog']) {
        await page.goto(server.url + place);
        await expectAccessible(place);
        // Opens all parts.
        expect(await clipped(page), place).toEqual([]);
        await expectAccessible(`${place}, all parts open`);
      }
      // Enough pets for a response that has to scroll.
      for (let index = 0; index < 20; index++) await server.add({ name: 'Crumb', categoryId: 7 });
      for (const place of ['listPets', 'getPet', 'createPet']) {
        const operation = await open(`pets/${place}`);
        await authenticate();
        const panel = await send(operation, () => expectAccessible(`${place}, opened`));
        for (const part of [panel.getByRole('status'), panel.getByLabel('Response body')]) {
          const { y, height } = (await part.boundingBox()) ?? { y: Number.NaN, height: 0 };
          expect(y, place).toBeGreaterThanOrEqual(0);
          expect(y + height, place).toBeLessThanOrEqual(page.viewportSize()?.height as number);
        }
        await expectAccessible(`${place}, answered`);
      }
      expect(faults()).toEqual([]);
    },
  );

  test('the keyboard skips the contents, opens a panel, sends its request and scrolls the response', async () => {
    const { page, open, authenticate } = await openReference();
    await open('');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(page.url()).toMatch(/#main$/);
    const operation = await open('pets/listPets');
    await authenticate();
    const goTo = async (name: string, most: number) => {
      for (let index = 0; index < most; index++) {
        await page.keyboard.press('Tab');
        const found = await page.evaluate(
          'document.activeElement.textContent.trim() + document.activeElement.ariaLabel',
        );
        if (String(found).includes(name)) return;
      }
      throw new Error(`Tab does not reach ${name}`);
    };
    await goTo('Try it', 60);
    // It is open. Two presses close and open it.
    for (const isOpen of [false, true]) {
      await page.keyboard.press('Enter');
      expect(await operation.getByRole('button', { name: 'Send', exact: true }).isVisible()).toBe(isOpen);
    }
    await goTo('Send', 10);
    await page.keyboard.press('Enter');
    await operation.getByRole('status').filter({ hasText: '200 OK' }).waitFor();
    await goTo('Response body', 3);
  });
});
