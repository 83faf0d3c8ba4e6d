/** Tests the image built from the Dockerfile, and the deployments of compose.yaml on free ports. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { projectFolder } from '../support/project.ts';
import { figure } from '../support/tier.ts';
import { attempt, type Engine, execute, imageName, works } from './engine.ts';

const tabby = { name: 'Tabby', categoryId: 1 };
const project = 'animal-store-test';
const deployments = ['production', 'staging'] as const;
const read = (name: string) => readFileSync(projectFolder + name, 'utf8');
const { version, license } = JSON.parse(read('package.json'));
const lines = (text: string) => text.split('\n').filter(Boolean).sort();

beforeEach(({ skip }) => {
  const found = inject('engine');
  if (typeof found === 'string') skip(found);
});

/** Runs a command of the engine. */
function engine(...args: string[]) {
  const { command, env, folder } = inject('engine') as Engine;
  return attempt(command, args, { env, cwd: folder });
}

const inspect = async (what: string, name: string) =>
  JSON.parse((await engine('inspect', '--format', `{{json ${what}}}`, name)).stdout);

/** Runs a program in a new container, without the server. */
const runAlone = (...command: string[]) => engine('run', '--rm', '--network', 'none', imageName, ...command);

type Packages = Record<string, { version: string; dev?: boolean; optional?: boolean; devOptional?: boolean }>;

const versions = (packages: Packages) =>
  Object.entries(packages)
    .filter(([folder, { dev, optional, devOptional }]) => folder !== '' && !(dev || optional || devOptional))
    .map(([folder, entry]) => `${folder.replace(/^.*node_modules\//, '')}@${entry.version}`);

test('the image names its version and revision, in labels and as a program', async () => {
  const commit = await execute('git', ['rev-parse', 'HEAD'], { cwd: projectFolder });
  expect(await inspect('.Config.Labels', imageName)).toMatchObject({
    'org.opencontainers.image.title': 'animal-store',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': license,
    'org.opencontainers.image.revision': commit,
  });
  const stdout = `${version} (${commit.slice(0, 7)})\n`;
  expect(await runAlone('node', 'src/cli.ts', '--version')).toMatchObject({ code: 0, stdout });
  figure(`image of ${Math.round((await inspect('.Size', imageName)) / 1e6)} MB`);
});

test('the image has exactly the locked production packages, a list of them, and nothing that the server does not need', async () => {
  const locked = versions(JSON.parse(read('package-lock.json')).packages);
  expect(versions(JSON.parse((await runAlone('cat', 'node_modules/.package-lock.json')).stdout).packages)).toEqual(
    locked,
  );
  const { bomFormat, components } = JSON.parse((await runAlone('cat', 'sbom.cdx.json')).stdout);
  expect(bomFormat).toBe('CycloneDX');
  const listed = components.map(({ purl }: { purl: string }) => purl.replace('pkg:npm/', '').replace('%40', '@'));
  expect(listed.sort()).toEqual([...new Set(locked)].sort());
  const binaries = await runAlone('find', '/', '-xdev', '-name', '*.node', '-o', '-name', 'node', '-type', 'f');
  expect(lines(binaries.stdout)).toEqual([
    expect.stringMatching(/^\/app\/node_modules\/better-sqlite3\/prebuilds\/linux-(x64|arm64)\.node$/),
    '/usr/local/bin/node',
  ]);
  expect((await runAlone('sh', '-c', 'command -v npm npx corepack yarn')).stdout).toBe('');
  const files =
    'LICENSE migrations node_modules openapi.quickstart.yaml openapi.yaml package.json revision sbom.cdx.json src';
  expect(lines((await runAlone('ls', '-A', '/app')).stdout)).toEqual(files.split(' '));
  // The settings of npm were a secret of the build.
  expect((await engine('history', '--no-trunc', imageName)).stdout).not.toContain('registry=');
  expect((await runAlone('find', '/root', '/app', '-name', '.npmrc', '-size', '+0')).stdout).toBe('');
  figure(`${locked.length} packages in the image`);
});

/** Runs Compose. Podman serves Docker's API to it on a socket. */
async function startCompose(): Promise<((...args: string[]) => Promise<string>) | undefined> {
  const [tool, ...before] = (await works('docker-compose', 'version')) ? ['docker-compose'] : ['docker', 'compose'];
  if (!(await works(tool as string, ...before, 'version'))) return undefined;
  const { command, env, folder } = inject('engine') as Engine;
  const socket = path.join(folder, 'engine.sock');
  if (command === 'podman') {
    const args = ['system', 'service', '--time', '0', `unix://${socket}`];
    const service = spawn('podman', args, { cwd: folder, env: { ...process.env, ...env }, stdio: 'ignore' });
    onTestFinished(async () => {
      service.kill();
      await once(service, 'exit');
    });
    await expect.poll(() => existsSync(socket)).toBe(true);
  }
  const { services, volumes } = parse(read('compose.yaml'), { merge: true });
  for (const name of deployments) {
    const { build: _, ...service } = services[name];
    const ports = service.ports.map((port: string) => `127.0.0.1::${port.split(':')[2]}`);
    services[name] = { ...service, image: imageName, ports };
  }
  const file = path.join(folder, 'compose.yaml');
  writeFileSync(file, JSON.stringify({ services, volumes }));
  const all = [...before, '-p', project, '-f', file];
  const compose = (...args: string[]) =>
    execute(tool as string, [...all, ...args], {
      cwd: folder,
      env: command === 'podman' ? { DOCKER_HOST: `unix://${socket}` } : {},
    });
  onTestFinished(() => compose('down', '--volumes').then(() => undefined));
  return compose;
}

async function containerNamed(name: string) {
  const address = async (port: number) =>
    `http://${(await engine('port', name, `${port}/tcp`)).stdout.split('\n')[0]?.trim()}`;
  const [url, opsUrl] = [await address(3000), await address(9464)];
  return {
    name,
    /** Runs a program in the container to its end. */
    run: (...command: string[]) => engine('exec', name, ...command),
    readiness: () => fetch(`${opsUrl}/readyz`).then(({ status }) => status, String),
    async call(key: string, method: string, body?: object) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const response = await fetch(`${url}/v1/pets`, { method, headers, body: body ? JSON.stringify(body) : null });
      return { status: response.status, location: response.headers.get('location'), json: await response.json() };
    },
  };
}

test('compose.yaml: two deployments run side by side, confined, each with its keys and pets, which survive SIGTERM', async ({
  skip,
}) => {
  const compose = await startCompose();
  if (!compose) return skip('neither docker-compose nor docker compose is installed');
  /** Starts both deployments and waits until they are ready. */
  async function up() {
    await compose?.('up', '--detach', '--no-build');
    const ids = await Promise.all(deployments.map((name) => compose?.('ps', '-q', name)));
    const containers = await Promise.all(ids.map((id) => containerNamed(id as string)));
    for (const { readiness } of containers) await expect.poll(readiness).toBe(200);
    return containers;
  }

  const keys: string[] = [];
  const first = await up();
  for (const { run } of first) {
    const cli = ['node', 'src/cli.ts'];
    await run(...cli, 'account', 'add', 'zoo');
    keys.push((await run(...cli, 'key', 'create', '--account', 'zoo', '--name', 'till')).stdout.trim());
  }
  expect(keys).toEqual([expect.stringMatching(/^ast_live_/), expect.stringMatching(/^ast_test_/)]);
  const services = parse(read('compose.yaml'), { merge: true }).services;
  for (const [index, { name, run, call }] of first.entries()) {
    const [key, otherKey] = [keys[index] as string, keys[1 - index] as string];
    await expect.poll(() => call(key, 'GET')).toMatchObject({ status: 200, json: [] });
    expect((await call(otherKey, 'GET')).json).toMatchObject({ code: 'invalid_api_key' });
    const { BASE_URL } = services[deployments[index] as string].environment;
    expect((await call(key, 'POST', tabby)).location).toBe(`${BASE_URL}/pets/1`);

    expect(await inspect('.HostConfig', name)).toMatchObject({
      ReadonlyRootfs: true,
      Memory: 256 * 1024 ** 2,
      PidsLimit: 100,
      RestartPolicy: { Name: 'unless-stopped' },
    });
    expect((await run('cat', '/proc/1/cmdline')).stdout).toBe('node\0--max-semi-space-size=8\0src/main.ts\0');
    const status = (await run('cat', '/proc/1/status')).stdout;
    for (const line of [/^Uid:\t10001\t10001/m, /^Gid:\t10001\t/m, /^CapEff:\t0+$/m, /^NoNewPrivs:\t1$/m])
      expect(status).toMatch(line);
    const writable = await run('find', '/', '-xdev', '-writable', '-not', '-path', '/proc/*');
    // By default Podman keeps /tmp and /run writable under a read-only root; Docker does not.
    expect(lines(writable.stdout).filter((folder) => !/^\/(run|tmp|var\/tmp)\b/.test(folder))).toEqual(['/data']);
    const [how, ...check] = await inspect('.Config.Healthcheck.Test', name);
    expect(how).toBe('CMD');
    expect(await run(...check)).toMatchObject({ code: 0, stdout: 'ready\n' });
    expect((await runAlone(...check)).code).toBe(1);
  }

  const stopping = compose('stop');
  for (const [index, { readiness, call }] of first.entries()) {
    await expect.poll(readiness, { interval: 20 }).toBe(503);
    // For LAME_DUCK_MS it still serves.
    expect((await call(keys[index] as string, 'POST', tabby)).status).toBe(201);
  }
  await stopping;
  for (const { name } of first) expect(await inspect('.State.ExitCode', name)).toBe(0);
  await compose('down');
  for (const [index, { call }] of (await up()).entries())
    await expect.poll(async () => (await call(keys[index] as string, 'GET')).json).toHaveLength(2);
});
