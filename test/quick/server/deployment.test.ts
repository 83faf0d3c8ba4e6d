/** Tests that the Dockerfile, compose.yaml, nginx.conf, the systemd unit, the workflow and GitHub's templates agree with the server and with each other. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../../../src/config.ts';
import { limits } from '../../../src/core/limits.ts';
import {
  deployments,
  dockerfile,
  expectSettings,
  imageSettings,
  pairs,
  read,
  stopMs,
} from '../../support/deployment.ts';
import { nodeOptions, projectFolder } from '../../support/project.ts';

const { name, version, license, description } = JSON.parse(read('package.json'));
const compose = parse(read('compose.yaml'), { merge: true });
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;

describe('the Dockerfile', () => {
  test('sets only known settings, and exposes the ports that it sets', () => {
    const { NODE_ENV, ...rest } = imageSettings;
    expect(NODE_ENV).toBe('production');
    expectSettings(rest);
    expect(/^EXPOSE (.*)$/m.exec(dockerfile)?.[1]).toBe(`${rest.PORT} ${rest.OPS_PORT}`);
  });

  test('has the command of npm start', () => {
    expect(JSON.parse(/^CMD (\[.*)$/m.exec(dockerfile)?.[1] as string)).toEqual([
      'node',
      ...nodeOptions,
      'src/main.ts',
    ]);
  });

  test('starts from an image that its digest names', () => {
    expect(dockerfile.match(/^FROM .*$/gm)).toEqual([
      expect.stringMatching(/^FROM node:26-bookworm-slim@sha256:[0-9a-f]{64} AS node$/),
      'FROM node AS dependencies',
      'FROM node',
    ]);
  });

  test('has the labels of package.json', () => {
    expect(pairs('LABEL')).toMatchObject({
      'org.opencontainers.image.title': name,
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.licenses': license,
      'org.opencontainers.image.description': description,
    });
  });
});

describe('the systemd unit', () => {
  const unit = read('deploy/systemd/animal-store.service');
  const values = (name: string) => [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value);

  test('has the command of npm start, with the Node of the project', () => {
    const command = ['/opt/animal-store/node_modules/.bin/node', ...nodeOptions, 'src/main.ts'];
    expect(values('ExecStart')).toEqual([command.join(' ')]);
  });

  test('gives the server time to stop, and the files and memory that its limits need', () => {
    expect(Number(values('TimeoutStopSec')[0]) * 1000).toBeGreaterThan(stopMs);
    const { MAX_CONNECTIONS } = readConfig({});
    expect(Number(values('LimitNOFILE')[0])).toBeGreaterThan(2 * MAX_CONNECTIONS);
    expect(`${values('MemoryMax')[0]}`.toLowerCase()).toBe(compose.services.production.mem_limit);
  });

  test.skipIf(!hasSystemd)('and those of the backup are understood by systemd, and expose little', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = path.join(folder, 'animal-store.service');
    const here = unit
      .replaceAll('/opt/animal-store/node_modules/.bin/node', process.execPath)
      .replaceAll('/opt/animal-store', path.resolve(projectFolder));
    writeFileSync(file, here);
    const analyze = (...args: string[]) => spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });
    expect(analyze('verify')).toMatchObject({ status: 0, stderr: '' });
    const exposure = /exposure level for .+: ([\d.]+) OK/.exec(analyze('security', '--offline=true').stdout);
    expect(Number(exposure?.[1])).toBeLessThan(2);
    for (const backup of ['service', 'timer'].map((kind) => `deploy/systemd/animal-store-backup.${kind}`))
      expect(spawnSync('systemd-analyze', ['verify', path.join(projectFolder, backup)])).toMatchObject({ status: 0 });
    const backup = path.join(projectFolder, 'deploy/systemd/animal-store-backup.service');
    const { stdout } = spawnSync('systemd-analyze', ['security', '--offline=true', backup], { encoding: 'utf8' });
    expect(Number(/exposure level for .+: ([\d.]+) /.exec(stdout)?.[1])).toBeLessThan(2);
    writeFileSync(file, here.replace('RestartSec=1', 'RestartSec=soon'));
    expect(analyze('verify').stderr).toContain('Failed to parse');
  });
});

describe('the workflow', () => {
  const { jobs } = parse(read('.github/workflows/ci.yml'));
  type Step = { uses?: string; run?: string };
  const steps = (Object.values(jobs) as { steps: Step[] }[]).flatMap((job) => job.steps);

  test('runs every suite that needs more than npm ci', () => {
    const commands = steps.map(({ run }) => run);
    for (const name of ['check', 'test:full', 'test:browser', 'test:contract', 'test:image'])
      expect(commands).toContain(`npm run ${name}`);
    expect(commands).toContain('npm test');
  });

  test('pins each action to a commit', () => {
    const uses = read('.github/workflows/ci.yml').match(/uses: .*/g) ?? [];
    expect(uses.length).toBeGreaterThan(3);
    for (const each of uses) expect(each).toMatch(/^uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });
});

describe('the templates of GitHub', () => {
  const commands = Object.keys(JSON.parse(read('package.json')).scripts);

  test('ask for a bug in a form that GitHub accepts', () => {
    const { name, description, body } = parse(read('.github/ISSUE_TEMPLATE/bug.yml'));
    expect([typeof name, typeof description]).toEqual(['string', 'string']);
    const fields = body.filter(({ type }: { type: string }) => type !== 'markdown');
    const ids = fields.map(({ id }: { id: string }) => id);
    expect(new Set(ids).size).toBe(body.length - 1);
    for (const { type, attributes } of fields) {
      expect(['input', 'textarea', 'dropdown']).toContain(type);
      expect(attributes.label).toEqual(expect.any(String));
    }
  });

  test('name only commands that exist', () => {
    const text = read('.github/pull_request_template.md') + read('CONTRIBUTING.md');
    const named = [...text.matchAll(/npm run ([a-z:]+)/g)].map(([, command]) => command);
    expect(named.length).toBeGreaterThan(15);
    expect(commands).toEqual(expect.arrayContaining(named));
  });
});

describe('compose.yaml', () => {
  test('starts each deployment with its own name, ports and volume', () => {
    expect(Object.keys(compose.services).sort()).toEqual([...deployments].sort());
    const { production, staging } = compose.services;
    for (const name of deployments) {
      const { environment, ports, volumes } = compose.services[name];
      expectSettings(environment);
      expect(environment.DEPLOYMENT).toBe(name);
      expect(volumes).toEqual([`${name}:/data`]);
      expect(ports.map((port: string) => port.split(':')[2])).toEqual([imageSettings.PORT, imageSettings.OPS_PORT]);
      // Only a proxy on the same machine can reach it.
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
    expect(new Set([...production.ports, ...staging.ports].map((port: string) => port.split(':')[1])).size).toBe(4);
    expect(production.environment.BASE_URL).not.toBe(staging.environment.BASE_URL);
  });

  test('gives the server time to stop, and removes privileges that it does not need', () => {
    for (const name of deployments) {
      const { stop_grace_period: grace, ...service } = compose.services[name];
      expect(Number.parseInt(grace, 10) * 1000).toBeGreaterThan(stopMs);
      expect(service).toMatchObject({
        restart: 'unless-stopped',
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        mem_limit: '256m',
        cpus: 1,
        pids_limit: 100,
      });
    }
  });

  test('is valid for Compose', ({ skip }) => {
    const tools = [['docker-compose'], ['docker', 'compose']];
    const tool = tools.find(([file = '', ...args]) => spawnSync(file, [...args, 'version']).status === 0);
    if (!tool) return skip('neither docker-compose nor docker compose is installed');
    const [file = '', ...args] = tool;
    const { stderr, status } = spawnSync(file, [...args, '-f', 'compose.yaml', 'config', '-q'], { cwd: projectFolder });
    expect([String(stderr), status]).toEqual(['', 0]);
  }, 60_000);
});

describe('nginx', () => {
  const files = read('deploy/nginx.conf') + read('deploy/nginx-main.conf');
  const unit: Record<string, number> = { s: 1000, k: 1024, '': 1 };
  /** The first number of a directive, or of a parameter, that may follow a word: in milliseconds or bytes if it has a unit. */
  const directive = (name: string) => {
    const [, count, suffix = ''] = new RegExp(`\\b${name}[ =](?:\\w+ )?(\\d+)([sk]?);`, 'm').exec(files) ?? [];
    return Number(count) * (unit[suffix] ?? Number.NaN);
  };

  test('has longer timeouts and higher limits than the server, and closes idle connections before the server does', () => {
    expect(directive('proxy_read_timeout')).toBeGreaterThan(limits.request);
    expect(directive('proxy_send_timeout')).toBeGreaterThan(limits.request);
    expect(directive('keepalive_timeout')).toBeLessThan(limits.keepAlive);
    expect(directive('client_max_body_size')).toBeGreaterThan(limits.bodyBytes);
    expect(directive('large_client_header_buffers')).toBeGreaterThan(2 * 8000);
  });

  test('allows one client a tenth of what the server allows all, and has room for more clients than the server', () => {
    const { MAX_CONNECTIONS } = readConfig({});
    expect(directive('limit_conn')).toBeLessThanOrEqual(limits.bodies / 10);
    expect(directive('http2_max_concurrent_streams')).toBeLessThan(directive('limit_conn'));
    expect(directive('max_conns')).toBeLessThan(MAX_CONNECTIONS);
    // The connections of both deployments and of their clients.
    expect(directive('worker_connections')).toBeGreaterThan(4 * directive('max_conns'));
    expect(directive('worker_rlimit_nofile')).toBeGreaterThan(directive('worker_connections'));
  });

  test('forwards to the ports of Compose', () => {
    for (const name of deployments) {
      const upstream = new RegExp(`upstream animal_store_${name} {[^}]* server (\\S+) max_conns=(\\d+);`);
      const [, server, most] = upstream.exec(files) ?? [];
      expect(`${server}:3000`).toBe(compose.services[name].ports[0]);
      expect(Number(most)).toBe(directive('max_conns'));
    }
  });
});
