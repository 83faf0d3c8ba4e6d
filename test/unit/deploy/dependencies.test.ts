/** Tests what npm installs: packages of known content, none of which runs a script. */
import { expect, test } from 'vitest';
import { read } from '../../support/project.ts';

interface Locked {
  integrity?: string;
  hasInstallScript?: boolean;
  dev?: boolean;
}
const locked = Object.entries<Locked>(JSON.parse(read('package-lock.json')).packages).filter(([path]) => path !== '');

test('npm ci checks the integrity of every package', () => {
  expect(locked.length).toBeGreaterThan(100);
  expect(locked.filter(([, { integrity }]) => !integrity?.startsWith('sha512-')).map(([path]) => path)).toEqual([]);
});

test('no package of production has an install script, and npm would run none', () => {
  const production = locked.filter(([, { dev }]) => !dev);
  expect(production.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => path)).toEqual([]);
  expect(read('.npmrc')).toContain('ignore-scripts=true');
});
