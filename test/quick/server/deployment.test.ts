import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../../../src/config.ts';
import { limits } from '../../../src/core/limits.ts';
import { deployments, dockerfile, expectSettings, imageSettings, stopMs } from '../../support/deployment.ts';
import { nodeOptions, read } from '../../support/project.ts';

const compose = parse(read('compose.yaml'), { merge: true });
const { MAX_CONNECTIONS } = readConfig({});
const command = ['node', ...nodeOptions, 'src/main.ts'];

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
    expect(value('MemoryMax').toLowerCase()).toBe(compose.services.production.mem_limit);
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

  test.each(deployments)(
    'forwards to the port of %s in Compose, on fewer connections than the server takes',
    (name) => {
      const upstream = new RegExp(`upstream animal_store_${name} {[^}]* server (\\S+) max_conns=(\\d+);`);
      const [, server, most] = upstream.exec(files) ?? [];
      expect(`${server}:3000`).toBe(compose.services[name].ports[0]);
      expect(Number(most)).toBeLessThan(MAX_CONNECTIONS);
    },
  );

  test('waits longer than the server, keeps connections for a shorter time, and takes larger bodies', () => {
    const numberOf = (name: string) => Number(new RegExp(`\\b${name} (\\d+)[sk];`).exec(files)?.[1]);
    expect(numberOf('proxy_read_timeout') * 1000).toBeGreaterThan(limits.request);
    expect(numberOf('keepalive_timeout') * 1000).toBeLessThan(limits.keepAlive);
    expect(numberOf('client_max_body_size') * 1024).toBeGreaterThan(limits.bodyBytes);
  });
});
