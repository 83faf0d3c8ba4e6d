/** Tests of opening a PostgreSQL database: what it waits for, what it refuses, and how its schema is migrated beside others. */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { findPort } from '../../support/known-port.ts';
import { launchCli, launchServer } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, emptyStore, newDatabase, newStore, open, textRows, waitingForLocks } from '../../support/store.ts';
import { startOwn } from './own-postgres.ts';

const migrations = fs.readdirSync(`${projectFolder}migrations/postgres`).sort();

describe('the schema', () => {
  test('is created once by six processes that start at once', async () => {
    const databaseUrl = await newDatabase();
    const env = { DATABASE_URL: databaseUrl };
    const exits = await Promise.all(Array.from(Array(6), () => launchCli(['migrate'], { env }).end()));
    const outputs = exits.map(({ code, stdout }) => `${code} ${stdout}`).sort();
    expect(outputs).toEqual([
      `0 Applied ${migrations.join(', ')}.\n`,
      ...Array(5).fill('0 The store is up to date.\n'),
    ]);
    expect(await textRows(databaseUrl, 'SELECT count(*) FROM pet_id')).toEqual([{ count: '1' }]);
  });

  test.for(['42P07', '40P01'])('is tried again if another process creates it at the same moment: %s', async (code) => {
    const databaseUrl = await newDatabase();
    await clientOf(databaseUrl).unsafe(`
      CREATE SEQUENCE tries;
      CREATE FUNCTION meet() RETURNS event_trigger LANGUAGE plpgsql AS $$
      BEGIN IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'others' USING ERRCODE = '${code}'; END IF; END $$;
      CREATE EVENT TRIGGER meet ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION meet()`);
    await (await open(databaseUrl)).check();
  });

  test('is not created in production: the error names the command to run', async () => {
    const databaseUrl = await newDatabase();
    const { code, stderr } = await launchServer({ env: { DATABASE_URL: databaseUrl, DEPLOYMENT: 'production' } }).end();
    const sentence = `has schema version 0, and this release needs ${migrations.length}: run animal-store migrate.`;
    expect([code, stderr]).toEqual([1, `animal-store: DATABASE_URL: ${databaseUrl.replace('app@', '')} ${sentence}\n`]);
    expect(await textRows(databaseUrl, `SELECT FROM pg_tables WHERE schemaname = 'public'`)).toEqual([]);
  });

  test('is not made again in a schema that has come first since', async () => {
    const databaseUrl = await newStore();
    const sql = clientOf(databaseUrl);
    await sql`CREATE SCHEMA app`;
    await (await open(databaseUrl)).close();
    await sql`DELETE FROM additive_migration`;
    await expect(open(databaseUrl)).rejects.toThrow(
      'has its tables in the schema public, and new ones would be made in app: put public first in the search_path of the role.',
    );
    expect(await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'app'`).toEqual([]);
  });

  test('does not change the tables of another application', async () => {
    const databaseUrl = await newDatabase();
    const sql = clientOf(databaseUrl);
    await sql`CREATE TABLE account (theirs text)`;
    await expect(open(databaseUrl)).rejects.toThrow('cannot be opened: relation "account" already exists.');
    expect(await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`).toEqual([{ tablename: 'account' }]);
  });

  test('is not changed while a long transaction uses a table: servers do not wait behind it', async () => {
    const databaseUrl = await newDatabase();
    const sql = clientOf(databaseUrl);
    const columns = '(version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)';
    for (const table of ['migration', 'additive_migration']) await sql.unsafe(`CREATE TABLE ${table} ${columns}`);
    await sql.unsafe(read('migrations/postgres/0001_initial.sql'));
    await sql`INSERT INTO migration VALUES (0, '', 0), (1, '0001_initial.sql', 0)`;
    await clientOf(databaseUrl).begin(async (transaction) => {
      await transaction`SELECT FROM account`;
      const opening = expect(open(databaseUrl)).rejects.toThrow(
        'has a table that a long transaction uses, such as a dump: migrate it when that has ended.',
      );
      await expect.poll(() => waitingForLocks(sql), { interval: 5 }).toBe(1);
      await sql`SELECT FROM account`;
      await opening;
    });
    expect(await textRows(databaseUrl, 'TABLE additive_migration')).toEqual([]);
  });
});

describe('opening a database', () => {
  test('fails with one sentence if the encoding does not keep names byte for byte', async () => {
    const databaseUrl = await newDatabase({ encoding: 'SQL_ASCII' });
    await expect(open(databaseUrl)).rejects.toThrow('has the encoding SQL_ASCII; it must be UTF8.');
  });

  test('fails with one sentence if the server has no TLS, which sslmode=require demands', async () => {
    await expect(open(`${await emptyStore()}?sslmode=require`)).rejects.toThrow(
      'cannot be opened: The server does not support SSL connections.',
    );
  });

  test('fails at once with one sentence if the password is wrong', async () => {
    const server = await startOwn([], (data) => {
      const file = `${data}/pg_hba.conf`;
      fs.writeFileSync(file, `host all reader 127.0.0.1/32 scram-sha-256\n${fs.readFileSync(file, 'utf8')}`);
    });
    await clientOf(server.url('postgres'))`CREATE ROLE reader LOGIN SUPERUSER PASSWORD 'p@ss/word'`;
    const as = (password: string) => server.url('postgres').replace('app@', `reader${password}@`);
    const begun = performance.now();
    await expect(open(as(':other'))).rejects.toThrow(/ cannot be opened: password authentication failed .*"reader"\.$/);
    await expect(open(as(''))).rejects.toThrow(' cannot be opened: ');
    expect(performance.now() - begun).toBeLessThan(4000);
    await (await open(as(':p%40ss%2Fword'))).check();
  });

  test('waits for a server that starts within five seconds', async () => {
    const databaseUrl = await emptyStore();
    const port = await findPort();
    const late = databaseUrl.replace(/:\d+\//, `:${port}/`);
    const [opening, other] = [
      open(late),
      expect(open(`${late}x`)).rejects.toThrow(/cannot be opened: .* does not exist/),
    ];
    await sleep(500);
    await startProxy(databaseUrl, port);
    await (await opening).check();
    await other;
  });

  test('fails after a while if the server is down, silent or a standby; animal-store then exits with 1', async () => {
    // A standby accepts no writes: it waits for the WAL of a primary.
    const standby = (await startOwn([], (data) => fs.writeFileSync(`${data}/standby.signal`, ''))).url('postgres');
    const mute = await startProxy(standby);
    mute.silence();
    const silent = mute.url;
    await Promise.all([
      expect(open(silent)).rejects.toThrow(`cannot be opened: ${new URL(silent).host} does not answer within 1000 ms.`),
      expect(open(standby)).rejects.toThrow('cannot be opened: it is a standby.'),
    ]);
    // Each attempt takes a second.
    expect(mute.accepted()).toBeLessThanOrEqual(6);
    const env = { DATABASE_URL: `postgres://someone:secret@127.0.0.1:${await findPort()}/animals` };
    const exits = await Promise.all([launchServer({ env }).end(), launchCli(['account', 'list'], { env }).end()]);
    for (const { code, stderr, stdout } of exits) {
      expect(code).toBe(1);
      expect(stderr).toMatch(/^animal-store: DATABASE_URL: [^@]+ cannot be opened: connect ECONNREFUSED [\d.:]+\.\n$/m);
      // Half a second after the start.
      expect(stdout + stderr).toMatch(/DATABASE_URL: [^@]+ does not answer yet: it is asked again for 5 s/);
    }
  });
});
