/** Tests that two servers on one store read what the other has written, and store creates on both once. */
import { Pool } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { walk } from '../../support/links.ts';
import { startServer, tabby } from '../../support/process.ts';
import { emptyStore, engines } from '../../support/store.ts';
import { tier } from '../../support/tier.ts';

test.each(engines)('on %s, two servers on one store each see what the other has acknowledged', async (engine) => {
  const env = { DATABASE_URL: await emptyStore(engine) };
  // One of them makes the store, and one prints the first key.
  const [writer, reader] = await Promise.all([startServer({ env }), startServer({ env })]);
  const key = await Promise.any([writer.firstKey(), reader.firstKey()]);
  // Keeps the event loop busy, so that several reads share a statement.
  const pool = new Pool(reader.url, { connections: 20, pipelining: 1 });
  onTestFinished(() => pool.destroy());
  const headers = { authorization: `Bearer ${key}` };
  const after = (id: number) => (id === 0 ? '' : `&cursor=${Buffer.from(`after:${id}`).toString('base64url')}`);
  let begin = 0;
  /** The last page: all read it again and again, so it is kept, and each addition changes it. */
  const lastPage = () => `/v1/pets?limit=100${after(begin)}`;
  let done = false;
  const load = Array.from(Array(40), async () => {
    while (!done) await pool.request({ method: 'GET', path: lastPage(), headers }).then(({ body }) => body.dump());
  });
  // On PostgreSQL fewer do not find a state that is read a turn too early.
  const rounds = tier(engine === 'SQLite' ? 25 : 400, 3000);
  // A busy machine must not turn it into a time-out.
  const until = performance.now() + tier(30_000, 600_000);
  let added = 0;
  await Promise.all(
    Array.from(Array(4), async () => {
      for (let round = 0; round < rounds && (performance.now() < until || added <= 40); round++) {
        const retry = { 'idempotency-key': crypto.randomUUID() };
        const adders = round % 8 === 0 ? [writer, reader] : [writer];
        const answers = await Promise.all(adders.map(({ call }) => call(key, 'POST', '/v1/pets', tabby, retry)));
        const { json } = answers[0] as (typeof answers)[0];
        const { id } = json;
        expect(answers.map((answer) => [answer.status, answer.json])).toEqual(adders.map(() => [201, json]));
        added += 1;
        expect((await reader.call(key, 'GET', lastPage())).json).toContainEqual(json);
        expect((await reader.call(key, 'GET', `/v1/pets/${id}`)).status).toBe(200);
        expect((await reader.call(key, 'GET', `/v1/pets?limit=1${after(id - 1)}`)).json).toMatchObject([{ id }]);
        if (id - begin > 50) begin = id - 20;
      }
    }),
  );
  done = true;
  await Promise.all(load);
  expect(added).toBeGreaterThan(40);
  const ids = (await walk(reader, key)).ids;
  expect([ids.length, ids]).toEqual([added, (await walk(writer, key)).ids]);
  expect((await writer.end('SIGTERM')).code).toBe(0);
  expect((await reader.call(key, 'POST', '/v1/pets', tabby)).status).toBe(201);
  const keys = [writer, reader].flatMap((server) => server.stderr().match(/ast_\w+/g) ?? []);
  expect([...new Set(keys)]).toEqual([key]);
});
