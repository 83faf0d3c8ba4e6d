/** Tests the samples of the reference page in a real browser: each one runs, whatever the panel beside it has. */
import { execFileSync, spawnSync } from 'node:child_process';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { describeInBrowser, openReference } from './page.ts';

const exec = (program: string, args: string[]) => execFileSync(program, args, { encoding: 'utf8', stdio: 'pipe' });

const languages: [string, string, (code: string) => string][] = [
  ['curl', 'curl', (code) => exec('sh', ['-c', code])],
  ['JavaScript', process.execPath, (code) => exec(process.execPath, ['--input-type=module', '-e', code])],
  ['Python', 'python3', (code) => exec('python3', ['-c', code])],
];

/** The sample of an operation as the page shows it. */
async function shown(operation: Locator, language: string): Promise<string> {
  await operation.locator('summary', { hasText: language }).first().click();
  return operation.locator(`[data-language="${language}"] code`).innerText();
}

describeInBrowser('the samples', () => {
  test.each(languages)('for %s run as they are, with the key in its place', async (language, program, run) => {
    if (spawnSync(program, ['--version']).error) return;
    const { key, open } = await openReference();
    const runAt = async (place: string) => run((await shown(await open(place), language)).replace('<API_KEY>', key));
    expect(await runAt('pets/createPet')).toMatch(/id"?: ?1,\s*"?name"?: ?["']Biscuit/);
    expect(await runAt('pets/listPets')).toMatch(/id"?: ?1,\s*"?name"?: ?["']Biscuit/);
    expect(await runAt('pets/getPet')).toMatch(/id"?: ?1,\s*"?name"?: ?["']Biscuit/);
  });

  test.each(languages)(
    'for %s send what the panel has: quotes, backslashes, new lines, any digit',
    async (...given) => {
      const [language, program, run] = given;
      if (spawnSync(program, ['--version']).error) return;
      const { server, key, open } = await openReference();
      const name = `'"\\ \`\${HOME} $(id) %s\n\t\u2028 Žižek 🐈 '''`;
      const body = JSON.stringify({ name, categoryId: 0, status: 'sold' }, null, 2).replace('0,', '9007199254740993,');
      const creating = await open('pets/createPet');
      await creating.getByText('Try it').click();
      await creating.getByLabel('Request body').fill(body);
      await creating.getByLabel('Idempotency-Key', { exact: true }).fill(`'"\\$(id)`);
      const code = (await shown(creating, language)).replace('<API_KEY>', key);
      expect(run(code)).toContain('9007199254740993');
      const listed = await server.call(key, 'GET', '/v1/pets');
      expect(listed.json).toEqual([{ id: 1, name, categoryId: 9007199254740992, status: 'sold' }]);
      // The same key and body: the answer comes again, and nothing is added.
      run(code);
      expect((await server.call(key, 'GET', '/v1/pets')).json.length).toBe(1);

      const listing = await open('pets/listPets');
      await listing.getByText('Try it').click();
      await listing.getByLabel('status', { exact: true }).selectOption('available');
      await listing.getByLabel('limit', { exact: true }).fill('5');
      await listing.getByLabel('If-None-Match', { exact: true }).fill(`"a'b", W/"\\"`);
      const listCode = await shown(listing, language);
      expect(listCode).toContain('/v1/pets?limit=5&status=available');
      expect(run(listCode.replace('<API_KEY>', key))).toContain('[]');
      await listing.getByLabel('If-None-Match', { exact: true }).fill('');
      expect(await shown(listing, language)).not.toContain('If-None-Match');

      const getting = await open('pets/getPet');
      await getting.getByText('Try it').click();
      await getting.locator('[name="petId"]').fill(`1'"\\/é?&`);
      expect(await shown(getting, language)).toContain(`${server.url}/v1/pets/1`);
      const wrong = (await shown(getting, language)).replace('<API_KEY>', key);
      let said = '';
      try {
        said = run(wrong);
      } catch (error) {
        said = (error as { stderr: string }).stderr;
      }
      expect(said).toContain('invalid_parameter');
    },
  );

  test('change with the example that is chosen, and keep a body that is not JSON as it is', async () => {
    const { open } = await openReference();
    const operation = await open('pets/createPet');
    await operation.getByText('Try it').click();
    const choice = operation.locator('select.example');
    const count = await choice.locator('option').count();
    for (let index = 0; index < count; index++) {
      await choice.selectOption({ index });
      const sent = await operation.getByLabel('Request body').inputValue();
      expect(await shown(operation, 'curl')).toContain(sent.replace(/\s+(?=["{}])|(?<=:)\s/g, '').slice(1, 15));
    }
    await operation.getByLabel('Request body').fill('{ "name": ');
    expect(await shown(operation, 'curl')).toContain(`--data-raw '{ "name": '`);
  });

  test('have one language, which the browser remembers and shows without moving anything', async () => {
    const { page, open, faults } = await openReference();
    const operation = await open('pets/createPet');
    await operation.locator('summary', { hasText: 'Python' }).click();
    const visible = () => page.locator('.samples code').filter({ visible: true }).allInnerTexts();
    const all = await page.locator('.samples').count();
    expect(await visible()).toHaveLength(all);
    for (const code of await visible()) expect(code).toContain('urlopen');
    await operation.locator('summary', { hasText: 'Python' }).click();
    expect(await visible()).toHaveLength(all);
    // Before the script has run.
    await page.route('**/docs/page.js', (route) => route.abort());
    await open('');
    for (const code of await visible()) expect(code).toContain('urlopen');
    expect(await page.evaluate('({ ...localStorage })')).toEqual({ language: 'Python' });
    expect(faults().filter((fault) => !fault.includes('ERR_FAILED'))).toEqual([]);
  });

  test('are copied with the key that was entered only where the reader asks for it', async () => {
    const { context, page, server, key, open, authenticate } = await openReference();
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.url });
    const operation = await open('pets/createPet');
    const sample = operation.locator('[data-language="curl"]');
    const copyWithKey = sample.getByRole('button', { name: 'Copy with my key' });
    expect(await copyWithKey.isVisible()).toBe(false);
    await authenticate(`Bearer ${key}`);
    await sample.getByRole('button', { name: 'Copy: ' }).click();
    await sample.getByText('Copied').waitFor();
    const copied = () => page.evaluate('navigator.clipboard.readText()') as Promise<string>;
    expect(await copied()).toContain('<API_KEY>');
    expect(await copied()).toBe(await sample.locator('code').innerText());
    await copyWithKey.click();
    await expect.poll(copied).toContain(`'Authorization: Bearer ${key}'`);
    expect(await sample.locator('code').innerText()).toContain('<API_KEY>');
    expect(exec('sh', ['-c', await copied()])).toContain('"id":1');
  });
});
