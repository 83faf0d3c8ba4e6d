/** Tests that the table of limits is what the settings say. */
import { expect, test } from 'vitest';
import { settings } from '../../../src/config.ts';
import { limitTable } from '../../../src/core/limits.ts';

test('each limit that a setting changes has the default of the setting', () => {
  const changed = Object.values(limitTable).filter((limit) => 'setting' in limit);
  expect(changed.length).toBeGreaterThan(0);
  for (const { setting, value } of changed)
    expect(settings.properties[setting as keyof typeof settings.properties].default, setting).toBe(value);
});
