/** Tests of what each PostgreSQL session sets, of poolers that drop settings, and of commits without their standby. */
import { writeFileSync } from 'node:fs';
import type postgres from 'postgres';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sessionSettings } from '../../../src/store/postgres/connection.ts';
import { openPools } from '../../../src/store/postgres/open.ts';
import { readTarget } from '../../../src/store/postgres/url.ts';
import { startPair } from '../../support/postgres.ts';
import { launchCli, launchServer, runCli, startServer } from '../../support/process.ts';
import { clientOf, newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';
import { startOwn } from './own-postgres.ts';
import { missingPgbouncer, startPgbouncer } from './pgbouncer.ts';

describe('a session', () => {
  /** What a session on the database has set. */
  async function settingsOf(databaseUrl: string) {
    const names = ['synchronous_commit', ...Object.keys(sessionSettings)];
    const text = `SELECT ${names.map((name) => `current_setting('${name}') AS ${name}`)}, (SELECT string_agg(DISTINCT source, ',')
      FROM pg_settings WHERE name IN (${names.map((name) => `'${name}'`)})) AS sources`;
    const { pools } = await openPools(readTarget(databaseUrl), { now: () => new Date() });
    const [found] = await pools.keyed.read((sql) => sql.unsafe(text));
    await pools.close();
    return Object.values(found ?? {});
  }

  test.for([
    ['on', 'on'],
    ['local', 'on'],
    ['remote_apply', 'remote_apply'],
  ])('has settings of its own; synchronous_commit = %s becomes %s', async ([configured = '', commit]) => {
    const databaseUrl = await newDatabase({
      settings: { synchronous_commit: configured, client_min_messages: 'error', array_nulls: 'off' },
    });
    // What is changed later, while a server runs, has no effect on them.
    expect(await settingsOf(databaseUrl)).toEqual([commit, 'on', 'warning', '5s', '2s', 'off', '2500ms', 'client']);
  });

  test('behind a pooler has the settings that its role carries; without them the store is not opened', async ({
    skip,
  }) => {
    if (missingPgbouncer) skip(missingPgbouncer);
    const through = async (settings: Record<string, string | number>) =>
      `${await startPgbouncer(await newDatabase({ settings }), 2)}?prepare=false`;
    const carried = { ...sessionSettings, synchronous_commit: 'on' };
    const changes = Object.entries(carried).map(([name, value]) => `ALTER ROLE "app" SET ${name} = ${value}`);
    const sentence = `is behind a pooler that drops the settings of sessions: run ${changes.join('; ')}, and restart the pooler.`;
    await expect(open(await through({}))).rejects.toThrow(sentence);
    expect(await settingsOf(await through(carried))).toEqual('on on warning 5s 2s off 2500ms database'.split(' '));
    await (await open(await through({ ...carried, synchronous_commit: 'remote_apply' }))).close();
    // A change for the whole server, or its default, is not enough: it can come while servers run.
    for (const weak of [
      { synchronous_commit: 'local' },
      { synchronous_commit: 'DEFAULT' },
      { lock_timeout: 0 },
      { array_nulls: 'off' },
    ])
      await expect(open(await through({ ...carried, ...weak }))).rejects.toThrow(sentence);
  });
});

describe('a commit that does not wait for its synchronous standby', () => {
  const commit = (sql: postgres.Sql) => {
    const cancel = async () =>
      (await sql`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).length;
    return expect.poll(cancel, { interval: 10 }).toBe(1);
  };

  async function start() {
    const { primary, standby, end } = await startPair();
    onTestFinished(end);
    const sql = clientOf(primary.url('postgres'));
    await sql`CREATE DATABASE animals`;
    return { sql, databaseUrl: primary.url('animals'), standby };
  }

  test('is an unknown outcome: 503, although the pet is stored', async () => {
    const { sql, databaseUrl, standby } = await start();
    const server = await startServer({ env: { DATABASE_URL: databaseUrl } });
    const add = (name: string) => server.add({ name, categoryId: 1 });
    expect((await add('first')).status).toBe(201);
    await standby.kill();
    const adding = add('second');
    await commit(sql);
    const { status, headers } = await adding;
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    const names = await textRows(databaseUrl, 'SELECT name FROM pet ORDER BY id');
    expect(names).toEqual([{ name: 'first' }, { name: 'second' }]);
  });

  test('makes commands fail, also an import that is repeated: what it finds there could be lost', async () => {
    const { sql, databaseUrl, standby } = await start();
    const env = { DATABASE_URL: databaseUrl };
    expect(await runCli(['migrate'], { env })).toMatchObject({ code: 0 });
    await standby.kill();
    const folder = temporaryFolder();
    writeFileSync(`${folder}/pets.jsonl`, '{"name":"Tabby","categoryId":1}\n');
    for (const [args, stderr] of [
      [['import', 'pets.jsonl'], /The store cannot be written \(.+standby\): .+ To continue, repeat the import/],
      [['import', 'pets.jsonl'], /standby/],
      [['account', 'add', 'zoo'], /^animal-store: It is unknown whether this will last: .+standby\. Look at the list/],
    ] as const) {
      const command = launchCli([...args], { folder, env });
      await commit(sql);
      expect(await command.end()).toMatchObject({ code: 1, stderr: expect.stringMatching(stderr) });
    }
  });
});

test('full_page_writes = off is refused in production', async () => {
  const databaseUrl = (await startOwn(['full_page_writes = off', 'fsync = on'])).url('postgres');
  const sentence = `${databaseUrl.replace('app@', '')} can lose or damage acknowledged data at a loss of power: full_page_writes is off.`;
  await (await open(databaseUrl)).close();
  const production = launchServer({ env: { DATABASE_URL: databaseUrl, DEPLOYMENT: 'production' } });
  expect(await production.end()).toMatchObject({ code: 1, stderr: `animal-store: DATABASE_URL: ${sentence}\n` });
});
