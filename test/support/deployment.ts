/** Reads the deployment files, and the settings and times in the source that they must agree with. */
import { expect } from 'vitest';
import { readConfig, settings } from '../../src/config.ts';
import { read } from './project.ts';

export const deployments = ['staging', 'production'] as const;

export const dockerfile = read('Dockerfile').replaceAll('\\\n', ' ');

const [environment = ''] = dockerfile.match(/^ENV .*$/gm)?.slice(-1) ?? [];
/** Name → value, as the image sets them. */
export const imageSettings = Object.fromEntries(
  [...environment.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
) as Record<string, string>;

const [, deadline = ''] = /const stopDeadlineMs = ([\d_]+);/.exec(read('src/server/serve.ts')) ?? [];
/** Longest time from SIGTERM to the end of the last accepted request. */
export const stopMs = Number(imageSettings.LAME_DUCK_MS) + Number(deadline.replace('_', ''));
expect(stopMs).toBeGreaterThan(10_000);

/** Checks that `env` has only known settings, and that the server accepts them together with the image's settings. */
export function expectSettings(env: Record<string, string>) {
  expect(Object.keys(settings.properties)).toEqual(expect.arrayContaining(Object.keys(env)));
  expect(readConfig({ ...imageSettings, ...env })).toMatchObject({ DATABASE_URL: 'sqlite:/data/animal-store.db' });
}
