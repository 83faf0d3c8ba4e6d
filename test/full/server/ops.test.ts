/** Tests of the ops port, and of the shutdown with a lame-duck time. */
import { once } from 'node:events';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { type Server, startServer } from '../../support/process.ts';
import { converse } from '../../support/raw.ts';
import { mountSmallDisk, noDisk } from '../../support/small-disk.ts';

const tabby = { name: 'Tabby', categoryId: 1 };

async function ask(server: Server, target: string): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(server.opsUrl() + target);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** The value of `series` in /metrics; NaN if there is none. */
async function metric(server: Server, series: string): Promise<number> {
  const { text } = await ask(server, '/metrics');
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return Number(line?.split(' ').at(-1));
}

describe('the ops port', () => {
  test('reports requests by method, route and status, the cache, commits, and deprecated calls by key', async () => {
    const server = await startServer();
    const key = await server.firstKey();
    const begun = performance.now();
    for (let count = 0; count < 5; count++) await server.call(key, 'POST', '/v1/pets', tabby);
    for (let count = 0; count < 4; count++) await server.call(key, 'GET', '/v1/pets/1');
    await server.call(null, 'GET', '/v1/pets');
    await server.call(key, 'GET', '/nowhere');
    await converse(server.port, ['no request\r\n\r\n']);
    const count = (labels: string) => metric(server, `http_request_duration_seconds_count{${labels}}`);
    await expect.poll(() => count('method="POST",route="/v1/pets",status="201"'), { timeout: 10_000 }).toBe(5);
    expect(await count('method="GET",route="/v1/pets/:petId",status="200"')).toBe(4);
    expect(await count('method="GET",route="/v1/pets",status="401"')).toBe(1);
    expect(await count('method="GET",route="none",status="404"')).toBe(1);
    expect(await count('method="none",route="none",status="400"')).toBe(1);
    const seconds = await metric(
      server,
      'http_request_duration_seconds_sum{method="POST",route="/v1/pets",status="201"}',
    );
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThan((performance.now() - begun) / 1000);
    const buckets = async (name: string) => {
      const { text } = await ask(server, '/metrics');
      const found = [...text.matchAll(new RegExp(`^${name}_bucket\\{le="([\\d.]+)"`, 'gm'))].map(([, le]) =>
        Number(le),
      );
      return [...new Set(found)];
    };
    expect(await buckets('http_request_duration_seconds')).toEqual([
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]);
    expect(await buckets('animal_store_commit_writes')).toEqual([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
    for (const limit of ['key', 'refusals', 'in_flight', 'connections', 'event_loop']) {
      expect(await metric(server, `animal_store_limited_requests_total{limit="${limit}"}`), limit).toBe(0);
    }
    expect(await metric(server, 'animal_store_cache_misses_total')).toBe(2);
    expect(await metric(server, 'animal_store_cache_hits_total')).toBe(2);
    // Five pets, and the account and key that the first start adds.
    expect(await metric(server, 'animal_store_commit_writes_sum')).toBe(7);
    expect(await metric(server, 'animal_store_last_commit_timestamp_seconds')).toBeCloseTo(Date.now() / 1000, -2);
    expect(await metric(server, 'animal_store_last_failed_write_timestamp_seconds')).toBe(0);
    expect(await metric(server, 'animal_store_waiting_writes')).toBe(0);
    expect(await metric(server, 'animal_store_wal_bytes')).toBeGreaterThan(0);
    expect(await metric(server, 'nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0);
    await server.end('SIGTERM');
  });

  test('stays ready while no write succeeds, and tells in the metrics that none does, and why', async ({ skip }) => {
    const folder = temporaryFolder();
    if (!mountSmallDisk(path.join(folder, 'data'), 4096)) skip(noDisk);
    const server = await startServer({ folder });
    const key = await server.firstKey();
    const failing = async () =>
      (await metric(server, 'animal_store_last_failed_write_timestamp_seconds')) >
      (await metric(server, 'animal_store_last_commit_timestamp_seconds'));
    expect(await failing()).toBe(false);
    const { bavail, bsize } = statfsSync(path.join(folder, 'data'));
    expect(await metric(server, 'animal_store_disk_available_bytes')).toBe(bavail * bsize);
    expect(await metric(server, 'animal_store_disk_bytes')).toBe(4096 * 1024);
    const filler = path.join(folder, 'data/filler');
    expect(() => writeFileSync(filler, Buffer.alloc(8192 * 1024))).toThrow('ENOSPC');
    for (let count = 0; count < 3; count++)
      expect((await server.call(key, 'POST', '/v1/pets', tabby)).status).toBe(503);
    expect((await server.call(key, 'GET', '/v1/pets')).status).toBe(200);
    expect((await ask(server, '/readyz')).status).toBe(200);
    expect(await metric(server, 'animal_store_failed_writes_total{reason="disk_full"}')).toBe(3);
    expect(await metric(server, 'animal_store_failed_writes_total{reason="locked"}')).toBe(0);
    expect(await metric(server, 'animal_store_disk_available_bytes')).toBe(0);
    expect(await failing()).toBe(true);
    rmSync(filler);
    expect((await server.call(key, 'POST', '/v1/pets', tabby)).status).toBe(201);
    expect(await failing()).toBe(false);
  });
});

describe('the shutdown', () => {
  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'after %s fails /readyz at once, sends Connection: close until LAME_DUCK_MS is over, and exits with 0',
    async (signal) => {
      // Long enough for the requests below on a busy machine.
      const server = await startServer({ env: { LAME_DUCK_MS: '2500' } });
      const key = await server.firstKey();
      const begun = performance.now();
      const ended = server.end(signal);
      await server.seen('stdout', /"msg":"stopping"/);
      expect((await ask(server, '/readyz')).status).toBe(503);
      expect((await ask(server, '/livez')).status).toBe(200);
      const { status, headers } = await server.call(key, 'POST', '/v1/pets', tabby);
      expect([status, headers.get('connection')]).toEqual([201, 'close']);
      expect((await server.call(key, 'GET', '/v1/pets')).headers.get('connection')).toBe('close');
      expect((await ended).code).toBe(0);
      expect(performance.now() - begun).toBeGreaterThan(2490);
    },
  );

  test('is not delayed by half a request on the ops port', async () => {
    const server = await startServer();
    const socket = connect(Number(new URL(server.opsUrl()).port), '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    await once(socket, 'connect');
    socket.on('error', () => undefined).write('GET /livez HTTP/1.1\r\n');
    expect((await ask(server, '/livez')).status).toBe(200);
    // At the shutdown deadline the process would exit with 1.
    expect((await server.end('SIGTERM')).code).toBe(0);
  });
});
