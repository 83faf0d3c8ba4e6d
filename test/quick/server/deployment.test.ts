/** Tests that the Dockerfile, compose.yaml, nginx.conf, the systemd unit and the workflow agree with the server and with each other. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../../../src/config.ts';
import { limits } from '../../../src/core/limits.ts';
import { temporaryFolder } from '../../support/app.ts';
import { deployments, dockerfile, expectSettings, imageSettings, read, stopMs } from '../../support/deployment.ts';
import { nodeOptions, projectFolder } from '../../support/project.ts';

const compose = parse(read('compose.yaml'), { merge: true });
const { MAX_CONNECTIONS } = readConfig({});
const command = ['node', ...nodeOptions, 'src/main.ts'];

test('the Dockerfile has the command of npm start, known settings and their ports, and names its image by digest', () => {
  const { NODE_ENV, ...rest } = imageSettings;
  expect(NODE_ENV).toBe('production');
  expectSettings(rest);
  expect(/^EXPOSE (.*)$/m.exec(dockerfile)?.[1]).toBe(`${rest.PORT} ${rest.OPS_PORT}`);
  expect(JSON.parse(/^CMD (\[.*)$/m.exec(dockerfile)?.[1] as string)).toEqual(command);
  for (const [from] of dockerfile.matchAll(/^FROM .*$/gm))
    expect(from).toMatch(/^FROM node(:\S+@sha256:[0-9a-f]{64})?( AS|$)/);
});

test('the workflow pins each action to a commit', () => {
  const uses = read('.github/workflows/ci.yml').match(/uses: .*/g) ?? [];
  expect(uses.length).toBeGreaterThan(3);
  for (const each of uses) expect(each).toMatch(/^uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});

describe('the systemd unit', () => {
  const unit = read('deploy/systemd/animal-store.service');
  const value = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';

  test('has the command of npm start, time to stop, and the files and memory that the limits of the server need', () => {
    expect(value('ExecStart')).toBe(`/opt/animal-store/node_modules/.bin/${command.join(' ')}`);
    expect(Number(value('TimeoutStopSec')) * 1000).toBeGreaterThan(stopMs);
    expect(Number(value('LimitNOFILE'))).toBeGreaterThan(2 * MAX_CONNECTIONS);
    expect(value('MemoryMax').toLowerCase()).toBe(compose.services.production.mem_limit);
  });

  test('and those of the backup are understood by systemd, and expose little', ({ skip }) => {
    if (spawnSync('systemd-analyze', ['--version']).status !== 0) skip('systemd-analyze is not installed');
    const file = path.join(temporaryFolder(), 'animal-store.service');
    const here = unit.replaceAll('/opt/animal-store/node_modules/.bin/node', process.execPath);
    writeFileSync(file, here.replaceAll('/opt/animal-store', path.resolve(projectFolder)));
    const backup = `${projectFolder}deploy/systemd/animal-store-backup`;
    const analyze = (...args: string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    for (const each of [file, `${backup}.service`, `${backup}.timer`])
      expect(analyze('verify', each)).toMatchObject({ status: 0, stderr: '' });
    for (const each of [file, `${backup}.service`]) {
      const { stdout } = analyze('security', '--offline=true', each);
      expect(Number(/exposure level for .+: ([\d.]+) /.exec(stdout)?.[1])).toBeLessThan(2);
    }
  });
});

describe('compose.yaml', () => {
  test.each(deployments)(
    'starts %s with its own settings, time to stop, and no privileges that it does not need',
    (name) => {
      const { environment, ports, volumes, stop_grace_period: grace, ...service } = compose.services[name];
      expectSettings(environment);
      expect([environment.DEPLOYMENT, volumes]).toEqual([name, [`${name}:/data`]]);
      expect(environment.BASE_URL.includes('staging')).toBe(name === 'staging');
      // Only a proxy on the same machine can reach it.
      const address = (port = '') => expect.stringMatching(new RegExp(`^127\\.0\\.0\\.1:\\d+:${port}$`));
      expect(ports).toEqual([address(imageSettings.PORT), address(imageSettings.OPS_PORT)]);
      expect(Number.parseInt(grace, 10) * 1000).toBeGreaterThan(stopMs);
      expect(service).toMatchObject({
        ...{ restart: 'unless-stopped', read_only: true, cap_drop: ['ALL'], mem_limit: '256m', cpus: 1 },
        ...{ security_opt: ['no-new-privileges:true'], pids_limit: 100 },
      });
    },
  );
});

describe('nginx', () => {
  const files = read('deploy/nginx.conf') + read('deploy/nginx-main.conf');
  const unit: Record<string, number> = { s: 1000, k: 1024, '': 1 };
  /** The first number of a directive, or of a parameter, that may follow a word: in milliseconds or bytes if it has a unit. */
  const directive = (name: string) => {
    const [, count, suffix = ''] = new RegExp(`\\b${name}[ =](?:\\w+ )?(\\d+)([sk]?);`, 'm').exec(files) ?? [];
    return Number(count) * (unit[suffix] ?? Number.NaN);
  };

  // Longer timeouts and higher limits than the server, of which one client gets a tenth.
  test.each([
    ['proxy_read_timeout', limits.request],
    ['proxy_send_timeout', limits.request],
    ['client_max_body_size', limits.bodyBytes],
    ['large_client_header_buffers', 2 * 8000],
    // The connections of both deployments and of their clients.
    ['worker_connections', 4 * directive('max_conns')],
    ['worker_rlimit_nofile', directive('worker_connections')],
  ])('has for %s more than %d', (name, least) => {
    expect(directive(name)).toBeGreaterThan(least);
  });

  test.each([
    ['keepalive_timeout', limits.keepAlive],
    ['limit_conn', limits.bodies / 10 + 1],
    ['http2_max_concurrent_streams', directive('limit_conn')],
    ['max_conns', MAX_CONNECTIONS],
  ])('has for %s less than %d', (name, most) => {
    expect(directive(name)).toBeLessThan(most);
  });

  test.each(deployments)('forwards to the port of %s in Compose', (name) => {
    const upstream = new RegExp(`upstream animal_store_${name} {[^}]* server (\\S+) max_conns=(\\d+);`);
    const [, server, most] = upstream.exec(files) ?? [];
    expect(`${server}:3000`).toBe(compose.services[name].ports[0]);
    expect(Number(most)).toBe(directive('max_conns'));
  });
});
