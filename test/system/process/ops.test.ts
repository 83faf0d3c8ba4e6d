/** Tests of the ops port, and of the shutdown with a lame-duck time. */
import { renameSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openSocket, type Server, startServer } from '../../support/process.ts';
import { converse } from '../../support/raw.ts';

const statusOf = async (server: Server, target: string) => (await fetch(server.opsUrl() + target)).status;

test('/metrics reports requests by method, route and status, the cache and commits', async () => {
  const server = await startServer();
  for (let count = 0; count < 5; count++) await server.add();
  for (let count = 0; count < 4; count++) await server.get('/v1/pets/1');
  await server.call(null, 'GET', '/v1/pets');
  await server.get('/nowhere');
  await converse(server.port, ['no request\r\n\r\n']);
  /** Series → value. */
  const metrics = async () => {
    const text = await server.metrics();
    const series = [...text.matchAll(/^([^#].*) (\S+)$/gm)];
    return Object.fromEntries(series.map(([, name, value]) => [name, Number(value)]));
  };
  const requests = (method: string, route: string, status: number) =>
    `http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"}`;
  await expect.poll(metrics).toMatchObject({
    [requests('POST', '/v1/pets', 201)]: 5,
    [requests('GET', '/v1/pets/:petId', 200)]: 4,
    [requests('GET', '/v1/pets', 401)]: 1,
    [requests('none', 'none', 404)]: 1,
    [requests('none', 'none', 400)]: 1,
    animal_store_cache_misses_total: 2,
    animal_store_cache_hits_total: 2,
    // Five pets, and the account and key that the first start adds.
    animal_store_commit_writes_sum: 7,
    animal_store_waiting_writes: 0,
    'animal_store_limited_requests_total{limit="key"}': 0,
  });
  const found = await metrics();
  for (const name of ['animal_store_wal_bytes', 'animal_store_disk_bytes', 'nodejs_eventloop_lag_p99_seconds'])
    expect(found[name], name).toBeGreaterThan(0);
});

test('an idle server says that its store has gone, and that it is back: in the log, in /readyz, in the metrics', async () => {
  const server = await startServer();
  const [file, elsewhere] = ['animal-store.db', 'elsewhere.db'].map((name) => `${server.folder}/data/${name}`) as [
    string,
    string,
  ];
  renameSync(file, elsewhere);
  const reason = './data/animal-store.db was removed or replaced while it was open';
  // Nobody asks until then.
  await server.seen('stdout', /"level":50,.*"msg":"not ready"/);
  for (let count = 0; count < 3; count++) expect(await statusOf(server, '/readyz')).toBe(503);
  expect(await (await fetch(`${server.opsUrl()}/readyz`)).json()).toMatchObject({
    message: `Not ready: SQLITE_READONLY_DBMOVED: ${reason}.`,
  });
  expect(await server.metrics()).toMatch(/^animal_store_ready 0$/m);
  renameSync(elsewhere, file);
  await server.seen('stdout', /"level":30,.*"seconds":\d+,"msg":"ready again"/);
  expect(await statusOf(server, '/readyz')).toBe(200);
  expect(await server.metrics()).toMatch(/^animal_store_ready 1$/m);
  expect(server.stdout().match(/"not ready"/g)).toHaveLength(1);
  await server.end('SIGTERM');
});

test('without a free file descriptor, with which connections close as they open, the log says so', async () => {
  const server = await startServer({ under: ['prlimit', '--nofile=100'] });
  const sockets = await Promise.all(Array.from(Array(100), () => openSocket(server.port)));
  await server.seen('stdout', /"reason":"EMFILE: [^"]+","msg":"not ready"/);
  for (const socket of sockets) socket.destroy();
  await server.seen('stdout', /"msg":"ready again"/);
  await server.end('SIGTERM');
});

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'after %s /readyz fails at once, responses close until LAME_DUCK_MS is over, and half a request delays nothing',
  async (signal) => {
    // Long enough for the requests below on a busy machine.
    const server = await startServer({ env: { LAME_DUCK_MS: '2500' } });
    const socket = await openSocket(Number(new URL(server.opsUrl()).port));
    socket.write('GET /livez HTTP/1.1\r\n');
    const begun = performance.now();
    const ended = server.end(signal);
    await server.seen('stdout', /"msg":"stopping"/);
    expect([await statusOf(server, '/readyz'), await statusOf(server, '/livez')]).toEqual([503, 200]);
    const { status, headers } = await server.add();
    expect([status, headers.get('connection')]).toEqual([201, 'close']);
    expect((await server.get('/v1/pets')).headers.get('connection')).toBe('close');
    // At the shutdown deadline the process would exit with 1.
    expect((await ended).code).toBe(0);
    expect(performance.now() - begun).toBeGreaterThan(2490);
  },
);
