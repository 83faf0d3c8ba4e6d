/** Tests the check for changes that break existing clients. */
import { cpSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { launch } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';

test.each([
  ['a removed operation', /^ {4}post:$/m, '    put:'],
  ['a lower maximum', 'maximum: 100', 'maximum: 50'],
  ['a removed enum value', /, sold \]/, ' ]'],
  ['a lower limit on the length of a text', 'maxLength: 1000', 'maxLength: 999'],
  ['a removed member', /^ {8}status:\n(?: {10}.*\n)+/m, ''],
  ['a changed type', 'type: integer\n          format: int64', 'type: string'],
])('the comparison with the last release in npm run check rejects %s', async (_what, before, after) => {
  const [released, folder] = [`${projectFolder}docs/releases`, temporaryFolder()];
  cpSync(released, folder, { recursive: true });
  const document = read('docs/releases/openapi.yaml');
  const broken = document.replace(before, after);
  expect(broken).not.toBe(document);
  writeFileSync(`${folder}/openapi.yaml`, broken);
  const exit = launch(process.execPath, [`${projectFolder}scripts/compatible.ts`, released, folder], {}).end();
  expect(await exit).toMatchObject({ code: 1, stderr: expect.stringMatching(/^openapi\.yaml: /) });
});
