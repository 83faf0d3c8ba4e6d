/** Tests the panel of the reference page that sends requests, in a real browser. */
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { describeInBrowser, openReference, picture } from './page.ts';

describeInBrowser('the request panel', () => {
  test('adds and lists with the API key from the page, and shows every digit', async () => {
    const { page, server, key, open, authenticate, send, faults } = await openReference();
    await server.call(key, 'POST', '/v1/pets', { name: 'Crumb', categoryId: 7 });
    await open('');
    await authenticate(key);
    await page.getByRole('complementary').getByRole('link', { name: 'Add an animal' }).click();
    const change = async (panel: Locator) => {
      await panel.locator('.cm-content').first().fill('{"name": "Big", "categoryId": 9007199254740993}');
    };
    const added = await send(page.locator('section[id$="pets/createPet"]'), change);
    await expect.poll(() => added.innerText()).toMatch(/201 Created[\s\S]*9007199254740993/);
    await page.keyboard.press('Escape');
    await page.getByRole('complementary').getByRole('link', { name: 'List all animals' }).click();
    const listed = await send(page.locator('section[id$="pets/listPets"]'));
    await expect.poll(() => listed.innerText()).toMatch(/200 OK[\s\S]*Crumb[\s\S]*9007199254740993/);
    await picture(page, 'panel');
    expect(faults()).toEqual([]);
  });

  test('adds twice: it sends no Idempotency-Key by default, which all users of the page would share', async () => {
    const { server, key, open, authenticate, send } = await openReference();
    const operation = await open('pets/createPet');
    await authenticate(key);
    const panel = await send(operation);
    await expect.poll(async () => (await server.call(key, 'GET', '/v1/pets')).json.length).toBe(1);
    await panel.getByRole('button', { name: 'Send' }).first().click();
    await expect.poll(async () => (await server.call(key, 'GET', '/v1/pets')).json.length).toBe(2);
  });

  test('keeps the API key only in memory: a reload removes it', async () => {
    const { page, key, open, authenticate, send } = await openReference();
    const operation = await open('pets/listPets');
    await authenticate(key);
    await send(operation);
    const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])');
    expect(kept).not.toContain(key);
    expect(await page.evaluate('indexedDB.databases()')).toEqual([]);
    await page.reload();
    expect(await page.getByPlaceholder('Token').first().inputValue()).toBe('');
  });

  test('shows the status and the code of a 401', async () => {
    const { open, authenticate, send, faults } = await openReference();
    const operation = await open('pets/listPets');
    await authenticate('ast_test_no');
    const panel = await send(operation);
    await expect.poll(() => panel.innerText()).toMatch(/401 Unauthorized[\s\S]*invalid_api_key/);
    expect(faults()).toEqual([expect.stringContaining('status of 401')]);
  });

  test('is not available for GET /store/orders, nor reachable from the panel of another operation', async () => {
    const { page, open } = await openReference();
    const orders = await open('store/listOrders');
    await orders.getByText('A placeholder; always returns 501').waitFor();
    expect(await orders.getByRole('button', { name: 'Test Request' }).count()).toBe(0);
    const list = await open('pets/listPets');
    expect(await list.getByRole('button', { name: 'Test Request' }).count()).toBe(1);
    await list.getByRole('button', { name: 'Test Request' }).click();
    const panel = page.getByRole('dialog');
    await panel.getByRole('button', { name: 'Send' }).first().waitFor();
    expect(await panel.getByRole('button', { name: 'Show sidebar' }).count()).toBe(0);
    expect(await panel.getByText('List orders').count()).toBe(0);
  });

  test('sends a message to the quickstart, which has its own base URL', async () => {
    const { page, server, key, open, authenticate, send, faults } = await openReference();
    await (await open('')).getByRole('link', { name: 'Messages quickstart' }).click();
    await page.getByText('The quickstart is not part of the animal store').waitFor();
    await authenticate(key);
    await page.getByRole('complementary').getByRole('link', { name: 'Send a message' }).click();
    const panel = await send(page.locator('section[id="messages-quickstart/tag/messages/sendMessage"]'));
    await expect.poll(() => panel.innerText()).toMatch(/202 Accepted[\s\S]*queued/);
    expect(await panel.innerText()).toContain(`${server.url}/quickstart`);
    expect(faults()).toEqual([]);
  });
});
