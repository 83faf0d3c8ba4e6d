/** Tests of what each PostgreSQL session sets, of statements past their deadline, and of commits without their standby. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import type postgres from 'postgres';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { openAlone } from '../../../src/store/postgres/open.ts';
import { createPools } from '../../../src/store/postgres/pool.ts';
import { readTarget } from '../../../src/store/postgres/url.ts';
import { startOwn } from '../../support/own-postgres.ts';
import { missingPgbouncer, startPgbouncer } from '../../support/pgbouncer.ts';
import { missingPostgres, startPair } from '../../support/postgres.ts';
import { launchCli, launchServer, runCli, startServer } from '../../support/process.ts';
import { clientOf, emptyStore, newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';

const now = () => new Date();
const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

beforeEach(({ skip }) => {
  if (missingPostgres) skip(missingPostgres);
});

/** The sessions of the stores on the database of `sql`. */
const sessionsOf = (sql: postgres.Sql) =>
  sql`SELECT pid, state, wait_event FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'animal-store' ORDER BY pid`;

describe('a session', () => {
  /** What a new session of a store on the database has set. */
  async function settingsOf(databaseUrl: string, of: 'server' | 'command') {
    const text = `SELECT ${[
      'synchronous_commit',
      'lock_timeout',
      'statement_timeout',
      'idle_in_transaction_session_timeout',
    ]
      .map((name) => `current_setting('${name}') AS ${name}`)
      .join()}`;
    if (of === 'command') {
      const { sql, destroy } = await openAlone(readTarget(databaseUrl), { now });
      const [row] = await sql.unsafe(text);
      destroy();
      return Object.values(row ?? {});
    }
    const target = readTarget(databaseUrl);
    const { config, destroy } = await openAlone(target, { now });
    destroy();
    const pools = createPools(config, target);
    const [row] = await pools.keyed.read((sql) => sql.unsafe(text));
    await pools.close();
    return Object.values(row ?? {});
  }

  test('has time-outs', async () => {
    const databaseUrl = await newDatabase();
    for (const of of ['command', 'server'] as const)
      expect(await settingsOf(databaseUrl, of)).toEqual(['on', '2s', '2500ms', '5s']);
  });

  test.for([
    ['off', 'on'],
    ['local', 'on'],
    ['remote_apply', 'remote_apply'],
  ])('turns synchronous_commit = %s into %s', async ([configured = '', expected]) => {
    const databaseUrl = await newDatabase();
    const name = new URL(databaseUrl).pathname.slice(1);
    await clientOf(databaseUrl).unsafe(`ALTER DATABASE ${name} SET synchronous_commit = ${configured}`);
    for (const of of ['server', 'command'] as const) expect((await settingsOf(databaseUrl, of))[0]).toBe(expected);
  });

  test('behind a pooler has the settings that its role carries; without them the store is not opened', async ({
    skip,
  }) => {
    if (missingPgbouncer) skip(missingPgbouncer);
    const databaseUrl = await newDatabase();
    const through = `${await startPgbouncer(databaseUrl, 2)}?prepare=false`;
    const name = new URL(databaseUrl).pathname.slice(1);
    const sentence =
      'is behind a pooler that drops the settings of sessions: run ALTER ROLE "app" SET idle_in_transaction_session_timeout = 5000; ALTER ROLE "app" SET lock_timeout = 2000; ALTER ROLE "app" SET statement_timeout = 2500.';
    await expect(open(through)).rejects.toThrow(sentence);
    for (const each of [
      'idle_in_transaction_session_timeout = 5000',
      'lock_timeout = 2000',
      'statement_timeout = 2500',
    ])
      await clientOf(databaseUrl).unsafe(`ALTER DATABASE ${name} SET ${each}`);
    const again = `${await startPgbouncer(databaseUrl, 2)}?prepare=false`;
    expect(await settingsOf(again, 'server')).toEqual(['on', '2s', '2500ms', '5s']);
    await (await open(again)).check();
    const weak = await newDatabase();
    await clientOf(weak).unsafe(`ALTER DATABASE ${new URL(weak).pathname.slice(1)} SET synchronous_commit = local`);
    await expect(open(`${await startPgbouncer(weak, 2)}?prepare=false`)).rejects.toThrow(
      'acknowledges commits before they are safe: synchronous_commit is local; it must be on or remote_apply.',
    );
  });
});

describe('a commit that does not wait for its synchronous standby', () => {
  /** The address of a pooler that passes on notices without the field R, their routine. */
  async function startWithoutRoutine(databaseUrl: string): Promise<string> {
    const { port } = new URL(databaseUrl);
    const pooler = net.createServer((near) => {
      const far = net.connect(Number(port), '127.0.0.1');
      for (const socket of [near, far]) socket.on('error', () => undefined);
      near.on('close', () => far.destroy()).pipe(far);
      far.on('close', () => near.destroy());
      // Clients ignore fields that they do not know.
      far.on('data', (bytes) =>
        near.write(Buffer.from(bytes.toString('latin1').replace('\0RSyncRep', '\0xSyncRep'), 'latin1')),
      );
    });
    await once(pooler.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => void pooler.close());
    return databaseUrl.replace(`:${port}/`, `:${(pooler.address() as net.AddressInfo).port}/`);
  }

  test.for<[what: string, through: (databaseUrl: string) => Promise<string>]>([
    ['the warning names its routine', (databaseUrl) => Promise.resolve(databaseUrl)],
    ['a pooler has removed that name', startWithoutRoutine],
  ])('is an unknown outcome: 503, although the pet is stored, if %s', async ([, through]) => {
    const { primary, standby, end } = await startPair();
    onTestFinished(end);
    const sql = clientOf(primary.url('postgres'));
    await sql`CREATE DATABASE animals`;
    const databaseUrl = primary.url('animals');
    const server = await startServer({ env: { DATABASE_URL: await through(databaseUrl) } });
    const key = await server.firstKey();
    expect((await server.call(key, 'POST', '/v1/pets', { name: 'first', categoryId: 1 })).status).toBe(201);
    await standby.kill();
    const adding = server.call(key, 'POST', '/v1/pets', { name: 'second', categoryId: 1 });
    const cancel = async () =>
      (await sql`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).length;
    await expect.poll(cancel, { interval: 10, timeout: 2000 }).toBe(1);
    const { status, headers } = await adding;
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    const names = await textRows(databaseUrl, 'SELECT name FROM pet ORDER BY id');
    expect(names).toEqual([{ name: 'first' }, { name: 'second' }]);
  });

  test('makes commands fail, also an import that is repeated: what it finds there could be lost', async () => {
    const { primary, standby, end } = await startPair();
    onTestFinished(end);
    const sql = clientOf(primary.url('postgres'));
    await sql`CREATE DATABASE animals`;
    const env = { DATABASE_URL: primary.url('animals') };
    expect(await runCli(['migrate'], { env })).toMatchObject({ code: 0 });
    await sql`CREATE DATABASE empty`;
    await standby.kill();
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, 'pets.jsonl'), '{"name":"Tabby","categoryId":1}\n');
    for (const [args, stderr] of [
      [['import', 'pets.jsonl'], /The store cannot be written \(.+standby\): .+ Repeat the import/],
      [['import', 'pets.jsonl'], /standby/],
      [['account', 'add', 'zoo'], /^animal-store: It is unknown whether this will last: .+standby\. Look at the list/],
    ] as const) {
      const command = launchCli([...args], { folder, env });
      const cancel = async () =>
        (await sql`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).length;
      await expect.poll(cancel, { interval: 20, timeout: 5000 }).toBe(1);
      expect(await command.end()).toMatchObject({ code: 1, stderr: expect.stringMatching(stderr) });
    }
    const migration = launchCli(['migrate'], { env: { DATABASE_URL: primary.url('empty') } });
    await migration.seen('stderr', /empty has been at work on the schema for 5 s: pg_stat_activity shows/);
    await migration.end('SIGKILL');
  });

  test('is told from a warning that a trigger raises', async () => {
    const databaseUrl = await newDatabase({ template: 'template_animals' });
    await clientOf(databaseUrl).unsafe(`
      CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'seen'; RETURN NULL; END $$;
      CREATE TRIGGER warn AFTER INSERT ON pet EXECUTE FUNCTION warn()`);
    const store = await open(databaseUrl);
    expect(await store.pets.add(biscuit)).toMatchObject({ outcome: 'added', id: 1n });
  });
});

test.for(['full_page_writes'])('%s = off is refused in production, and warned of elsewhere', async (setting) => {
  const server = await startOwn([`${setting} = off`, 'fsync = on'], () => undefined);
  const databaseUrl = server.url('postgres');
  const sentence = `${databaseUrl.replace('app@', '')} can lose or damage acknowledged data at a loss of power: ${setting} is off.`;
  await (await open(databaseUrl)).close();
  const production = launchServer({ env: { DATABASE_URL: databaseUrl, DEPLOYMENT: 'production' } });
  const { code, stderr } = await production.end();
  expect([code, stderr]).toEqual([1, `animal-store: DATABASE_URL: ${sentence}\n`]);
  const other = await startServer({ env: { DATABASE_URL: databaseUrl } });
  expect(other.stdout()).toContain(`DATABASE_URL: ${sentence}`);
  await other.end('SIGTERM');
});

test('a prepared statement is prepared again after a migration has changed its table', async () => {
  const databaseUrl = await emptyStore();
  const store = await open(`${databaseUrl}?connections=1`);
  await store.accounts.addAccount('owner');
  expect(await store.accounts.listKeys('owner')).toEqual([]);
  const sql = clientOf(databaseUrl);
  await sql`ALTER TABLE api_key ADD COLUMN later text`;
  onTestFinished(async () => void (await sql`ALTER TABLE api_key DROP COLUMN later`));
  expect(await store.accounts.listKeys('owner')).toEqual([]);
  expect((await sessionsOf(sql)).length).toBe(1);
});
