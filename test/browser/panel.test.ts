/** Tests the panels of the reference page that send requests, in a real browser. */
import { expect, test } from 'vitest';
import { describeInBrowser, openReference, picture } from './page.ts';

describeInBrowser('the request panel', () => {
  test('makes the first call with the API key from the page', async () => {
    const { page, server, key, open, authenticate, faults } = await openReference();
    await server.call(key, 'POST', '/v1/pets', { name: 'Crumb', categoryId: 7 });
    const steps = (await open('')).locator('.steps');
    await authenticate(key);
    await steps.getByRole('button', { name: 'List all animals' }).click();
    await expect.poll(() => steps.getByRole('status').innerText()).toBe('200 OK');
    expect(await steps.getByLabel('Response body').innerText()).toContain('"name": "Crumb"');
    await picture(page, 'first-call');
    expect(faults()).toEqual([]);
  });

  test('adds and lists, and shows every digit', async () => {
    const { page, key, open, authenticate, send, faults } = await openReference();
    await open('');
    await authenticate(key);
    const contents = page.getByRole('navigation', { name: 'Contents' });
    await contents.getByRole('link', { name: 'Add an animal' }).click();
    const added = await send(page.locator('section[id$="pets/createPet"]'), (panel) =>
      panel.getByLabel('Request body').fill('{"name": "Big", "categoryId": 9007199254740993}'),
    );
    expect(await added.getByRole('status').innerText()).toBe('201 Created');
    expect(await added.getByLabel('Response body').innerText()).toContain('"categoryId": 9007199254740993');
    await contents.getByRole('link', { name: 'List all animals' }).click();
    const listed = await send(page.locator('section[id$="pets/listPets"]'));
    expect(await listed.innerText()).toMatch(/200 OK[\s\S]*Big[\s\S]*9007199254740993/);
    await picture(page, 'panel');
    expect(faults()).toEqual([]);
  });

  test('sends the example that is chosen, with every digit', async () => {
    const { server, key, open, authenticate, send } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate(key);
    const examples = operation.locator('select.example');
    await operation.getByText('Try it').click();
    const values = (await examples.locator('option').allTextContents()).entries();
    for (const [index] of values) await send(operation, async () => void (await examples.selectOption({ index })));
    const { json } = await server.call(key, 'GET', '/v1/pets');
    expect(json.length).toBe(await examples.locator('option').count());
    expect(await operation.getByLabel('Request body').inputValue()).toBe(await examples.inputValue());
  });

  test('sends parameters that are filled in, and no others', async () => {
    const { page, server, key, open, authenticate, send } = await openReference();
    for (const status of ['sold', 'available'])
      await server.call(key, 'POST', '/v1/pets', { name: status, categoryId: 7, status });
    const sent: string[] = [];
    page.on('request', (request) => void sent.push(request.url()));
    const operation = await open('pets/listPets');
    await authenticate(key);
    await send(operation);
    const panel = await send(operation, async (form) => {
      await form.getByLabel('status').selectOption('sold');
      await form.getByLabel('limit').fill('5');
    });
    expect(sent.filter((url) => url.includes('/v1/'))).toEqual(
      ['', '?limit=5&status=sold'].map((query) => `${server.url}/v1/pets${query}`),
    );
    expect(await panel.getByLabel('Response body').innerText()).not.toContain('available');
    const one = await send(await open('pets/getPet'), async (form) => {
      await authenticate(key);
      await form.getByLabel('petId').fill('../pets?limit=1');
    });
    expect(await one.innerText()).toMatch(/400 Bad Request[\s\S]*invalid_parameter/);
  });

  test('adds twice: each new request has a fresh Idempotency-Key', async () => {
    const { server, key, open, authenticate, send } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate(key);
    for (const count of [1, 2]) {
      await send(operation);
      await expect.poll(async () => (await server.call(key, 'GET', '/v1/pets')).json.length).toBe(count);
    }
  });

  test('a double click adds once', async () => {
    const { page, server, key, open, authenticate } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate(key);
    const held = Promise.withResolvers<void>();
    let requests = 0;
    await page.route('**/v1/pets', async (route) => {
      requests += 1;
      await held.promise;
      await route.continue();
    });
    await operation.getByText('Try it').click();
    const button = operation.getByRole('button', { name: 'Send' });
    await button.dblclick();
    expect(await button.isDisabled()).toBe(true);
    held.resolve();
    await operation.getByRole('status').filter({ hasText: '201 Created' }).waitFor();
    expect([requests, (await server.call(key, 'GET', '/v1/pets')).json.length]).toEqual([1, 1]);
    await expect.poll(() => button.isDisabled()).toBe(false);
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Send');
  });

  test('keeps the API key only in memory: a reload removes it, and no URL has it', async () => {
    const { page, key, open, authenticate, send } = await openReference();
    const urls: string[] = [];
    page.on('request', (request) => void urls.push(request.url()));
    const operation = await open('pets/listPets');
    await authenticate(key);
    await page.keyboard.press('Enter');
    await send(operation);
    const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])');
    expect(kept).not.toContain(key);
    expect(await page.evaluate('indexedDB.databases()')).toEqual([]);
    expect([...urls, page.url()].join()).not.toContain(key);
    await page.reload();
    expect(await page.getByLabel('API key', { exact: true }).inputValue()).toBe('');
  });

  test('leads to the field of the API key while it is empty', async () => {
    const { page, key, open, authenticate } = await openReference();
    const operation = await open('pets/listPets');
    await operation.getByText('Try it').click();
    await operation.getByRole('link', { name: 'enter it above' }).click();
    await expect.poll(() => page.evaluate('document.querySelector(":target").id')).toBe('key');
    await authenticate(key);
    expect(await operation.getByRole('link', { name: 'enter it above' }).isVisible()).toBe(false);
  });

  test('shows the status and the code of a 401', async () => {
    const { open, authenticate, send, faults } = await openReference();
    const operation = await open('pets/listPets');
    await authenticate('ast_test_no');
    const panel = await send(operation);
    expect(await panel.innerText()).toMatch(/401 Unauthorized[\s\S]*invalid_api_key/);
    expect(faults()).toEqual([expect.stringContaining('status of 401')]);
  });

  test('says in its own words why nothing was sent or no response came', async () => {
    const { page, server, key, open, authenticate, send } = await openReference();
    const operation = await open('pets/listPets');
    const said = async () => (await send(operation)).getByRole('status').innerText();
    await authenticate('ключ');
    expect(await said()).toBe(
      'Not sent: the API key has a character other than ASCII letters, digits and punctuation.',
    );
    await authenticate(key);
    await operation.getByLabel('If-None-Match').fill('“x”');
    expect(await said()).toMatch(/^Not sent: If-None-Match has a character/);
    await operation.getByLabel('If-None-Match').fill('');
    await page.context().setOffline(true);
    expect(await said()).toBe('No response: this device is offline.');
    await page.context().setOffline(false);
    await page.route('**/v1/pets', (route) => route.abort());
    expect(await said()).toBe('No response: the server cannot be reached. The request may have arrived.');
    await page.unroute('**/v1/pets');
    await server.end('SIGKILL');
    expect(await said()).toBe('No response: the server cannot be reached. The request may have arrived.');
  });

  test('says so if its own script cannot be loaded', async () => {
    const { page, open, send } = await openReference();
    await page.route('**/docs/panel.js', (route) => route.abort());
    const panel = await send(await open('pets/listPets'));
    expect(await panel.getByRole('status').innerText()).toMatch(/^Not sent: the server cannot be reached/);
  });

  test.each(['Bearer KEY', 'bearer  KEY', ' Authorization: Bearer KEY '])('takes the key from %s', async (pasted) => {
    const { key, open, authenticate, send } = await openReference();
    const operation = await open('pets/listPets');
    await authenticate(pasted.replace('KEY', key));
    expect(await (await send(operation)).getByRole('status').innerText()).toBe('200 OK');
  });

  test('renews its Idempotency-Key when the outcome is known, on request, and never one that the reader entered', async () => {
    const { page, server, key, open, authenticate, send } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate(key);
    await operation.getByText('Try it').click();
    const field = operation.getByLabel('Idempotency-Key', { exact: true });
    const first = await field.inputValue();
    expect(first).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    await page.route('**/v1/pets', (route) => route.fulfill({ status: 503, body: '{}' }));
    await send(operation);
    expect(await field.inputValue()).toBe(first);
    await page.unroute('**/v1/pets');
    await send(operation);
    const second = await field.inputValue();
    expect(second).not.toBe(first);
    await operation.getByRole('button', { name: 'New Idempotency-Key' }).click();
    expect(await field.inputValue()).not.toBe(second);
    await field.fill('mine');
    for (const _ of [1, 2]) await send(operation);
    expect(await field.inputValue()).toBe('mine');
    await operation.getByText('Response headers').last().click();
    expect(await operation.locator('.answer').innerText()).toContain('idempotent-replayed: true');
    expect((await server.call(key, 'GET', '/v1/pets')).json.length).toBe(2);
  });

  test('is not available for GET /store/orders', async () => {
    const { open } = await openReference();
    const orders = await open('store/listOrders');
    expect(await orders.innerText()).toContain('501');
    expect(await orders.locator('form').count()).toBe(0);
    expect(await (await open('pets/listPets')).locator('form').count()).toBe(1);
  });

  test('sends a message to the quickstart, which has its own page and base URL', async () => {
    const { page, server, key, open, authenticate, send, faults } = await openReference();
    await open('');
    await page.getByRole('link', { name: 'Quickstart' }).click();
    await page.getByRole('heading', { name: 'Messages quickstart' }).waitFor();
    expect(await page.getByRole('main').innerText()).toContain('not part of the animal store');
    await authenticate(key);
    await page.locator('.steps').getByRole('link', { name: 'Send a message' }).click();
    const operation = page.locator('section[id="messages-quickstart/tag/messages/sendMessage"]');
    const panel = await send(operation);
    expect(await panel.innerText()).toMatch(/202 Accepted[\s\S]*queued/);
    expect(await operation.innerText()).toContain(`${server.url}/quickstart/messages`);
    expect(faults()).toEqual([]);
  });
});
