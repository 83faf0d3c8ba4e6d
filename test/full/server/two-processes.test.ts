/** Tests two processes with ports of their own on one SQLite file, as docs/scaling.md describes them: directly, and behind nginx. */
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { sideBySide } from '../../support/client.ts';
import { name, startNginx } from '../../support/nginx.ts';
import { type Server, startServer } from '../../support/process.ts';

const tabby = { name: 'Tabby', categoryId: 1 };

/** Starts both at once: one of them makes the store, and one prints the first key. */
async function startTwo(env: Record<string, string> = {}) {
  const folder = temporaryFolder();
  const [first, second] = await Promise.all([startServer({ env, folder }), startServer({ env, folder })]);
  return { first, second, key: await Promise.any([first.firstKey(), second.firstKey()]) };
}

/** The ids of all animals, as `server` lists them. */
async function idsOf(server: Server, key: string): Promise<number[]> {
  const ids: number[] = [];
  let next: string | undefined = '/v1/pets?limit=100';
  while (next) {
    const { json, headers } = await server.call(key, 'GET', next);
    ids.push(...(json as { id: number }[]).map(({ id }) => id));
    next = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
  }
  return ids;
}

test('creates on both at once are stored once, and each reads at once what the other has acknowledged', async () => {
  const { first, second, key } = await startTwo();
  await sideBySide(16, async () => {
    for (let round = 0; round < 10; round++) {
      const retry = { 'idempotency-key': crypto.randomUUID() };
      const add = (server: Server) => server.call(key, 'POST', '/v1/pets', tabby, retry);
      const [one, other] = await Promise.all([add(first), add(second)]);
      expect([one.status, other.status, other.json]).toEqual([201, 201, one.json]);
      const [writer, reader] = round % 2 === 0 ? [first, second] : [second, first];
      const { id } = (await writer.call(key, 'POST', '/v1/pets', tabby)).json;
      expect((await reader.call(key, 'GET', `/v1/pets/${id}`)).status).toBe(200);
    }
  });
  const ids = await idsOf(first, key);
  expect([ids.length, new Set(ids).size]).toEqual([320, 320]);
  expect(await idsOf(second, key)).toEqual(ids);
  const end = await first.end('SIGTERM');
  expect((await second.call(key, 'POST', '/v1/pets', tabby)).status).toBe(201);
  const ends = [end, await second.end('SIGTERM')];
  expect(ends.map(({ code }) => code)).toEqual([0, 0]);
  expect(new Set(ends.flatMap(({ stderr }) => stderr.match(/ast_\w+/g) ?? []))).toEqual(new Set([key]));
}, 60_000);

test('behind nginx both get requests, and while one is down the other serves all', async ({ skip }) => {
  const missing = ['nginx', 'openssl'].filter((tool) => spawnSync(tool, ['-h']).error);
  if (missing.length > 0) skip(`not installed: ${missing.join(', ')}`);
  const { first, second, key } = await startTwo({ BASE_URL: `https://${name}/v1`, TRUST_PROXY: '127.0.0.1' });
  const { call } = await startNginx(first.port, { second: second.port });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const add = async () => (await call('POST', '/v1/pets', headers, JSON.stringify(tabby))).status;
  const read = () => call('GET', '/v1/pets?limit=100', headers);
  for (let count = 1; count <= 10; count++) {
    expect(await add()).toBe(201);
    for (let reader = 0; reader < 2; reader++) expect(JSON.parse((await read()).body)).toHaveLength(count);
  }
  // Before the kill, which loses the lines that are not yet written.
  const added = '"method":"POST","route":"/v1/pets","status":201';
  for (const { stdout } of [first, second]) await expect.poll(stdout, { timeout: 10_000 }).toContain(added);
  process.kill(first.pid, 'SIGSTOP');
  const adding = Promise.all(Array.from({ length: 4 }, add));
  await sleep(500);
  const reading = Promise.all(Array.from({ length: 4 }, read));
  await sleep(500);
  await first.end('SIGKILL');
  const statuses = await adding;
  expect(new Set(statuses)).toEqual(new Set([201, 503]));
  for (const { status } of await reading) expect(status).toBe(200);
  for (let count = 0; count < 10; count++) expect(await add()).toBe(201);
  expect(await idsOf(second, key)).toHaveLength(20 + statuses.filter((status) => status === 201).length);
}, 60_000);
