/** Tests the samples of the reference page in a real browser: each one runs, whatever the panel beside it has. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Locator } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { clipboard, describeInBrowser, openReference } from './page.ts';

const exec = (program: string, args: string[]) => execFileSync(program, args, { encoding: 'utf8', stdio: 'pipe' });

const node = (type: string) => (code: string) => exec(process.execPath, [`--input-type=${type}`, '-e', code]);

/** Runs a program of a file with this name. */
const runFile = (name: string, run: (file: string) => string) => (code: string) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sample-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, name);
  writeFileSync(file, code);
  return run(file);
};

/** Debian has no .NET: the compiler is that of Mono, whose Main cannot be async. */
function runCSharp(file: string): string {
  const main = 'static void Main() { Run().GetAwaiter().GetResult(); } static async Task Run()';
  writeFileSync(file, readFileSync(file, 'utf8').replace('static async Task Main()', main));
  exec('mcs', ['-r:System.Net.Http.dll', file]);
  return exec('mono', [file.replace(/cs$/, 'exe')]);
}

const languages: [language: string, program: string, run: (code: string) => string][] = [
  ['curl', 'curl', (code) => exec('sh', ['-c', code])],
  ['JavaScript', process.execPath, node('module')],
  ['TypeScript', process.execPath, node('module-typescript')],
  ['Go', 'go', runFile('main.go', (file) => exec('go', ['run', file]))],
  ['Java', 'javac', runFile('Main.java', (file) => exec('java', [file]))],
  ['C#', 'mcs', runFile('main.cs', runCSharp)],
  ['PHP', 'php', runFile('main.php', (file) => exec('php', [file]))],
  ['Ruby', 'ruby', runFile('main.rb', (file) => exec('ruby', [file]))],
  ['Python', 'python3', (code) => exec('python3', ['-c', code])],
];

/** The sample of an operation as the page shows it. */
async function shown(operation: Locator, language: string): Promise<string> {
  await operation.locator(`[data-language="${language}"] > summary`).click();
  return operation.locator(`[data-language="${language}"] code`).innerText();
}

describeInBrowser('the samples', () => {
  test.for(languages)(
    'for %s run as they are, and send what the panel has',
    async ([language, program, run], { skip }) => {
      if (spawnSync(program, ['--version']).error) return skip(`${program} is not installed`);
      const { server, key, open } = await openReference();
      const runSample = async (operation: Locator) => run((await shown(operation, language)).replace('<API_KEY>', key));
      for (const place of ['createPet', 'listPets', 'getPet'])
        expect(await runSample(await open(`pets/${place}`))).toMatch(/id"?: ?1,\s*"?name"?: ?["']Biscuit/);

      const name = `'"\\ \`\${HOME} $(id) %s\n\t\u2028 Žižek 🐈 '''`;
      const body = JSON.stringify({ name, categoryId: 0, status: 'sold' }, null, 2).replace('0,', '9007199254740993,');
      const creating = await open('pets/createPet');
      await creating.getByLabel('Request body').fill(body);
      await creating.getByLabel('Idempotency-Key', { exact: true }).fill(`'"\\$(id)`);
      // The second time the answer comes again, and nothing is added.
      for (let time = 0; time < 2; time++) expect(await runSample(creating)).toContain('9007199254740993');
      const listed = await server.get('/v1/pets');
      expect(listed.json.slice(1)).toEqual([{ id: 2, name, categoryId: 9007199254740992, status: 'sold' }]);

      const listing = await open('pets/listPets');
      await listing.getByLabel('status', { exact: true }).selectOption('pending');
      await listing.getByLabel('limit', { exact: true }).fill('5');
      await listing.getByLabel('If-None-Match', { exact: true }).fill(`"a'b", W/"\\"`);
      expect(await shown(listing, language)).toContain('/v1/pets?limit=5&status=pending');
      expect(await runSample(listing)).toContain('[]');
      await listing.getByLabel('If-None-Match', { exact: true }).fill('');
      expect(await shown(listing, language)).not.toContain('If-None-Match');

      const getting = await open('pets/getPet');
      await getting.locator('[name="petId"]').fill(`1'"\\/é?&`);
      // Each ends as its language ends on an error, and says which it was.
      const said = await runSample(getting).catch(({ stderr, stdout }) => ({ said: stdout + stderr }));
      expect(said).toEqual({ said: expect.stringContaining('invalid_parameter') });
    },
  );

  test('are copied with the key that was entered only where the reader asks for it', async () => {
    const { page, key, open, authenticate } = await openReference(clipboard);
    const operation = await open('pets/createPet');
    const samples = operation.locator('.samples');
    const sample = samples.locator('[data-language="curl"]');
    const copyWithKey = samples.getByRole('button', { name: 'Copy with my key' });
    expect(await copyWithKey.isVisible()).toBe(false);
    await authenticate(`Bearer ${key}`);
    await samples.getByRole('button', { name: 'Copy: ' }).click();
    await samples.getByText('Copied').waitFor();
    const copied = () => page.evaluate('navigator.clipboard.readText()') as Promise<string>;
    expect(await copied()).toContain('<API_KEY>');
    expect(await copied()).toBe(await sample.locator('code').innerText());
    await copyWithKey.click();
    await expect.poll(copied).toContain(`'Authorization: Bearer ${key}'`);
    expect(await sample.locator('code').innerText()).toContain('<API_KEY>');
    expect(exec('sh', ['-c', await copied()])).toContain('"id":1');
  });

  test('keep a UUID whole where a line has room for it, and an example its indentation', async () => {
    const { open } = await openReference();
    const operation = await open('pets/createPet');
    for (const language of ['curl', 'Python']) {
      await shown(operation, language);
      const whole = operation
        .locator(`[data-language="${language}"] [data-header]`)
        .locator('.whole, [data-slot]')
        .last();
      const { height } = (await whole.boundingBox()) ?? { height: Number.NaN };
      expect(height, language).toBeLessThan(25);
    }
    await operation.getByLabel('Example', { exact: true }).selectOption('All fields, and safe to retry');
    expect(await operation.getByLabel('Request body').inputValue()).toMatch(/^\{\n {2}"name": .*\n {2}"categoryId"/);
  });

  test('of responses are one card: a tab for each status, a choice among several, and arrow keys', async () => {
    const { page, open, faults } = await openReference();
    const operation = await open('pets/createPet');
    const card = operation.locator('.answers');
    const shown = () => card.locator('pre').filter({ visible: true }).allInnerTexts();
    expect(await shown()).toEqual([expect.stringContaining('"categoryId": 7')]);
    await card.getByRole('combobox').filter({ visible: true }).selectOption('A categoryId beyond 2^53');
    expect(await shown()).toEqual([expect.stringContaining('"categoryId": 9007199254740994')]);
    await card.locator('summary', { hasText: '403' }).click();
    expect(await shown()).toEqual([expect.stringContaining('insufficient_scope')]);
    await page.keyboard.press('ArrowLeft');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('400');
    expect(await shown()).toEqual([expect.stringContaining('"status": 400')]);
    const samples = operation.locator('.samples');
    await samples.locator('summary').first().focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    expect(await samples.locator('[open] > summary').allInnerTexts()).toEqual(['TypeScript']);
    expect(faults()).toEqual([]);
  });
});
