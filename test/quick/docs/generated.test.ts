/** Tests that every derived file is up to date, and that the limits have the defaults of their settings. */
import { expect, test } from 'vitest';
import { generateFiles } from '../../../scripts/generate.ts';
import { settings } from '../../../src/config.ts';
import { limitTable } from '../../../src/core/limits.ts';
import { read } from '../../support/project.ts';

const files = await generateFiles();

test.each(Object.keys(files))('%s is up to date (npm run generate)', (name) => {
  expect(read(name)).toBe(files[name]);
});

test('each limit that a setting changes has the default of the setting', () => {
  const changed = Object.values(limitTable).filter((limit) => 'setting' in limit);
  expect(changed.length).toBeGreaterThan(0);
  for (const { setting, value } of changed)
    expect(settings.properties[setting as keyof typeof settings.properties].default, setting).toBe(value);
});
