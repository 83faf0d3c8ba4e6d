/** Tests two processes with ports of their own on one SQLite file, as docs/scaling.md describes them. */
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { sideBySide } from '../../support/client.ts';
import { walk } from '../../support/links.ts';
import { type Server, startServer, tabby } from '../../support/process.ts';

test('creates on both are stored once', async () => {
  const folder = temporaryFolder();
  // One of them makes the store, and one prints the first key.
  const [first, second] = await Promise.all([startServer({ folder }), startServer({ folder })]);
  const key = await Promise.any([first.firstKey(), second.firstKey()]);
  await sideBySide(16, async () => {
    for (let round = 0; round < 10; round++) {
      const retry = { 'idempotency-key': crypto.randomUUID() };
      const add = (server: Server) => server.call(key, 'POST', '/v1/pets', tabby, retry);
      const [one, other] = await Promise.all([add(first), add(second)]);
      expect([one.status, other.status, other.json]).toEqual([201, 201, one.json]);
    }
  });
  const { ids } = await walk(first, key);
  expect([ids.length, new Set(ids).size]).toEqual([160, 160]);
  expect((await walk(second, key)).ids).toEqual(ids);
  const end = await first.end('SIGTERM');
  expect((await second.call(key, 'POST', '/v1/pets', tabby)).status).toBe(201);
  const ends = [end, await second.end('SIGTERM')];
  expect(ends.map(({ code }) => code)).toEqual([0, 0]);
  expect(new Set(ends.flatMap(({ stderr }) => stderr.match(/ast_\w+/g) ?? []))).toEqual(new Set([key]));
});
