/** Tests the image built from the Dockerfile, and the deployments of compose.yaml on free ports. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { nodeOptions, projectFolder, read } from '../../support/project.ts';
import { attempt, type Engine, execute, imageName, works } from './engine.ts';

const tabby = { name: 'Tabby', categoryId: 1 };
const deployments = ['production', 'staging'];
const { version, license } = JSON.parse(read('package.json'));
const lines = (text: string) => text.split('\n').filter(Boolean).sort();

beforeEach(({ skip }) => {
  const found = inject('engine');
  if (typeof found === 'string') skip(found);
});

/** Runs a command of the engine. */
function engine(...args: string[]) {
  const { command, env } = inject('engine') as Engine;
  return attempt(command, args, env);
}

const inspect = (what: string, name: string) =>
  JSON.parse(engine('inspect', '--format', `{{json ${what}}}`, name).stdout);

/** Runs a program in a new container, without the server. */
const runAlone = (...command: string[]) => engine('run', '--rm', '--network', 'none', imageName, ...command);

type Packages = Record<string, { version: string; dev?: boolean; optional?: boolean; devOptional?: boolean }>;

const versions = (lock: string) =>
  Object.entries(JSON.parse(lock).packages as Packages)
    .filter(([folder, { dev, optional, devOptional }]) => folder !== '' && !(dev || optional || devOptional))
    .map(([folder, entry]) => `${folder.replace(/^.*node_modules\//, '')}@${entry.version}`);

test('the image names its version and revision, in labels and as a program', () => {
  const commit = execute('git', ['-C', projectFolder, 'rev-parse', 'HEAD']);
  expect(inspect('.Config.Labels', imageName)).toMatchObject({
    'org.opencontainers.image.title': 'animal-store',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': license,
    'org.opencontainers.image.revision': commit,
  });
  expect(runAlone('node', 'src/cli.ts', '--version').stdout).toBe(`${version} (${commit.slice(0, 7)})\n`);
});

test('the image has exactly the locked production packages, no npm, and no settings of it', () => {
  const installed = runAlone('cat', 'node_modules/.package-lock.json').stdout;
  expect(versions(installed)).toEqual(versions(read('package-lock.json')));
  expect(runAlone('sh', '-c', 'command -v npm npx corepack yarn').stdout).toBe('');
  expect(lines(runAlone('ls', '-A', '/app').stdout).join(' ')).toBe(
    '.cache LICENSE migrations node_modules openapi-3.0.json openapi-bruno.yml openapi-postman.json openapi.quickstart.yaml openapi.yaml package.json revision sbom.cdx.json src',
  );
  // The settings of npm were a secret of the build.
  expect(engine('history', '--no-trunc', imageName).stdout).not.toContain('registry=');
  expect(runAlone('find', '/root', '/app', '-name', '.npmrc', '-size', '+0').stdout).toBe('');
});

/** The command line of Compose for these deployments. Podman serves Docker's API to it on a socket. */
async function findCompose(): Promise<[command: string[], env: Record<string, string>] | undefined> {
  const compose = works('docker-compose', 'version') ? ['docker-compose'] : ['docker', 'compose'];
  if (!works(...(compose as [string, ...string[]]), 'version')) return undefined;
  const { command, env, folder } = inject('engine') as Engine;
  const socket = path.join(folder, 'engine.sock');
  if (command === 'podman') {
    const args = ['system', 'service', '--time', '0', `unix://${socket}`];
    const service = spawn('podman', args, { env: { ...process.env, ...env }, stdio: 'ignore' });
    onTestFinished(async () => {
      service.kill();
      await once(service, 'exit');
    });
    await expect.poll(() => existsSync(socket)).toBe(true);
  }
  // Its image is not here: test/system/nginx runs it.
  const { nginx: _nginx, ...services } = parse(read('compose.yaml'), { merge: true }).services;
  for (const name of deployments) {
    const { build: _, ...service } = services[name];
    services[name] = { ...service, image: imageName, ports: [3000, 9464].map((port) => `127.0.0.1::${port}`) };
  }
  const volumes = Object.fromEntries(deployments.map((name) => [name, null]));
  const file = path.join(folder, 'compose.yaml');
  writeFileSync(file, JSON.stringify({ services, volumes }));
  return [
    [...compose, '-p', 'animal-store-test', '-f', file],
    command === 'podman' ? { DOCKER_HOST: `unix://${socket}` } : {},
  ];
}

function containerNamed(name: string) {
  const address = (port: number) => `http://${lines(engine('port', name, `${port}/tcp`).stdout)[0]}`;
  const [url, opsUrl] = [address(3000), address(9464)];
  return {
    name,
    /** Runs a program in the container to its end. */
    run: (...command: string[]) => engine('exec', name, ...command),
    readiness: () => fetch(`${opsUrl}/readyz`).then(({ status }) => status, String),
    async call(key: string | undefined, method: string, body?: object) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const response = await fetch(`${url}/v1/pets`, { method, headers, body: body ? JSON.stringify(body) : null });
      return { status: response.status, location: response.headers.get('location'), json: await response.json() };
    },
  };
}

test.each([
  ['as it is', {}],
  ['without an ops port', { OPS_PORT: 'off' }],
  ['with other ports', { PORT: '3001', OPS_PORT: '9465' }],
  ['with another port, and without an ops port', { PORT: '3001', OPS_PORT: 'off' }],
  ['on IPv4 alone', { HOST: '0.0.0.0', OPS_HOST: '0.0.0.0' }],
  ['on the loopback interface', { HOST: '127.0.0.1', OPS_HOST: 'localhost' }],
  ['with another file', { DATABASE_URL: 'sqlite:/data/folder/other.db' }],
  ['in production', { DEPLOYMENT: 'production', OPS_PORT: 'off' }],
] as [string, Record<string, string>][])(
  'the health check of the image finds a server that runs %s',
  async (_, env) => {
    const settings = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
    const { stdout } = engine('run', '--detach', '--rm', '--network', 'none', ...settings, imageName);
    const name = stdout.trim();
    onTestFinished(() => void engine('kill', name));
    const check = inspect('.Config.Healthcheck', name).Test.slice(1);
    await expect.poll(() => engine('exec', name, ...check), { timeout: 20_000 }).toMatchObject({ stdout: 'ready\n' });
  },
);

test('compose.yaml: two deployments run side by side, confined; their keys and pets survive SIGTERM', async ({
  skip,
}) => {
  const found = await findCompose();
  if (!found) return skip('neither docker-compose nor docker compose is installed');
  const [[tool = '', ...before], env] = found;
  const compose = (...args: string[]) => execute(tool, [...before, ...args], env);
  onTestFinished(() => void compose('down', '--volumes'));
  /** Starts both deployments and waits until they are ready. */
  async function up() {
    compose('up', '--detach', '--no-build');
    const containers = deployments.map((name) => containerNamed(compose('ps', '-q', name)));
    for (const { readiness } of containers) await expect.poll(readiness).toBe(200);
    return containers;
  }

  const first = await up();
  const keys = first.map(({ run }) => {
    const cli = ['node', 'src/cli.ts'];
    run(...cli, 'account', 'add', 'zoo');
    return run(...cli, 'key', 'create', '--account', 'zoo', '--name', 'till').stdout.trim();
  });
  expect(keys).toEqual([expect.stringMatching(/^ast_live_/), expect.stringMatching(/^ast_test_/)]);
  const { services } = parse(read('compose.yaml'), { merge: true });
  for (const [index, { name, run, call }] of first.entries()) {
    await expect.poll(() => call(keys[index], 'GET')).toMatchObject({ status: 200, json: [] });
    expect(await call(keys[1 - index], 'GET')).toMatchObject({ status: 401, json: { code: 'invalid_api_key' } });
    const { BASE_URL } = services[deployments[index] as string].environment;
    expect((await call(keys[index], 'POST', tabby)).location).toBe(`${BASE_URL}/pets/1`);

    expect(inspect('.HostConfig', name)).toMatchObject({
      ReadonlyRootfs: true,
      Memory: 256 * 1024 ** 2,
      PidsLimit: 100,
      RestartPolicy: { Name: 'unless-stopped' },
    });
    expect(run('cat', '/proc/1/cmdline').stdout.split('\0').slice(1)).toEqual([...nodeOptions, '/app/src/main.ts', '']);
    const status = run('cat', '/proc/1/status').stdout;
    for (const line of [/^Uid:\t10001\t10001/m, /^Gid:\t10001\t/m, /^CapEff:\t0+$/m, /^NoNewPrivs:\t1$/m])
      expect(status).toMatch(line);
    const writable = run('find', '/', '-xdev', '-writable', '-not', '-path', '/proc/*').stdout;
    // By default Podman keeps /tmp and /run writable under a read-only root; Docker does not.
    expect(lines(writable).filter((folder) => !/^\/(run|tmp|var\/tmp)\b/.test(folder))).toEqual(['/data']);
    const [how, ...check] = inspect('.Config.Healthcheck.Test', name);
    expect(how).toBe('CMD');
    // A health check loads the code that the build has kept.
    const stderr = expect.stringMatching(/src.cli.ts...success/);
    const checked = run('env', 'NODE_DEBUG_NATIVE=COMPILE_CACHE', ...check);
    expect(checked).toMatchObject({ status: 0, stdout: 'ready\n', stderr });
    expect(runAlone(...check).status).toBe(1);
  }

  const stopping = once(spawn(tool, [...before, 'stop'], { env: { ...process.env, ...env } }), 'exit');
  for (const [index, { readiness, call }] of first.entries()) {
    await expect.poll(readiness).toBe(503);
    // For LAME_DUCK_MS it still serves.
    expect((await call(keys[index], 'POST', tabby)).status).toBe(201);
  }
  await stopping;
  for (const { name } of first) expect(inspect('.State.ExitCode', name)).toBe(0);
  compose('down');
  for (const [index, { call }] of (await up()).entries())
    await expect.poll(async () => (await call(keys[index], 'GET')).json).toHaveLength(2);
});
