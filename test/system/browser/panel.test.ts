/** Tests the panels of the reference page that send requests, in a real browser. */
import { expect, test } from 'vitest';
import { describeInBrowser, openReference } from './page.ts';

describeInBrowser('the request panel', () => {
  test('makes the first call, adds, lists and sends a message with the key of the page, and shows every digit', async () => {
    const { page, open, authenticate, send, faults } = await openReference();
    const steps = (await open('')).locator('.steps');
    await authenticate();
    await steps.getByRole('button', { name: 'List all animals', exact: true }).click();
    await expect.poll(() => steps.getByRole('status').innerText()).toBe('200 OK');
    expect(await steps.getByLabel('Response body').innerText()).toBe('[]');
    expect(await steps.locator('.facts').innerText()).toMatch(/^\d+ ms, request id [\da-f-]{36}$/);
    const contents = page.getByRole('navigation', { name: 'Contents' });
    await contents.getByRole('link', { name: 'Add an animal' }).click();
    const added = await send(page.locator('section[id$="pets/createPet"]'), (panel) =>
      panel.getByLabel('Request body').fill('{"name": "Big", "categoryId": 9007199254740993}'),
    );
    expect(await added.getByRole('status').innerText()).toBe('201 Created');
    await contents.getByRole('link', { name: 'List all animals' }).click();
    const listed = await send(page.locator('section[id$="pets/listPets"]'));
    expect(await listed.innerText()).toMatch(/200 OK[\s\S]*Big[\s\S]*"categoryId": 9007199254740993/);
    const quickstart = await open('messages/sendMessage', 'messages-quickstart');
    await authenticate();
    expect(await (await send(quickstart)).innerText()).toMatch(/202 Accepted[\s\S]*queued/);
    expect(faults()).toEqual([]);
  });

  test('a double click adds once', async () => {
    const { page, server, open, authenticate } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate();
    const held = Promise.withResolvers<void>();
    let requests = 0;
    await page.route('**/v1/pets', async (route) => {
      requests += 1;
      await held.promise;
      await route.continue();
    });
    const button = operation.getByRole('button', { name: 'Send', exact: true });
    await button.dblclick();
    expect(await button.isDisabled()).toBe(true);
    held.resolve();
    await operation.getByRole('status').filter({ hasText: '201 Created' }).waitFor();
    expect([requests, (await server.get('/v1/pets')).json.length]).toEqual([1, 1]);
    await expect.poll(() => button.isDisabled()).toBe(false);
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Send');
  });

  test('keeps the API key only in memory: a reload removes it, and no URL has it', async () => {
    const { page, key, open, authenticate, send } = await openReference();
    const urls: string[] = [];
    page.on('request', (request) => void urls.push(request.url()));
    const operation = await open('pets/listPets');
    await authenticate();
    await page.keyboard.press('Enter');
    await send(operation);
    const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])');
    expect(kept).not.toContain(key);
    expect(await page.evaluate('indexedDB.databases()')).toEqual([]);
    expect([...urls, page.url()].join()).not.toContain(key);
    await page.reload();
    expect(await page.getByLabel('API key', { exact: true }).first().inputValue()).toBe('');
  });

  test('says in its own words why nothing was sent or no response came', async () => {
    const { page, open, authenticate, send } = await openReference();
    const operation = await open('pets/listPets');
    const said = async () => (await send(operation)).getByRole('status').innerText();
    await authenticate('ключ');
    expect(await said()).toBe(
      'Not sent: the API key has a character other than ASCII letters, digits and punctuation.',
    );
    await authenticate();
    await page.context().setOffline(true);
    expect(await said()).toBe('No response: this device is offline.');
    await page.context().setOffline(false);
    await page.route('**/v1/pets', (route) => route.abort());
    expect(await said()).toBe('No response: the server cannot be reached. The request may have arrived.');
  });

  test('renews its Idempotency-Key when the outcome is known, on request, and never one that the reader entered', async () => {
    const { page, server, open, authenticate, send } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate();
    const field = operation.getByLabel('Idempotency-Key', { exact: true });
    const first = await field.inputValue();
    expect(first).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    // A refusal says nothing of the request before it, whose response was lost.
    for (const status of [503, 429, 401]) {
      await page.route('**/v1/pets', (route) => route.fulfill({ status, body: '{}' }), { times: 1 });
      await send(operation);
      expect(await field.inputValue()).toBe(first);
    }
    // The server knows this one, with another body.
    await page.route('**/v1/pets', (route) => route.fulfill({ status: 422, body: '{}' }), { times: 1 });
    await send(operation);
    const fresh = await field.inputValue();
    expect(fresh).not.toBe(first);
    await send(operation);
    const second = await field.inputValue();
    expect(second).not.toBe(fresh);
    await operation.getByRole('button', { name: 'New Idempotency-Key' }).click();
    expect(await field.inputValue()).not.toBe(second);
    await field.fill('mine');
    for (const _ of [1, 2]) await send(operation);
    expect(await field.inputValue()).toBe('mine');
    await operation.getByText('Response headers').last().click();
    expect(await operation.locator('.answer').innerText()).toContain('idempotent-replayed: true');
    expect((await server.get('/v1/pets')).json.length).toBe(2);
  });

  test('does not send without a key, and leads to the field beside the button; Enter sends; all fields have one value', async () => {
    const { page, open, key } = await openReference();
    const operation = await open('pets/listPets');
    let requests = 0;
    await page.route('**/v1/pets', async (route) => {
      requests += 1;
      await route.continue();
    });
    await operation.getByRole('button', { name: 'Send', exact: true }).click();
    const field = operation.getByLabel('API key', { exact: true });
    const fault = operation.locator('.fault');
    expect(await fault.innerText()).toBe('Enter a key first.');
    expect(await field.evaluate((element) => element.matches(':focus'))).toBe(true);
    expect(await field.getAttribute('aria-invalid')).toBe('true');
    await page.keyboard.type(key);
    expect([await fault.innerText(), await field.getAttribute('aria-invalid'), requests]).toEqual(['', null, 0]);
    const all = await page.getByLabel('API key', { exact: true }).all();
    expect(all.length).toBe(4);
    for (const one of all) expect(await one.inputValue()).toBe(key);
    const look = () => field.evaluate((element) => element.computedStyleMap().get('-webkit-text-security')?.toString());
    const show = operation.getByRole('button', { name: 'Show the key' });
    for (const expected of ['disc', 'none', 'disc']) {
      expect(await look()).toBe(expected);
      await show.click();
    }
    await field.press('Enter');
    await operation.getByRole('status').filter({ hasText: '200 OK' }).waitFor();
    expect(requests).toBe(1);
  });

  test('takes no key from its address: a link of another site chooses none', async () => {
    const { page, server, key } = await openReference();
    for (const hash of [`#key=${key}`, `#new-key-1`]) {
      await page.goto('about:blank');
      await page.goto(`${server.url}/docs${hash}`);
      await page.locator('.ready').waitFor();
      expect(await page.getByLabel('API key', { exact: true }).first().inputValue()).toBe('');
    }
  });

  test('leads from page to page, and from a new animal to it', async () => {
    const { page, server, open, authenticate, send, faults } = await openReference();
    for (const name of ['Biscuit', 'Crumb', 'Moth']) await server.add({ name, categoryId: 7 });
    const listing = await open('pets/listPets');
    await authenticate();
    const listed = await send(listing, (panel) => panel.getByLabel('limit', { exact: true }).fill('2'));
    const body = listed.getByLabel('Response body');
    expect(await body.innerText()).toContain('Crumb');
    await listed.getByRole('button', { name: 'Next page' }).click();
    await expect.poll(() => body.innerText()).toContain('Moth');
    expect(await body.innerText()).not.toContain('Crumb');
    expect(await listed.getByRole('button', { name: 'Next page' }).count()).toBe(0);
    expect(await listing.locator('[data-language="curl"] code').innerText()).toContain('cursor=');
    // Its box can be made taller.
    const box = listed.getByLabel('Response body');
    expect(await box.evaluate((element) => element.computedStyleMap().get('resize')?.toString())).toBe('vertical');
    expect(
      await box.evaluate((element) => {
        (element as unknown as { style: { height: string } }).style.height = '900px';
        return element.getBoundingClientRect().height;
      }),
    ).toBe(900);
    // In the colors of the samples.
    expect(await body.locator('.string').first().innerText()).toBe('"Moth"');

    const added = await send(page.locator('section[id$="pets/createPet"]'));
    await added.getByRole('button', { name: 'Get an animal 4' }).click();
    const got = page.locator('section[id$="pets/getPet"] form');
    await got.getByRole('status').filter({ hasText: '200 OK' }).waitFor();
    expect(await got.getByLabel('Response body').innerText()).toContain('"id": 4');
    expect(faults()).toEqual([]);
  });

  test('shows what a proxy answers as it is, and leads on from any form of its headers', async () => {
    const { page, open, authenticate, send } = await openReference();
    const operation = await open('pets/listPets');
    await authenticate();
    const json = { 'content-type': 'application/json' };
    const answer = async (on: typeof operation, headers: Record<string, string>, body: string) => {
      await page.route('**/v1/pets', (route) => route.fulfill({ headers, body }), { times: 1 });
      const panel = await send(on);
      await panel.getByRole('status').filter({ hasText: '200 OK' }).waitFor();
      return panel;
    };
    const html = await answer(operation, { 'content-type': 'text/html' }, '<h1>502 "bad" true</h1>');
    expect(await html.locator('.answer code').innerHTML()).toBe('&lt;h1&gt;502 "bad" true&lt;/h1&gt;');
    expect(await html.locator('.facts').innerText()).toMatch(/^\d+ ms$/);

    const escapes = '{"a\\"b": "c\\\\", "d": ["\\" : 1 true"], "e": -9223372036854775808}';
    const painted = await answer(operation, json, escapes);
    const spans = await painted.locator('.answer code span').allInnerTexts();
    expect(spans).toEqual([`"a\\"b"`, `"c\\\\"`, '"d"', `"\\" : 1 true"`, '"e"', '-9223372036854775808']);

    for (const [rel, cursor] of [
      ['rel="next"; title="x"', 'one'],
      ['title="a, b"; rel=next', 'two'],
      ['rel="first", </v1/pets?cursor=three>; rel="next"', 'three'],
    ] as const) {
      const panel = await answer(operation, { ...json, link: `</v1/pets?cursor=${cursor}>; ${rel}` }, '[]');
      await page.route('**/v1/pets?*', (route) => route.fulfill({ json: [] }), { times: 1 });
      const sent = page.waitForRequest(/cursor=/);
      await panel.getByRole('button', { name: 'Next page' }).click();
      expect(new URL((await sent).url()).search).toBe(`?cursor=${cursor}`);
      await panel.getByLabel('cursor', { exact: true }).fill('');
    }
    const create = page.locator('section[id$="pets/createPet"]');
    const added = await answer(create, { ...json, location: 'http://[' }, '{}');
    expect(await added.locator('.next').innerText()).toBe('');
  });

  test('sends a request again with the same Idempotency-Key, which adds nothing', async () => {
    const { page, server, open, authenticate, send } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate();
    const field = operation.getByLabel('Idempotency-Key', { exact: true });
    const again = operation.getByRole('button', { name: 'Send again with the same Idempotency-Key' });
    expect(await again.isVisible()).toBe(false);
    const keys: string[] = [];
    page.on('request', (request) => void keys.push(request.headers()['idempotency-key'] ?? ''));
    await send(operation);
    const next = await field.inputValue();
    await page.setViewportSize({ width: 320, height: 700 });
    const right = async (place: typeof again) => {
      const { x, width } = (await place.boundingBox()) ?? { x: NaN, width: 0 };
      return x + width;
    };
    expect(await right(again)).toBeLessThan(await right(operation.locator('form')));
    await again.click();
    await expect.poll(() => keys.filter(Boolean).length).toBe(2);
    await expect.poll(() => operation.getByRole('status').innerText()).toBe('201 Created');
    expect(keys.filter(Boolean)[1]).toBe(keys.filter(Boolean)[0]);
    expect(await field.inputValue()).toBe(next);
    await send(operation);
    expect(new Set(keys.filter(Boolean)).size).toBe(2);
    expect((await server.get('/v1/pets')).json.length).toBe(2);
  });
});
