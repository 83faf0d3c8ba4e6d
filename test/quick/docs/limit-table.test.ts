/** Tests that the table of limits is what the settings and the documents say. */
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { settings } from '../../../src/config.ts';
import { limitTable } from '../../../src/core/limits.ts';
import { projectFolder } from '../../support/project.ts';
import { temporaryFolder } from '../../support/store.ts';

test('docs/limits.md is up to date: otherwise run npm run limits', () => {
  const copy = temporaryFolder();
  for (const part of ['scripts/limits.ts', 'src/core/limits.ts', 'docs/limits.md'])
    cpSync(path.join(projectFolder, part), path.join(copy, part));
  execFileSync(process.execPath, [path.join(copy, 'scripts/limits.ts')]);
  const page = (folder: string) => readFileSync(path.join(folder, 'docs/limits.md'), 'utf8');
  expect(page(projectFolder)).toBe(page(copy));
});

test('each limit that a setting changes has the default of the setting', () => {
  const changed = Object.values(limitTable).filter((limit) => 'setting' in limit);
  expect(changed.length).toBeGreaterThan(0);
  for (const { setting, value } of changed)
    expect(settings.properties[setting as keyof typeof settings.properties].default, setting).toBe(value);
});
