/** Tests several processes on one port: they share the store, one that dies is replaced, and they end together. */
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { expect, test, vi } from 'vitest';
import { launchServer, type Server, startServer } from '../../support/process.ts';

const tabby = { name: 'Tabby', categoryId: 1 };

const workersOf = (server: Server) =>
  execFileSync('pgrep', ['-P', String(server.pid)], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map(Number);

async function startTwo() {
  const server = await startServer({ env: { WORKERS: '2' } });
  const key = await server.firstKey();
  await vi.waitFor(() => expect(server.stdout().match(/Server listening/g)).toHaveLength(2), { timeout: 10_000 });
  return { server, key };
}

/** A call on a connection of its own, so that each process has its turn. */
const callAnew = ({ url }: Server, key: string, method: string, body?: object) => {
  return request(`${url}/v1/pets${method === 'GET' ? '?limit=100' : ''}`, {
    method: method as 'GET',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
    body: body ? JSON.stringify(body) : null,
  }).then(async ({ statusCode, body: answer }) => ({ status: statusCode, json: (await answer.json()) as object[] }));
};

test('each reads at once what the other has acknowledged', async () => {
  const { server, key } = await startTwo();
  for (let count = 1; count <= 20; count++) {
    expect((await callAnew(server, key, 'POST', tabby)).status).toBe(201);
    for (let reader = 0; reader < 4; reader++) expect((await callAnew(server, key, 'GET')).json).toHaveLength(count);
  }
  const served = () => new Set(server.stdout().match(/"pid":\d+(?=[^\n]*"msg":"request")/g));
  await vi.waitFor(() => expect(served().size).toBe(2));
  expect(await server.end('SIGTERM')).toMatchObject({ code: 0 });
}, 60_000);

test('one that is killed is replaced, and the others go on', async () => {
  const { server, key } = await startTwo();
  const [victim = 0] = workersOf(server);
  process.kill(victim, 'SIGKILL');
  await server.seen('stdout', /a worker exited; starting another/);
  for (let count = 0; count < 10; count++) expect((await callAnew(server, key, 'GET')).status).toBe(200);
  await vi.waitFor(() => expect(server.stdout().match(/Server listening/g)).toHaveLength(3), { timeout: 10_000 });
  expect(workersOf(server)).not.toContain(victim);
  expect(workersOf(server)).toHaveLength(2);
  expect(await server.end('SIGINT')).toMatchObject({ code: 0 });
}, 60_000);

test('the last lines of one that crashes are written', async () => {
  const script = "process.on('SIGUSR2', () => { throw new Error('planted'); })";
  const preload = `--import=data:text/javascript,${encodeURIComponent(script)}`;
  const server = await startServer({ env: { WORKERS: '2', NODE_OPTIONS: preload } });
  const [victim = 0] = workersOf(server);
  process.kill(victim, 'SIGUSR2');
  await server.seen('stdout', new RegExp(`"pid":${victim}[^\\n]*planted[^\\n]*"uncaught"`));
  await server.seen('stdout', /a worker exited; starting another/);
  expect(await server.end('SIGTERM')).toMatchObject({ code: 0 });
}, 60_000);

test('one that hangs and is killed takes no new connection with it', async () => {
  const { server, key } = await startTwo();
  const [victim = 0] = workersOf(server);
  process.kill(victim, 'SIGSTOP');
  const calls = Array.from({ length: 40 }, () => callAnew(server, key, 'GET'));
  await Promise.race([Promise.all(calls), sleep(1000)]);
  process.kill(victim, 'SIGKILL');
  for (const { status } of await Promise.all(calls)) expect(status).toBe(200);
  await server.seen('stdout', /a worker exited; starting another/);
  expect(await server.end('SIGTERM')).toMatchObject({ code: 0 });
}, 60_000);

test.for([
  ['1', '2'],
  ['2', '1'],
  ['2', '2'],
])('exit 1 with one sentence where the port is taken, WORKERS %s and %s', async ([first, second]) => {
  const other = await startServer({ env: { WORKERS: first } });
  const { code, stderr } = await launchServer({ env: { WORKERS: second, PORT: String(other.port) } }).end();
  expect([code, stderr.trim().split('\n')]).toEqual([1, [expect.stringContaining(`PORT ${other.port}`)]]);
});

test('exit 1 where one did not come to its end', async () => {
  const server = await startServer({ env: { WORKERS: '2', LAME_DUCK_MS: '1000' } });
  await vi.waitFor(() => expect(server.stdout().match(/Server listening/g)).toHaveLength(2), { timeout: 10_000 });
  const [victim = 0] = workersOf(server);
  const end = server.end('SIGTERM');
  await server.seen('stdout', /"stopping"/);
  process.kill(victim, 'SIGKILL');
  expect(await end).toMatchObject({ code: 1 });
}, 60_000);
