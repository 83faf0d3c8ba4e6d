/** Tests the check for changes that break existing clients. */
import { writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { launch } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';

const names = ['openapi.yaml', 'openapi.quickstart.yaml'];
const node = (...args: string[]) => launch(process.execPath, args, {}).end();

describe('the comparison with the last release in npm run check', () => {
  const released = 'docs/releases';
  const compare = (revised: string) =>
    node(`${projectFolder}scripts/compatible.ts`, `${projectFolder}${released}`, revised);

  test.each([
    ['a removed operation', /^ {4}post:$/m, '    put:'],
    ['a lower maximum', 'maximum: 100', 'maximum: 50'],
    ['a removed enum value', /, sold \]/, ' ]'],
    ['a lower limit on the length of a text', 'maxLength: 1000', 'maxLength: 999'],
    ['a removed member', /^ {8}status:\n(?: {10}.*\n)+/m, ''],
    ['a changed type', 'type: integer\n          format: int64', 'type: string'],
  ])('rejects %s', async (_what, before, after) => {
    const folder = temporaryFolder();
    for (const name of names) writeFileSync(`${folder}/${name}`, read(`${released}/${name}`));
    const broken = read(`${released}/openapi.yaml`).replace(before, after);
    expect(broken).not.toBe(read(`${released}/openapi.yaml`));
    writeFileSync(`${folder}/openapi.yaml`, broken);
    const { code, stderr } = await compare(folder);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^openapi\.yaml: /);
  });
});
