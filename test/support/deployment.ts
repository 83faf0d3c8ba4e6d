/** Reads the deployment files, and the settings and times in the source that they must agree with. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { readConfig, settings } from '../../src/config.ts';
import { projectFolder } from './project.ts';

export const deployments = ['staging', 'production'] as const;

export const read = (file: string) => readFileSync(path.join(projectFolder, file), 'utf8');
export const dockerfile = read('Dockerfile').replaceAll('\\\n', ' ');

/** Name → value from the Dockerfile's last instruction of this kind, for example ENV. */
export function pairs(instruction: string): Record<string, string> {
  const [last = ''] = dockerfile.match(new RegExp(`^${instruction} .*$`, 'gm'))?.slice(-1) ?? [];
  return Object.fromEntries(
    [...last.matchAll(/([\w.]+)=("[^"]*"|\S+)/g)].map(([, name, value]) => [name, value?.replaceAll('"', '')]),
  );
}

export const imageSettings = pairs('ENV');

/** The value of a constant in a source file, in milliseconds or bytes. */
function constant(file: string, name: string): number {
  const [, product = ''] = new RegExp(`const ${name} = ([\\d_ *]+);`).exec(read(file)) ?? [];
  expect(product, `${name} in ${file}`).not.toBe('');
  return product
    .replaceAll('_', '')
    .split('*')
    .reduce((value, factor) => value * Number(factor), 1);
}

/** Longest time from SIGTERM to the end of the last accepted request. */
export const stopMs = Number(imageSettings.LAME_DUCK_MS) + constant('src/server/serve.ts', 'stopDeadlineMs');

/** Checks that `env` has only known settings, and that the server accepts them together with the image's settings. */
export function expectSettings(env: Record<string, string>): void {
  expect(Object.keys(settings.properties)).toEqual(expect.arrayContaining(Object.keys(env)));
  expect(readConfig({ ...imageSettings, ...env })).toMatchObject({ DATABASE_URL: 'sqlite:/data/animal-store.db' });
}
