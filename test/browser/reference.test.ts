/** Tests the content of the reference page in a real browser. */
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { describeInBrowser, openReference } from './page.ts';

describeInBrowser('the reference page', () => {
  test('is where / redirects a browser', async () => {
    const { page, server } = await openReference();
    await page.goto(server.url);
    expect(page.url()).toBe(`${server.url}/docs`);
    await page.getByRole('heading', { name: 'Animal Store' }).waitFor();
  });

  test('begins with three steps: two links to the account pages, and a call of this server that works with a key', async () => {
    const { page, server, key, open, faults } = await openReference();
    const steps = (await open('')).getByRole('list').first().getByRole('listitem');
    await expect.poll(() => steps.count()).toBe(3);
    const command = await steps.nth(2).locator('pre').innerText();
    expect(command.trim()).toBe(`curl -H 'Authorization: Bearer <API_KEY>' ${server.url}/v1/pets`);
    const call = command.replace('<API_KEY>', key);
    expect(execFileSync('sh', ['-c', call], { encoding: 'utf8', stdio: 'pipe' })).toBe('[]');
    for (const [index, name, path, heading] of [
      [0, 'Create an account', '/account/sign-up', 'Create an account'],
      [1, 'Make an API key', '/account/sign-in', 'Sign in'],
    ] as const) {
      await steps.nth(index).getByRole('link', { name }).click();
      await page.getByRole('heading', { name: heading }).waitFor();
      expect(page.url()).toBe(server.url + path);
      await page.goBack();
    }
    expect(faults()).toEqual([]);
  });

  test('its navigation lists the groups Store and Pets with their operations', async () => {
    const { page, open, faults } = await openReference();
    await open('');
    const navigation = page.getByRole('complementary').first();
    const entries = async () =>
      (await navigation.getByRole('link').allInnerTexts()).map((text) => text.split('\n')[0]?.trim());
    await expect.poll(entries).toEqual(expect.arrayContaining(['Store', 'Pets', 'List all animals', 'Add an animal']));
    const names = await entries();
    expect(names.indexOf('Store')).toBeLessThan(names.indexOf('Pets'));
    await navigation.getByRole('link', { name: 'Add an animal' }).click();
    await expect.poll(() => page.url()).toMatch(/#animal-store\/tag\/pets\/createPet$/);
    await expect.poll(() => page.locator('[id$="pets/createPet"] h3').first().isVisible()).toBe(true);
    expect(faults()).toEqual([]);
  });

  test('strikes getPet through, and shows its removal date and replacement at the URL of rel="deprecation"', async () => {
    const { page, server, key, faults } = await openReference();
    const { link } = Object.fromEntries((await server.call(key, 'GET', '/v1/pets/1')).headers);
    await page.goto(server.url + /<([^>]*)>; rel="deprecation"/.exec(link as string)?.[1]);
    const operation = page.locator('section[id="animal-store/tag/pets/getPet"]');
    const heading = operation.getByText('Get an animal').first();
    await heading.waitFor();
    await expect.poll(() => heading.evaluate((element) => element.getBoundingClientRect().top)).toBeLessThan(300);
    for (const name of [heading, page.getByRole('complementary').getByText('Get an animal')]) {
      const lines = name.locator('xpath=ancestor-or-self::*').evaluateAll((elements) => {
        // biome-ignore lint/suspicious/noExplicitAny: it runs in the page, whose globals have no types here.
        return elements.map((element) => (globalThis as any).getComputedStyle(element).textDecorationLine);
      });
      expect(await lines).toContain('line-through');
    }
    const words = await operation.innerText();
    for (const said of ['Deprecated', 'Removed on 2030-12-05', 'Use GET /pets with the status filter'])
      expect(words).toContain(said);
    expect(faults()).toEqual([]);
  });

  test('shows the parameters, responses, example and error codes of an operation', async () => {
    const { open } = await openReference();
    const words = await (await open('pets/createPet')).innerText();
    for (const said of ['Idempotency-Key', 'categoryId', 'int64', 'Biscuit', '201', '422', 'idempotency_key_reused'])
      expect(words).toContain(said);
    expect(await (await open('')).innerText()).toContain('service_unavailable');
  });

  test.each([
    ['Curl', /curl \S*\/v1\/pets/],
    ['Fetch', /fetch\('\S*\/v1\/pets'/],
    ['http.client', /import http\.client/],
    ['Requests', /requests\.get\("\S*\/v1\/pets"/],
  ])('has a sample for %s', async (name, pattern) => {
    const { page, open } = await openReference();
    const operation = await open('pets/listPets');
    await operation.getByRole('button', { name: 'Shell Curl' }).click();
    await page.getByRole('option', { name, exact: true }).click();
    await expect.poll(() => operation.innerText()).toMatch(pattern);
  });

  test('shows a stability badge only for an operation with x-stability', async () => {
    const { page, server, open } = await openReference();
    await page.route(`${server.url}/openapi.json`, async (route) => {
      const document = await (await route.fetch()).json();
      document.paths['/pets'].get['x-stability'] = 'beta';
      await route.fulfill({ json: document });
    });
    expect(await (await open('pets/listPets')).getByText('beta', { exact: true }).count()).toBe(1);
    expect(await (await open('pets/createPet')).getByText(/^(beta|experimental)$/).count()).toBe(0);
  });
});
