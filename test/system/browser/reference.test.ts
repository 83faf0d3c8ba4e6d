/** Tests in a real browser how the reference page appears, and what it says of a deprecated operation. */
import { expect, test } from 'vitest';
import { describeInBrowser, openReference } from './page.ts';

describeInBrowser('the reference page', () => {
  test('is readable without JavaScript, and shows nothing then that needs it', async () => {
    const { page, open, server } = await openReference({ javaScriptEnabled: false });
    const words = await (await open('')).innerText();
    for (const said of ['needs JavaScript', 'GET /pets', 'invalid_cursor', `${server.url}/v1/pets`])
      expect(words).toContain(said);
    const sample = (language: string) => page.locator(`.intro [data-language="${language}"]`);
    await sample('Python').locator('summary').click();
    expect(await sample('Python').locator('code').isVisible()).toBe(true);
    expect(await sample('curl').locator('code').isVisible()).toBe(false);
    for (const control of ['button', 'input', 'textarea', '.try'])
      expect(await page.locator(control).filter({ visible: true }).count(), control).toBe(0);
  });

  test('shows the removal date of getPet at rel="deprecation", and then that it was removed', async () => {
    const { page, server } = await openReference();
    const { headers } = await server.get('/v1/pets/1');
    await page.goto(server.url + /<([^>]*)>; rel="deprecation"/.exec(headers.get('link') as string)?.[1]);
    const operation = page.locator('section[id="animal-store/tag/pets/getPet"]');
    await expect.poll(async () => (await operation.boundingBox())?.y).toBeLessThan(100);
    const marks = operation.locator('.mark');
    expect(await marks.allInnerTexts()).toEqual(['Deprecated', 'Will be removed on 5 December 2030']);
    await page.clock.setFixedTime('2030-12-05T00:00:00Z');
    await page.reload();
    await expect.poll(() => marks.allInnerTexts()).toEqual(['Deprecated', 'Removed on 5 December 2030']);
  });
});
