/** Tests compose.yaml with Compose, using the image of this build and free ports. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import { figure } from '../support/tier.ts';
import { readComposition } from './compose.ts';
import { type Container, containerNamed, createKey, engine } from './container.ts';
import { type Engine, imageName } from './engine.ts';
import { attempt, execute } from './execute.ts';

const tabby = { name: 'Tabby', categoryId: 1 };
const project = 'animal-store-test';
const deployments = ['production', 'staging'] as const;

/** The command of Compose; undefined if it is not installed. */
async function findCompose(): Promise<[file: string, ...args: string[]] | undefined> {
  if ((await attempt('docker-compose', ['version'])).code === 0) return ['docker-compose'];
  return (await attempt('docker', ['compose', 'version'])).code === 0 ? ['docker', 'compose'] : undefined;
}

const compose = await findCompose();

beforeEach(({ skip }) => {
  const found = inject('engine');
  if (typeof found === 'string') skip(found);
  if (!compose) skip('neither docker-compose nor docker compose is installed');
});

/** Environment in which Compose finds the engine. Podman serves Docker's API on a socket. */
async function serveEngine({ command, env, folder }: Engine): Promise<Record<string, string>> {
  if (command === 'docker') return {};
  const socket = `unix://${folder}/engine.sock`;
  const service = spawn('podman', ['system', 'service', '--time', '0', socket], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  onTestFinished(async () => {
    service.kill();
    await once(service, 'exit');
  });
  await expect.poll(() => existsSync(path.join(folder, 'engine.sock'))).toBe(true);
  return { DOCKER_HOST: socket };
}

function writeComposition({ folder }: Engine): string {
  const composition = readComposition();
  for (const name of deployments) {
    const { build: _, ...service } = composition.services[name];
    const ports = service.ports.map((port) => `127.0.0.1::${port.split(':')[2]}`);
    composition.services[name] = { ...service, image: imageName, ports };
  }
  const file = path.join(folder, 'compose.yaml');
  writeFileSync(file, JSON.stringify({ services: composition.services, volumes: composition.volumes }));
  return file;
}

test('compose.yaml: staging and production run side by side with separate keys and pets, which survive a restart', async () => {
  const found = inject('engine') as Engine;
  const env = await serveEngine(found);
  const file = writeComposition(found);
  const [tool, ...before] = compose as [string, ...string[]];
  const run = (...args: string[]) =>
    execute(tool, [...before, '-p', project, '-f', file, ...args], { env, cwd: found.folder, timeoutMs: 120_000 });
  onTestFinished(() => run('down', '--volumes').then(() => undefined));

  /** Starts both deployments and waits until they are ready. */
  const up = async (): Promise<Container[]> => {
    await run('up', '--detach', '--no-build');
    const ids = await Promise.all(deployments.map((name) => run('ps', '-q', name)));
    const containers = await Promise.all(ids.map(containerNamed));
    for (const { opsUrl } of containers)
      await expect.poll(() => fetch(`${opsUrl}/readyz`).then(({ status }) => status, String)).toBe(200);
    return containers;
  };

  const begun = performance.now();
  const first = await up();
  figure(`staging and production up and ready in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const keys = await Promise.all(first.map(createKey));
  expect(keys).toEqual([expect.stringMatching(/^ast_live_/), expect.stringMatching(/^ast_test_/)]);
  for (const [index, { name, call }] of first.entries()) {
    const { environment } = readComposition().services[deployments[index] as 'staging'];
    const key = keys[index] as string;
    await expect.poll(() => call(key, 'GET', '/v1/pets')).toEqual({ status: 200, json: [] });
    expect((await call(keys[1 - index] as string, 'GET', '/v1/pets')).json.code).toBe('invalid_api_key');
    expect((await call(key, 'POST', '/v1/pets', tabby)).location).toBe(`${environment.BASE_URL}/pets/1`);
    expect(JSON.parse(await engine('inspect', '--format', '{{json .HostConfig}}', name))).toMatchObject({
      ReadonlyRootfs: true,
      Memory: 256 * 1024 ** 2,
      PidsLimit: 100,
      RestartPolicy: { Name: 'unless-stopped' },
    });
  }

  await run('down');
  const again = await up();
  for (const [index, { call }] of again.entries())
    await expect.poll(async () => (await call(keys[index] as string, 'GET', '/v1/pets')).json).toHaveLength(1);
});
