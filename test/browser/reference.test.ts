/** Tests the content of the reference page in a real browser. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { renderPage } from '../../scripts/reference.ts';
import { projectFolder } from '../support/project.ts';
import { figure } from '../support/tier.ts';
import { describeInBrowser, openReference } from './page.ts';

describeInBrowser('the reference page', () => {
  test('is where / redirects a browser', async () => {
    const { page, server } = await openReference();
    await page.goto(server.url);
    expect(page.url()).toBe(`${server.url}/docs`);
    await page.getByRole('heading', { name: 'Animal Store' }).waitFor();
  });

  test('paints its text before its script has loaded', async () => {
    const { page, server } = await openReference();
    const held = Promise.withResolvers<void>();
    await page.route('**/docs/page.js', async (route) => {
      await held.promise;
      await route.continue();
    });
    await page.goto(`${server.url}/docs`, { waitUntil: 'commit' });
    await page.getByRole('heading', { name: 'Add an animal' }).waitFor();
    const painted = () => page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime");
    await expect.poll(painted).toBeGreaterThan(0);
    expect(await page.locator('.code code').first().innerText()).toContain(`${server.url}/v1/pets`);
    figure(`first contentful paint of the reference page: ${Math.round((await painted()) as number)} ms`);
    expect(await painted()).toBeLessThan(1000);
    held.resolve();
  });

  test.each([
    ['on a desktop', {}, {}],
    ['on a phone', { viewport: { width: 390, height: 844 } }, {}],
    ['with remembered choices', {}, { language: 'Python', theme: 'dark' }],
  ])('moves nothing once it has been painted: %s', async (_, options, choices) => {
    const { page, server } = await openReference(options);
    await page.addInitScript(`Object.assign(localStorage, ${JSON.stringify(choices)})`);
    await page.goto(`${server.url}/docs`, { waitUntil: 'networkidle' });
    const shifts = await page.evaluate(() => {
      return new Promise<number>((resolve) => {
        const sum = (list: { getEntries(): unknown[] }) =>
          (list.getEntries() as { value: number }[]).reduce((all, { value }) => all + value, 0);
        // biome-ignore lint/suspicious/noExplicitAny: it runs in the page, whose globals have no types here.
        const { PerformanceObserver, setTimeout } = globalThis as any;
        new PerformanceObserver((list: { getEntries(): unknown[] }) => resolve(sum(list))).observe({
          type: 'layout-shift',
          buffered: true,
        });
        setTimeout(() => resolve(0), 300);
      });
    });
    expect(shifts).toBe(0);
  });

  test('is readable without JavaScript, and shows nothing then that needs it', async () => {
    const { page, server, open } = await openReference({ javaScriptEnabled: false });
    const words = await (await open('')).innerText();
    for (const said of ['Sending requests from this page needs JavaScript', 'GET /pets', 'invalid_cursor'])
      expect(words).toContain(said);
    expect(words).toContain(`${server.url}/v1/pets`);
    const [curl, python] = ['curl', 'Python'].map((name) => page.locator(`#start [data-language="${name}"]`));
    await python?.locator('summary').click();
    expect(await python?.locator('code').isVisible()).toBe(true);
    expect(await curl?.locator('code').isVisible()).toBe(false);
    for (const control of ['button', 'input', 'textarea', '.try'])
      expect(await page.locator(control).filter({ visible: true }).count(), control).toBe(0);
  });

  test('begins with three steps: a key, the key in the page, and a call of this server that works with it', async () => {
    const { page, server, key, open, faults } = await openReference();
    const steps = (await open('')).locator('.steps > li');
    expect(await steps.getByRole('heading').allInnerTexts()).toEqual([
      'Get an API key',
      'Enter the key',
      'Make the first call',
    ]);
    const command = await steps.nth(2).locator('[data-language="curl"] code').innerText();
    expect(command).toBe(`curl -H 'Authorization: Bearer <API_KEY>' ${server.url}/v1/pets`);
    const call = command.replace('<API_KEY>', key);
    expect(execFileSync('sh', ['-c', call], { encoding: 'utf8', stdio: 'pipe' })).toBe('[]');
    for (const [name, path, heading] of [
      ['Create an account', '/account/sign-up', 'Create an account'],
      ['sign in', '/account/sign-in', 'Sign in'],
    ] as const) {
      await steps.first().getByRole('link', { name }).click();
      await page.getByRole('heading', { name: heading }).waitFor();
      expect(page.url()).toBe(server.url + path);
      await page.goBack();
    }
    expect(faults()).toEqual([]);
  });

  test('lists its contents in the order of use: the first call, Pets before Store, then errors and models', async () => {
    const { page, open, faults } = await openReference();
    await open('');
    const contents = page.getByRole('navigation', { name: 'Contents' });
    const entries = (await contents.locator('li > :is(a, span)').allInnerTexts()).map((text) => text.split('\n')[0]);
    expect(entries.filter((entry) => entry !== 'API keys')).toEqual([
      ...['First call', 'Pets', 'List all animals', 'Add an animal', 'Get an animal', 'Store'],
      ...['List orders (not available)', 'Errors', 'Requests', 'Response headers', 'Models', 'Error', 'Pet'],
    ]);
    const headings = await page.getByRole('heading', { level: 2 }).allInnerTexts();
    expect(headings).toEqual(['First call', 'Pets', 'Store', 'Errors', 'Requests', 'Response headers', 'Models']);
    await contents.getByRole('link', { name: 'Add an animal' }).click();
    expect(page.url()).toMatch(/#animal-store\/tag\/pets\/createPet$/);
    await expect.poll(() => topOf(page.getByRole('heading', { name: 'Add an animal' }))).toBeLessThan(100);
    expect(faults()).toEqual([]);
  });

  test('says nothing twice', async () => {
    const { open } = await openReference();
    for (const slug of ['animal-store', 'messages-quickstart']) {
      const texts = await (await open('', slug)).locator('p, dd:not(:has(p)), td').allInnerTexts();
      const long = texts.map((text) => text.trim()).filter((text) => text.length > 50);
      expect(long.length).toBeGreaterThan(20);
      expect(long.filter((text, index) => long.indexOf(text) !== index)).toEqual([]);
    }
  });

  test('strikes getPet through, and shows its removal date and replacement at the URL of rel="deprecation"', async () => {
    const { page, server, key, faults } = await openReference();
    const { link } = Object.fromEntries((await server.call(key, 'GET', '/v1/pets/1')).headers);
    await page.goto(server.url + /<([^>]*)>; rel="deprecation"/.exec(link as string)?.[1]);
    const operation = page.locator('section[id="animal-store/tag/pets/getPet"]');
    const heading = operation.getByRole('heading', { name: 'Get an animal' });
    await expect.poll(() => topOf(heading)).toBeLessThan(100);
    expect(await heading.locator('s').innerText()).toBe('Get an animal');
    const entry = page.getByRole('navigation', { name: 'Contents' }).getByRole('link', { name: 'Get an animal' });
    expect(await entry.locator('s').innerText()).toBe('Get an animal');
    const marks = operation.locator('.mark');
    expect(await marks.allInnerTexts()).toEqual(['Deprecated', 'Will be removed on 5 December 2030']);
    expect(await operation.innerText()).toContain('GET /pets');
    expect(faults()).toEqual([]);
    await page.clock.setFixedTime('2030-12-05T00:00:00Z');
    await page.reload();
    await expect.poll(() => marks.allInnerTexts()).toEqual(['Deprecated', 'Removed on 5 December 2030']);
  });

  test('shows the parameters, responses, example and error codes of an operation; each code leads to its message', async () => {
    const { page, open } = await openReference();
    const operation = await open('pets/createPet');
    const words = await operation.innerText();
    for (const said of ['Idempotency-Key', 'categoryId', 'int64', 'Biscuit', '201', '422', 'pets:write'])
      expect(words).toContain(said);
    await operation.getByRole('link', { name: 'idempotency_key_reused' }).click();
    const row = page.getByRole('row').filter({ hasText: 'idempotency_key_reused' });
    await expect.poll(() => topOf(row)).toBeLessThan(900);
    expect(await row.innerText()).toMatch(/^422\s+idempotency_key_reused\s+This Idempotency-Key was/);
  });

  test('shows a stability mark only for an operation with x-stability', async () => {
    const { page, server, open } = await openReference();
    const yaml = readFileSync(`${projectFolder}openapi.yaml`, 'utf8').replace(
      'operationId: listPets\n',
      '$&      x-stability: beta\n',
    );
    await page.route(`${server.url}/docs`, (route) =>
      route.fulfill({ contentType: 'text/html', body: renderPage('animal-store.html', yaml) }),
    );
    expect(await (await open('pets/listPets')).locator('.mark').allInnerTexts()).toEqual(['beta']);
    expect(await (await open('pets/createPet')).locator('.mark').count()).toBe(0);
  });
});

/** Pixels between the upper edge of the window and an element. */
const topOf = async (element: Locator) => (await element.boundingBox())?.y;
