/** Builds the image from the Dockerfile once for the whole suite, and removes it at the end. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { projectFolder, read } from '../../support/project.ts';
import { makeBase } from './base-image.ts';
import { attempt, type Engine, execute, findEngine, imageName } from './engine.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The engine, or the reason why there is none. */
    engine: Engine | string;
  }
}

/** npm settings of this machine that the build needs: the registry and the certificate authorities to trust. */
function npmSettings() {
  const registry = execute('npm', ['config', 'get', 'registry']);
  const authorities = process.env.NODE_EXTRA_CA_CERTS ? readFileSync(process.env.NODE_EXTRA_CA_CERTS, 'utf8') : '';
  const certificates = authorities.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  return [`registry=${registry}`, ...certificates.map((each) => `ca[]=${JSON.stringify(each)}`)].join('\n');
}

function build(engine: Engine) {
  const { command, env, folder } = engine;
  const dockerfile = read('Dockerfile');
  const [, base = '', digest = ''] = /^FROM ([^\s@]+)(@sha256:[0-9a-f]{64}) AS node$/m.exec(dockerfile) ?? [];
  const source = makeBase(engine, base);
  const secret = path.join(folder, 'npmrc');
  writeFileSync(secret, npmSettings(), { mode: 0o600 });
  // No image that is made here has the digest of the official one.
  const file = path.join(folder, 'Dockerfile');
  writeFileSync(file, source === 'made' ? dockerfile.replace(digest, '') : dockerfile);
  const revision = execute('git', ['-C', projectFolder, 'rev-parse', 'HEAD']);
  const what = ['--secret', `id=npmrc,src=${secret}`, '--build-arg', `REVISION=${revision}`];
  execute(command, ['build', '--network', 'host', ...what, '-t', imageName, '-f', file, projectFolder], env);
}

function tidyUp({ command, env, folder }: Engine) {
  if (command === 'docker') attempt('docker', ['image', 'rm', '-f', imageName]);
  else {
    const commands = ['rm --all --force --time 0', 'volume prune --force', 'rmi --all --force'];
    for (const each of commands) attempt('podman', each.split(' '), env);
    attempt('umount', [path.join(folder, 'root/overlay')]);
  }
  rmSync(folder, { recursive: true, force: true });
}

export async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-image-'));
  const engine = findEngine(folder);
  project.provide('engine', engine);
  if (typeof engine === 'string') return () => rmSync(folder, { recursive: true });
  try {
    build(engine);
  } catch (error) {
    tidyUp(engine);
    throw error;
  }
  return () => tidyUp(engine);
}
