/** Tests what docs/production.md tells an operator to copy: the shell, the settings, and the configurations of nginx and Prometheus. */
import { spawnSync } from 'node:child_process';
import { parseEnv } from 'node:util';
import { expect, test } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { imageSettings } from '../../support/deployment.ts';
import { blocksOf, projectFolder, read } from '../../support/project.ts';

const blocks = blocksOf(read('docs/production.md'), 'sh');

/** What a block writes to a file. */
const written = (file: string) =>
  blocks.join('').match(new RegExp(`^cat > ${RegExp.escape(file)} <<END\n([\\s\\S]*?)^END$`, 'm'))?.[1] ?? '';

test('has ten steps, which a shell can read', () => {
  expect(blocks).toHaveLength(10);
  for (const input of blocks)
    expect(spawnSync('bash', ['-n'], { input, encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
});

test('lets nothing but nginx listen on every address, from its installation on', () => {
  const [install = ''] = blocks;
  const bound = [...install.matchAll(/^echo '(.*)' > \/etc\/default\/(\S+)$/gm)].map(([, line, service]) => [
    service,
    line,
  ]);
  expect(Object.fromEntries(bound)).toEqual({
    prometheus: 'ARGS=--web.listen-address=127.0.0.1:9090',
    'prometheus-node-exporter': 'ARGS=--web.listen-address=127.0.0.1:9100',
    'prometheus-alertmanager': 'ARGS="--web.listen-address=127.0.0.1:9093 --cluster.listen-address="',
  });
  // apt starts what it installs. Without the option, dpkg asks which file to keep.
  expect(install.indexOf('apt-get install')).toBeGreaterThan(install.lastIndexOf('/etc/default/'));
  expect(install).toContain(' -o Dpkg::Options::=--force-confold ');
});

test('writes settings that the server takes, with the lame-duck time of the image', () => {
  const env = parseEnv(written('.env').replace('$DOMAIN', 'animals.example.com')) as Record<string, string>;
  expect(readConfig(env)).toMatchObject({ DEPLOYMENT: 'production', BASE_URL: 'https://animals.example.com/v1' });
  expect(env.LAME_DUCK_MS).toBe(String(imageSettings.LAME_DUCK_MS));
});

test('makes a site of nginx with the domain alone', () => {
  const sed = blocks.join('').match(/^sed [^>]*/m)?.[0] ?? '';
  const site = spawnSync('bash', ['-c', sed], {
    cwd: projectFolder,
    env: { ...process.env, DOMAIN: 'pets.test' },
    encoding: 'utf8',
  }).stdout;
  expect(site).toContain('server_name pets.test;');
  expect(site).not.toMatch(/example.com|_staging/);
});
