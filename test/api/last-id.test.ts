/** Tests of the last ids of animals: when all are given, creates get 503, and everything else goes on. */
import { expect, test } from 'vitest';
import { startApp } from '../support/app.ts';
import { emptyStore, engine, open, runSql } from '../support/store.ts';
import { addAccount } from '../support/store-file.ts';

const last = Number.MAX_SAFE_INTEGER;

/** The last id that was given, which may be above those of all animals. */
const setLast = (id: number | string) =>
  engine === 'SQLite'
    ? `INSERT INTO sqlite_sequence (name, seq) VALUES ('pet', ${id})`
    : `UPDATE pet_id SET last_id = ${id}`;

test.each<[what: string, sql: string, left: number, reason?: string]>([
  ['', setLast(last - 2), 2],
  [
    ', of which an animal has the last but one',
    `INSERT INTO pet (id, name, category_id, status) VALUES (${last - 1}, 'x', 1, 'sold')`,
    1,
  ],
  [', which was set beyond them', setLast('9223372036854775806'), 0],
  // SQLITE_FULL (https://sqlite.org/autoinc.html).
  [', which was set to the last of SQLite', setLast('9223372036854775807'), 0, 'disk_full'],
])(
  'after the last id%s, creates get 503, their log lines say why, and reads and replays go on',
  async (_, sql, left, reason = 'other') => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    const key = await addAccount(store, 'zoo');
    await runSql(databaseUrl, sql);
    const { call, get, logged } = await startApp({ store });
    const create = (name: string) =>
      call('POST', '/v1/pets', { key, body: { name, categoryId: 1 }, headers: { 'idempotency-key': name } });
    const names = ['one', 'two'].slice(0, left);
    for (const [index, name] of names.entries())
      expect(await create(name)).toMatchObject({ status: 201, json: { id: last - left + 1 + index } });
    const refused = {
      status: 503,
      headers: { 'retry-after': '1' },
      json: { code: 'service_unavailable', message: expect.stringContaining('cannot answer right now') },
    };
    expect(await create('a')).toMatchObject(refused);
    for (const answer of await Promise.all(['b', 'c', 'd'].map(create))) expect(answer).toMatchObject(refused);
    for (const line of logged('"level":50'))
      expect(JSON.stringify(line)).toMatch(/CHECK constraint failed: id |database or disk is full|no id is left/);
    // On PostgreSQL the batch is committed: only the additions without an id fail.
    expect(store.measure()).toMatchObject({ failedWrites: { [reason]: engine === 'SQLite' ? 4 : 0 } });
    for (const name of names) expect((await create(name)).status).toBe(201);
    const page = (await get('/v1/pets?limit=100', { key })).json as { name: string }[];
    expect(page.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
    expect((await get(`/v1/pets/${last}`, { key })).status).toBe(left === 0 ? 404 : 200);
    expect((await call('POST', '/quickstart/messages', { key, body: { message: 'Hello' } })).status).toBe(202);
    await store.check();
  },
);
