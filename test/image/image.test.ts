/** Tests the image built from the Dockerfile, and its containers with the limits of compose.yaml. */
import { existsSync, readFileSync } from 'node:fs';
import { beforeEach, describe, expect, inject, test } from 'vitest';
import { figure } from '../support/tier.ts';
import { readComposition } from './compose.ts';
import {
  attemptEngine,
  type Container,
  createKey,
  engine,
  exitCodeOf,
  launchContainer,
  newVolume,
  startContainer,
} from './container.ts';
import { imageName, projectFolder } from './engine.ts';
import { execute } from './execute.ts';

const tabby = { name: 'Tabby', categoryId: 1 };
const { version, license } = JSON.parse(readFileSync(`${projectFolder}package.json`, 'utf8'));
const lines = (text: string) => text.split('\n').filter(Boolean).sort();

beforeEach(({ skip }) => {
  const found = inject('engine');
  if (typeof found === 'string') skip(found);
});

/** Runs a program in a new container, without the server. */
const runAlone = (...command: string[]) => attemptEngine('run', '--rm', '--network', 'none', imageName, ...command);

async function inspect(path: string, name: string): Promise<unknown> {
  return JSON.parse(await engine('inspect', '--format', `{{json ${path}}}`, name));
}

async function firstKey(container: Container): Promise<string> {
  const key = /^ {2}(ast_test_\w+)$/m;
  await expect.poll(container.log).toMatch(key);
  return key.exec(await container.log())?.[1] as string;
}

describe('the image', () => {
  test('names its version and revision, in labels with its title and licence, and as a program', async () => {
    const commit = await execute('git', ['rev-parse', 'HEAD'], { cwd: projectFolder });
    expect(await inspect('.Config.Labels', imageName)).toMatchObject({
      'org.opencontainers.image.title': 'animal-store',
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.licenses': license,
      'org.opencontainers.image.revision': commit,
    });
    const stdout = `${version} (${commit.slice(0, 7)})\n`;
    expect(await runAlone('node', 'src/cli.ts', '--version')).toMatchObject({ code: 0, stdout });
    const bytes = Number(await inspect('.Size', imageName));
    const { stdout: kibibytes } = await runAlone('du', '-sk', '/app');
    figure(
      `image of ${Math.round(bytes / 1e6)} MB, of which ${Math.round(Number.parseInt(kibibytes, 10) / 1024)} MB are in /app`,
    );
  });

  test('contains the locked production packages, one native module and one Node', async () => {
    const { packages } = JSON.parse(readFileSync(`${projectFolder}package-lock.json`, 'utf8')) as {
      packages: Record<string, { version: string; dev?: boolean; optional?: boolean; devOptional?: boolean }>;
    };
    const locked = Object.entries(packages).filter(
      ([path, { dev, optional, devOptional }]) => path !== '' && !(dev || optional || devOptional),
    );
    const { stdout } = await runAlone('cat', 'node_modules/.package-lock.json');
    const installed = JSON.parse(stdout).packages as typeof packages;
    const versions = (entries: [string, { version: string }][]) =>
      entries.map(([path, entry]) => `${path} ${entry.version}`);
    expect(versions(Object.entries(installed))).toEqual(versions(locked));
    const binaries = await runAlone('find', '/', '-xdev', '-name', '*.node', '-o', '-name', 'node', '-type', 'f');
    expect(lines(binaries.stdout)).toEqual([
      expect.stringMatching(/^\/app\/node_modules\/better-sqlite3\/prebuilds\/linux-(x64|arm64)\.node$/),
      '/usr/local/bin/node',
    ]);
    figure(`${locked.length} packages in the image`);
  });

  test('has a CycloneDX list of exactly its packages, and no package manager', async () => {
    const { stdout } = await runAlone('cat', 'sbom.cdx.json');
    const { bomFormat, metadata, components } = JSON.parse(stdout) as {
      bomFormat: string;
      metadata: { component: object };
      components: { purl: string }[];
    };
    expect(bomFormat).toBe('CycloneDX');
    expect(metadata.component).toMatchObject({ type: 'application', name: 'animal-store', version });
    const lock = await runAlone('cat', 'node_modules/.package-lock.json');
    const { packages } = JSON.parse(lock.stdout) as { packages: Record<string, { version: string }> };
    const installed = Object.entries(packages).map(([folder, { version }]) => {
      const name = folder.replace(/^.*node_modules\//, '').replace('@', '%40');
      return `pkg:npm/${name}@${version}`;
    });
    expect(components.map(({ purl }) => purl).sort()).toEqual([...new Set(installed)].sort());
    for (const name of ['npm', 'npx', 'corepack', 'yarn'])
      expect([name, (await runAlone('sh', '-c', `command -v ${name}`)).code]).toEqual([name, 127]);
  });

  test('contains only the files that the server reads, and nothing from the tests or the build machine', async () => {
    const { stdout } = await runAlone('ls', '-A', '/app');
    expect(lines(stdout)).toEqual(
      lines(
        'LICENSE\naccount\nmigrations\nnode_modules\nopenapi.quickstart.yaml\nopenapi.yaml\npackage.json\nreference\nsbom.cdx.json\nsrc',
      ),
    );
    expect(await engine('history', '--no-trunc', imageName)).not.toContain('registry=');
    expect((await runAlone('find', '/root', '/app', '-name', '.npmrc', '-size', '+0')).stdout).toBe('');
  });
});

describe('a container', () => {
  test('runs node as process 1 as an unprivileged user, and can write only to /data', async () => {
    const container = await startContainer(newVolume());
    expect((await container.run('cat', '/proc/1/cmdline')).stdout).toBe('node\0--max-semi-space-size=8\0src/main.ts\0');
    const status = (await container.run('cat', '/proc/1/status')).stdout;
    expect(/^Uid:\t(\d+)\t(\d+)/m.exec(status)?.slice(1)).toEqual(['10001', '10001']);
    expect(/^Gid:\t(\d+)/m.exec(status)?.[1]).toBe('10001');
    expect(/^CapEff:\t(\w+)/m.exec(status)?.[1]).toBe('0000000000000000');
    expect(/^NoNewPrivs:\t(\d)/m.exec(status)?.[1]).toBe('1');
    const writable = await container.run('find', '/', '-xdev', '-writable', '-not', '-path', '/proc/*');
    expect(lines(writable.stdout)).toEqual(['/data']);
    expect((await container.run('touch', '/tmp/x')).stderr).toContain('Read-only file system');
  });

  test('lists, adds and fetches with the API key of the first start; 401 without a key; 404 for a missing pet or route', async () => {
    const container = await startContainer(newVolume(), { DEPLOYMENT: 'staging' });
    const key = await firstKey(container);
    const { call } = container;
    await expect.poll(() => call(key, 'GET', '/v1/pets')).toEqual({ status: 200, json: [] });
    const pet = { id: 1, ...tabby, status: 'available' };
    expect(await call(key, 'POST', '/v1/pets', tabby)).toEqual({ status: 201, json: pet, location: '/v1/pets/1' });
    expect(await call(key, 'GET', '/v1/pets')).toEqual({ status: 200, json: [pet] });
    expect(await call(key, 'GET', '/v1/pets/1')).toEqual({ status: 200, json: pet });
    expect(await call(null, 'GET', '/v1/pets')).toMatchObject({ status: 401, json: { code: 'missing_api_key' } });
    expect(await call(key, 'GET', '/v1/pets/2')).toMatchObject({ status: 404, json: { code: 'pet_not_found' } });
    expect(await call(key, 'GET', '/nowhere')).toMatchObject({ status: 404, json: { code: 'route_not_found' } });
    expect((await fetch(`${container.url}/openapi.yaml`)).status).toBe(200);
    expect((await (await fetch(`${container.opsUrl}/metrics`)).text()).includes(`version="${version}"`)).toBe(true);
  });

  test('in production prints no API key: the operator creates one in the container, and it works', async () => {
    const container = await startContainer(newVolume(), { DEPLOYMENT: 'production' });
    const key = await createKey(container);
    expect(key).toMatch(/^ast_live_/);
    await expect.poll(() => container.call(key, 'GET', '/v1/pets')).toEqual({ status: 200, json: [] });
    expect(await container.log()).not.toContain('ast_');
  });

  test('its health check succeeds when the server is ready, and fails without the server', async () => {
    const container = await startContainer(newVolume());
    const [how, ...check] = (await inspect('.Config.Healthcheck.Test', container.name)) as string[];
    expect(how).toBe('CMD');
    const begun = performance.now();
    expect(await container.run(...check)).toMatchObject({ code: 0, stdout: 'ready\n' });
    figure(`health check in ${Math.round(performance.now() - begun)} ms`);
    expect(await runAlone(...check)).toMatchObject({ code: 1, stderr: expect.stringContaining('does not answer') });
  });
});

/** Whether the process catches SIGHUP, which Node does not do by default: the lowest bit of the mask (proc(5)). */
const catchesHangup = (process: string) => /^SigCgt:.*[13579bdf]$/m.test(readFileSync(`${process}/status`, 'utf8'));

describe('shutdown of a container', () => {
  test('after SIGTERM it is not ready, serves for LAME_DUCK_MS, exits with 0, and the next container has all pets', async () => {
    const volume = newVolume();
    const container = await startContainer(volume);
    const key = await firstKey(container);
    expect((await container.call(key, 'POST', '/v1/pets', tabby)).status).toBe(201);
    const begun = performance.now();
    const stopped = container.stop();
    await expect.poll(() => fetch(`${container.opsUrl}/readyz`).then(({ status }) => status)).toBe(503);
    expect((await container.call(key, 'POST', '/v1/pets', tabby)).status).toBe(201);
    expect(await stopped).toBe(0);
    const seconds = (performance.now() - begun) / 1000;
    expect(seconds).toBeGreaterThan(5);
    expect(seconds).toBeLessThan(15);
    figure(`stopped with 0 in ${seconds.toFixed(1)} s, including the lame-duck time of 5 s`);

    const next = await startContainer(volume);
    await expect.poll(async () => (await next.call(key, 'GET', '/v1/pets')).json).toHaveLength(2);
    expect(await next.log()).not.toContain('ast_test_');
  });

  test.for(['TERM', 'INT', 'HUP'])(
    'SIG%s while it is still starting makes it exit with 0, even as process 1',
    async (signal, { skip }) => {
      // Little CPU time, so that the signal arrives while it is loading.
      const name = await launchContainer(newVolume(), { LAME_DUCK_MS: '0' }, ['--cpus', '0.3']);
      const process = `/proc/${await inspect('.State.Pid', name)}`;
      if (!existsSync(process)) skip('the engine runs on another machine, where its processes cannot be watched');
      const begun = performance.now();
      await expect.poll(() => catchesHangup(process), { interval: 5 }).toBe(true);
      const caught = performance.now();
      expect(existsSync(`${process}/root/data/animal-store.db`)).toBe(false);
      await engine('kill', '--signal', signal, name);
      const code = await exitCodeOf(name);
      expect(code, (await attemptEngine('logs', name)).stdout).toBe(0);
      const ms = (from: number, to: number) => Math.round(to - from);
      figure(
        `SIG${signal} ${ms(begun, caught)} ms into a slow start: exit 0 after ${ms(caught, performance.now())} ms`,
      );
    },
  );

  test('a kill under load loses no acknowledged pet', async () => {
    const volume = newVolume();
    const container = await startContainer(volume);
    const key = await createKey(container);
    const answered: number[] = [];
    const client = async () => {
      for (;;) {
        const { status, json } = await container.call(key, 'POST', '/v1/pets', tabby);
        if (status === 201 && answered.push(json.id) === 200) await engine('kill', '--signal', 'KILL', container.name);
      }
    };
    await Promise.allSettled(Array.from({ length: 8 }, client));
    expect(answered.length).toBeGreaterThanOrEqual(200);
    const next = await startContainer(volume);
    const missing: number[] = [];
    for (const id of answered) if ((await next.call(key, 'GET', `/v1/pets/${id}`)).status !== 200) missing.push(id);
    expect(missing).toEqual([]);
    figure(`killed under load: ${answered.length} acknowledged, ${missing.length} lost`);
  });
});

test('the limits of compose.yaml apply, and suffice for load and health checks at the same time', async () => {
  const { mem_limit: memory, pids_limit: processes } = readComposition().services.staging;
  const container = await startContainer(newVolume());
  const read = async (...paths: string[]) => (await container.run('cat', ...paths)).stdout.trim();
  const control = '/sys/fs/cgroup';
  expect(Number(await read(`${control}/memory.max`, `${control}/memory/memory.limit_in_bytes`))).toBe(
    Number.parseInt(memory, 10) * 1024 ** 2,
  );
  expect(Number(await read(`${control}/pids.max`, `${control}/pids/pids.max`))).toBe(processes);
  const key = await createKey(container);
  const statuses = new Map<number, number>();
  const client = async () => {
    for (let count = 0; count < 200; count++) {
      const added = count % 2 === 0;
      const { status } = await container.call(key, added ? 'POST' : 'GET', '/v1/pets', added ? tabby : undefined);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  const checks = async () => {
    for (let count = 0; count < 3; count++)
      expect(await container.run('node', 'src/cli.ts', 'health')).toMatchObject({ code: 0 });
  };
  await Promise.all([...Array.from({ length: 20 }, client), checks()]);
  expect([...statuses]).toEqual(
    expect.arrayContaining([
      [200, 2000],
      [201, 2000],
    ]),
  );
  expect(await inspect('.State.OOMKilled', container.name)).toBe(false);
  const peak = /^VmHWM:\s+(\d+)/m.exec(await read('/proc/1/status'))?.[1];
  figure(
    `4000 requests and 3 health checks in ${memory}: the server used ${Math.round(Number(peak) / 1024)} MiB at most`,
  );
});
