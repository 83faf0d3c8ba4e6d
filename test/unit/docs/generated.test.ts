/** Tests that every derived file is up to date, and that docs/limits.md has the values of the server. */
import { expect, test } from 'vitest';
import { generateFiles } from '../../../scripts/generate.ts';
import { settings } from '../../../src/config.ts';
import { limits } from '../../../src/core/limits.ts';
import { read } from '../../support/project.ts';

const files = await generateFiles();

test.each(Object.keys(files))('%s is up to date (npm run generate)', (name) => {
  expect(read(name)).toBe(files[name]);
});

test('the values of docs/limits.md are those of the server', () => {
  const units: Record<string, number> = { s: 1000, h: 3_600_000, KiB: 1024, MiB: 1024 ** 2 };
  const rows = read('docs/limits.md').matchAll(/^\|[^|]+\| ([\d,]+) ?(\w*) \|/gm);
  const values = [...rows].map(([, digits = '', unit = '']) => Number(digits.replaceAll(',', '')) * (units[unit] ?? 1));
  expect(values).toEqual(Object.values(limits));
  expect(settings.properties.MAX_CONNECTIONS.default).toBe(limits.connections);
});
