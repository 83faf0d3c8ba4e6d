/** Tests that the Dockerfile, compose.yaml and nginx.conf agree with the server's settings, ports and timeouts. */
import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import {
  constant,
  deployments,
  dockerfile,
  expectSettings,
  imageSettings,
  pairs,
  read,
  stopMs,
} from './support/deployment.ts';
import { nodeOptions, projectFolder } from './support/project.ts';

const { version, license, description } = JSON.parse(read('package.json'));
const compose = parse(read('compose.yaml'), { merge: true });

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

  test('has labels with the version and the licence of package.json', () => {
    expect(pairs('LABEL')).toMatchObject({
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.licenses': license,
      'org.opencontainers.image.description': description,
    });
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

test('nginx has longer timeouts and higher limits than the server, and closes idle connections before the server does', () => {
  const site = read('deploy/nginx.conf');
  const unit: Record<string, number> = { s: 1000, k: 1024, '': 1 };
  const directive = (name: string) => {
    const [, count, suffix = ''] = new RegExp(`^ *${name} (?:\\d+ )?(\\d+)([sk]?);`, 'm').exec(site) ?? [];
    return Number(count) * (unit[suffix] ?? Number.NaN);
  };
  const requestTimeoutMs = constant('src/app.ts', 'requestTimeoutMs');
  expect(directive('proxy_read_timeout')).toBeGreaterThan(requestTimeoutMs);
  expect(directive('proxy_send_timeout')).toBeGreaterThan(requestTimeoutMs);
  expect(directive('keepalive_timeout')).toBeLessThan(constant('src/app.ts', 'keepAliveTimeoutMs'));
  expect(directive('client_max_body_size')).toBeGreaterThan(constant('src/app.ts', 'bodyLimitBytes'));
  expect(directive('client_body_buffer_size')).toBe(directive('client_max_body_size'));
  expect(directive('large_client_header_buffers')).toBeGreaterThan(2 * 8000);
  for (const name of deployments)
    expect(site).toContain(
      `upstream animal_store_${name} {\n  server ${compose.services[name].ports[0].replace(/:\d+$/, '')};`,
    );
});
