import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../../../src/config.ts';
import { limits } from '../../../src/core/limits.ts';
import { deployments, dockerfile, expectSettings, imageSettings, stopMs } from '../../support/deployment.ts';
import { read } from '../../support/project.ts';

const compose = parse(read('compose.yaml'), { merge: true });
const { MAX_CONNECTIONS } = readConfig({});
const command = ['node', 'src/start.cjs'];

test('the Dockerfile has the command of npm start, known settings and their ports, and names its image by digest', () => {
  const { NODE_ENV, NODE_COMPILE_CACHE, ...rest } = imageSettings;
  expect([NODE_ENV, NODE_COMPILE_CACHE]).toEqual(['production', '/app/.cache']);
  expectSettings(rest);
  expect(/^EXPOSE (.*)$/m.exec(dockerfile)?.[1]).toBe(`${rest.PORT} ${rest.OPS_PORT}`);
  expect(JSON.parse(/^CMD (\[.*)$/m.exec(dockerfile)?.[1] as string)).toEqual(command);
  for (const [from] of dockerfile.matchAll(/^FROM .*$/gm))
    expect(from).toMatch(/^FROM node(:\S+@sha256:[0-9a-f]{64})?( AS|$)/);
});

describe('the systemd unit', () => {
  const unit = read('deploy/systemd/animal-store.service');
  const value = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';

  test('has the command of npm start, time to stop, and the files and memory that the limits of the server need', () => {
    expect(value('ExecStart')).toBe(`/opt/animal-store/node_modules/.bin/${command.join(' ')}`);
    expect(Number(value('TimeoutStopSec')) * 1000).toBeGreaterThan(stopMs);
    expect(Number(value('LimitNOFILE'))).toBeGreaterThan(2 * MAX_CONNECTIONS);
    // Each request is a line.
    expect(value('LogRateLimitIntervalSec')).toBe('0');
    expect(value('MemoryMax').toLowerCase()).toBe(compose.services.production.mem_limit);
  });
});

describe('compose.yaml', () => {
  test.each(deployments)(
    'starts %s with its own settings, time to stop, and no privileges that it does not need',
    (name) => {
      const { environment, ports, volumes, stop_grace_period: grace, ...service } = compose.services[name];
      const { nginx } = compose.services;
      expectSettings(environment);
      expect([environment.DEPLOYMENT, volumes]).toEqual([name, [`${name}:/data`]]);
      expect(environment.BASE_URL.includes('staging')).toBe(name === 'staging');
      // Only programs of the same machine can reach the ops port; requests go through nginx, which stops first.
      expect(ports).toEqual([expect.stringMatching(new RegExp(`^127\\.0\\.0\\.1:\\d+:${imageSettings.OPS_PORT}$`))]);
      const listen = new RegExp(`listen (\\d+);\\s*set \\$animal_store ${name};`).exec(
        read('deploy/nginx/compose.conf'),
      )?.[1];
      expect(nginx.ports).toContain(`127.0.0.1:${name === 'production' ? 3000 : 3100}:${listen}`);
      expect(nginx.depends_on).toContain(name);
      expect(Number.parseInt(grace, 10) * 1000).toBeGreaterThan(stopMs);
      expect(service).toMatchObject({
        restart: 'unless-stopped',
        read_only: true,
        cap_drop: ['ALL'],
        mem_limit: '256m',
        cpus: 1,
        security_opt: ['no-new-privileges:true'],
        pids_limit: 100,
      });
    },
  );

  test('confines nginx, and mounts its files alone', () => {
    const { image, entrypoint, volumes, ...service } = compose.services.nginx;
    expect(image).toMatch(/^nginx:\d+\.\d+-alpine$/);
    expect(entrypoint).toEqual(['nginx', '-c', '/etc/nginx/animal-store/compose.conf']);
    expect(volumes).toEqual(['./deploy/nginx:/etc/nginx/animal-store:ro', '/tmp']);
    expect(service).toMatchObject({ user: 'nginx', read_only: true, cap_drop: ['ALL'], restart: 'unless-stopped' });
    expect(service.security_opt).toEqual(['no-new-privileges:true']);
  });
});

describe('nginx', () => {
  const [main, host, server] = ['nginx-main', 'nginx', 'nginx/server'].map((file) => read(`deploy/${file}.conf`));
  const workers = Number(/^worker_processes (\d+);/m.exec(main as string)?.[1]);

  test.each([
    ['nginx', '127.0.0.1:3000', 'animal_store_production', workers],
    ['nginx', '127.0.0.1:3100', 'animal_store_staging', workers],
    ['nginx/compose', `production:${imageSettings.PORT} resolve`, 'production', 1],
    ['nginx/compose', `staging:${imageSettings.PORT} resolve`, 'staging', 1],
    ['nginx/sidecar', `127.0.0.1:${imageSettings.PORT}`, 'server', 1],
  ])('%s.conf leads to %s, on fewer connections than the server takes', (file, address, name, processes) => {
    const found = ['reads', 'writes', 'pages'].map((kind) => {
      const text = read(`deploy/${file}.conf`);
      const upstream = `upstream ${name}_${kind} { server ${address} max_conns=(\\d+) max_fails=0; zone [^;]*; keepalive (\\d+);`;
      return (new RegExp(upstream).exec(text) ?? []).slice(1).map(Number);
    });
    expect(found).toEqual([
      [256, expect.any(Number)],
      [256, expect.any(Number)],
      [12, expect.any(Number)],
    ]);
    // What other workers keep is added to the slots.
    const most = found.reduce((sum, [slots = 0, kept = 0]) => sum + slots + (processes - 1) * kept, 0);
    expect(most).toBeLessThan(MAX_CONNECTIONS);
    expect(Number(read(`deploy/${file}.conf`).match(/worker_processes/g)?.length ?? 0)).toBe(0);
  });

  test('waits longer than the server, keeps connections for a shorter time, and takes larger bodies, in memory', () => {
    const numberOf = (name: string) => Number(new RegExp(`\\b${name} (\\d+)[sk];`).exec(`${host}${server}`)?.[1]);
    expect(numberOf('proxy_read_timeout') * 1000).toBeGreaterThan(limits.requestMs);
    // nginx's default.
    expect(`${host}${server}`).not.toContain('keepalive_timeout');
    expect(60_000).toBeLessThan(limits.keepAliveMs);
    expect(numberOf('client_max_body_size') * 1024).toBeGreaterThan(limits.bodyBytes);
    expect(numberOf('client_body_buffer_size')).toBe(numberOf('client_max_body_size'));
  });
});
