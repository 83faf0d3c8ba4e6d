/** The files that deploy the server, and what they are held to: the settings and the times that its source knows. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { readConfig, settings } from '../../src/config.ts';
import { projectFolder } from './project.ts';

export const deployments = ['staging', 'production'] as const;

export const read = (file: string) => readFileSync(path.join(projectFolder, file), 'utf8');
export const dockerfile = read('Dockerfile').replaceAll('\\\n', ' ');

/** Name → value of an instruction's pairs, such as ENV's. */
export function pairs(instruction: string): Record<string, string> {
  const [last = ''] = dockerfile.match(new RegExp(`^${instruction} .*$`, 'gm'))?.slice(-1) ?? [];
  return Object.fromEntries(
    [...last.matchAll(/([\w.]+)=("[^"]*"|\S+)/g)].map(([, name, value]) => [name, value?.replaceAll('"', '')]),
  );
}

export const imageSettings = pairs('ENV');

/** A number of milliseconds or bytes in a source file, by its name there. */
export function constant(file: string, name: string): number {
  const [, product = ''] = new RegExp(`const ${name} = ([\\d_ *]+);`).exec(read(file)) ?? [];
  expect(product, `${name} in ${file}`).not.toBe('');
  return product
    .replaceAll('_', '')
    .split('*')
    .reduce((value, factor) => value * Number(factor), 1);
}

/** From the first word to stop to the end of whatever was accepted. */
export const stopMs = Number(imageSettings.LAME_DUCK_MS) + constant('src/server/cluster.ts', 'stopDeadlineMs');

/** Checks that these are settings, and that with the image's own they are ones that the server accepts. */
export function expectSettings(env: Record<string, string>): void {
  expect(Object.keys(settings.properties)).toEqual(expect.arrayContaining(Object.keys(env)));
  expect(readConfig({ ...imageSettings, ...env })).toMatchObject({ DATABASE_URL: 'sqlite:/data/animal-store.db' });
}
