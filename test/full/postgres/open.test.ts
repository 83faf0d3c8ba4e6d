import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { describe, expect, onTestFinished, test } from 'vitest';
import { OpenError, type Store } from '../../../src/store/store.ts';
import { startOwn } from '../../support/own-postgres.ts';
import { freePort } from '../../support/postgres.ts';
import { launch, launchCli, runCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, emptyStore, newDatabase, open, textRows } from '../../support/store.ts';

/** Starts a server that accepts connections and never responds. */
async function startSilent(): Promise<{ port: number; connections: () => number; open: () => number }> {
  const sockets: net.Socket[] = [];
  const server = net.createServer((socket) => void sockets.push(socket.resume().on('error', () => undefined)));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port: (server.address() as net.AddressInfo).port,
    connections: () => sockets.length,
    open: () => sockets.filter(({ destroyed }) => !destroyed).length,
  };
}

describe('the schema', () => {
  const migrations = fs.readdirSync(`${projectFolder}migrations/postgres`).sort();

  test('is created once by ten processes that start at once', async () => {
    const databaseUrl = await newDatabase();
    const env = { DATABASE_URL: databaseUrl };
    const exits = await Promise.all(Array.from({ length: 10 }, () => launchCli(['migrate'], { env }).end()));
    // A busy machine may be slow to connect.
    const notes = /^DATABASE_URL: no connection to .+ yet: trying again until .+\n/;
    expect(exits.map(({ code, stderr }) => [code, stderr.replace(notes, '')])).toEqual(Array(10).fill([0, '']));
    const outputs = exits.map(({ stdout }) => stdout.trim()).sort();
    expect(outputs).toEqual([`Applied ${migrations.join(', ')}.`, ...Array(9).fill('The store is up to date.')]);
    const applied = await textRows(
      databaseUrl,
      'SELECT version, name FROM migration WHERE version > 0 UNION ALL SELECT version, name FROM additive_migration ORDER BY version',
    );
    expect(applied.map(({ name }) => name)).toEqual(migrations);
    expect(await textRows(databaseUrl, 'SELECT count(*) FROM pet_id')).toEqual([{ count: '1' }]);
  }, 60_000);

  /** A database in which the first `times` CREATE TABLE statements first run `what`. */
  async function interceptCreateTable(times: number, what: string): Promise<string> {
    const databaseUrl = await newDatabase();
    await clientOf(databaseUrl).unsafe(`
      CREATE SEQUENCE tries;
      CREATE FUNCTION meet() RETURNS event_trigger LANGUAGE plpgsql AS $$
      BEGIN IF nextval('tries') <= ${times} THEN ${what}; END IF; END $$;
      CREATE EVENT TRIGGER meet ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION meet()`);
    return databaseUrl;
  }

  test.for(['42P07', '40P01'])('is tried again if another process creates it at the same moment: %s', async (code) => {
    const databaseUrl = await interceptCreateTable(3, `RAISE EXCEPTION 'others' USING ERRCODE = '${code}'`);
    await (await open(databaseUrl)).check();
  });

  test('is not created in production: the error names the command to run', async () => {
    const databaseUrl = await newDatabase();
    const env = { DATABASE_URL: databaseUrl, DEPLOYMENT: 'production', PORT: '0', OPS_PORT: '0' };
    const server = launch(process.execPath, [`${projectFolder}src/main.ts`], { env });
    const { code, stderr } = await server.end();
    const shown = databaseUrl.replace('app@', '');
    const sentence = `animal-store: DATABASE_URL: ${shown} has schema version 0, and this release needs ${migrations.length}: run animal-store migrate.\n`;
    expect([code, stderr]).toEqual([1, sentence]);
    expect(await textRows(databaseUrl, 'SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()')).toEqual([
      { count: '0' },
    ]);
    expect((await runCli(['migrate'], { env })).code).toBe(0);
    const started = await startServer({ env });
    expect((await started.end('SIGTERM')).code).toBe(0);
  }, 60_000);

  test('does not change the tables of another application', async () => {
    const databaseUrl = await newDatabase();
    const sql = clientOf(databaseUrl);
    await sql`CREATE TABLE account (theirs text)`;
    await expect(open(databaseUrl)).rejects.toThrow('cannot be opened: relation "account" already exists.');
    expect(await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`).toEqual([{ tablename: 'account' }]);
  });

  /** A database with the schema of the release before. */
  async function createPrevious(): Promise<{ databaseUrl: string; sql: postgres.Sql }> {
    const databaseUrl = await newDatabase();
    const sql = clientOf(databaseUrl);
    await sql`CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`;
    await sql.unsafe(fs.readFileSync(`${projectFolder}migrations/postgres/0001_initial.sql`, 'utf8'));
    await sql`INSERT INTO migration VALUES (0, '', 0), (1, '0001_initial.sql', 0)`;
    return { databaseUrl, sql };
  }

  const waiting = (sql: postgres.Sql) =>
    sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  const versionOf = (sql: postgres.Sql) =>
    sql`SELECT max(version) AS version FROM (TABLE migration UNION ALL TABLE additive_migration) AS applied`;

  test('is migrated again after a deadlock with a running server, whose statement succeeds', async () => {
    const { databaseUrl, sql } = await createPrevious();
    let opening: Promise<Store> | undefined;
    await clientOf(databaseUrl).begin(async (server) => {
      // Not this statement but the migration is to find the deadlock, however busy the machine is.
      await server`SET LOCAL deadlock_timeout = '1min'`;
      // As a server that removes an account with its keys.
      await server`LOCK TABLE account IN ROW EXCLUSIVE MODE`;
      opening = open(databaseUrl);
      await expect.poll(async () => (await waiting(sql)).length, { timeout: 5000, interval: 5 }).toBe(1);
      // The migration has locked this table and waits for the other one.
      await server`LOCK TABLE api_key IN ROW EXCLUSIVE MODE`;
    });
    await (await opening)?.check();
    expect(await versionOf(sql)).toEqual([{ version: migrations.length }]);
  });

  test('is not changed while a long transaction uses a table: running servers do not wait behind the migration', async () => {
    const { databaseUrl, sql } = await createPrevious();
    const other = clientOf(databaseUrl);
    const shown = databaseUrl.replace('app@', '');
    await other.begin(async (transaction) => {
      await transaction`SELECT FROM account`;
      const opening = expect(open(databaseUrl)).rejects.toThrow(
        `${shown} has a table that a long transaction uses, such as a dump: migrate it when that has ended.`,
      );
      await expect.poll(async () => (await waiting(sql)).length, { timeout: 5000, interval: 5 }).toBe(1);
      await sql`SELECT FROM account`;
      await opening;
    });
    expect(await sql`SELECT max(version) AS version FROM migration`).toEqual([{ version: 1 }]);
    await (await open(databaseUrl)).check();
    expect(await versionOf(sql)).toEqual([{ version: migrations.length }]);
  });
});

describe('opening a database', () => {
  test('fails with one sentence if the encoding does not keep names byte for byte', async () => {
    const databaseUrl = await newDatabase({ encoding: 'SQL_ASCII' });
    await expect(open(databaseUrl)).rejects.toThrow('has the encoding SQL_ASCII; it must be UTF8.');
  });

  test('fails with one sentence if the password is wrong', async () => {
    const server = await startOwn([], (data) => {
      const file = `${data}/pg_hba.conf`;
      fs.writeFileSync(file, `host all reader 127.0.0.1/32 scram-sha-256\n${fs.readFileSync(file, 'utf8')}`);
    });
    const administrator = clientOf(server.url('postgres'));
    await administrator`CREATE ROLE reader LOGIN SUPERUSER PASSWORD 'p@ss/word'`;
    const as = (password: string) => server.url('postgres').replace('app@', `reader${password}@`);
    await expect(open(as(':other'))).rejects.toThrow(/ cannot be opened: password authentication failed .*"reader"\.$/);
    await expect(open(as(''))).rejects.toThrow(' cannot be opened: ');
    await (await open(as(':p%40ss%2Fword'))).check();
  });

  test('waits for a server that starts within five seconds', async () => {
    const databaseUrl = await emptyStore();
    const port = await freePort();
    const opening = open(databaseUrl.replace(/:\d+\//, `:${port}/`));
    await sleep(500);
    await startProxy(databaseUrl, port);
    await (await opening).check();
  });

  test('fails after a while if the server is down, silent or a standby; animal-store then exits with 1', async () => {
    const databaseUrl = `postgres://someone:secret@127.0.0.1:${await freePort()}/animals`;
    // A standby accepts no writes: it waits for the WAL of a primary.
    const standby = (await startOwn([], (data) => fs.writeFileSync(`${data}/standby.signal`, ''))).url('postgres');
    const mute = await startSilent();
    const silent = `127.0.0.1:${mute.port}`;
    await Promise.all([
      expect(open(databaseUrl)).rejects.toThrow(OpenError),
      expect(open(`postgres://${silent}/animals`)).rejects.toThrow(
        `postgres://${silent}/animals cannot be opened: ${silent} does not answer.`,
      ),
      expect(open(standby)).rejects.toThrow('cannot be opened: it is a standby.'),
    ]);
    // Each attempt takes two seconds, because there is no other host.
    expect(mute.connections()).toBeLessThanOrEqual(3);
    await expect.poll(mute.open).toBe(0);
    const env = { DATABASE_URL: databaseUrl, PORT: '0', OPS_PORT: '0' };
    const [server, command] = await Promise.all([
      launch(process.execPath, [`${projectFolder}src/main.ts`], { env }).end(),
      launchCli(['account', 'list'], { env }).end(),
    ]);
    const waiting =
      /DATABASE_URL: no connection to postgres:\/\/127\.0\.0\.1:\d+\/animals yet: trying again until 20[\dT:.-]+Z\./;
    const failed =
      /animal-store: DATABASE_URL: postgres:\/\/127\.0\.0\.1:\d+\/animals cannot be opened: connect ECONNREFUSED [\d.:]+\.\n/;
    expect([server.code, command.code]).toEqual([1, 1]);
    expect(server.stdout).toMatch(new RegExp(`^{"level":40,[^\n]+"${waiting.source}"}\n$`));
    expect(server.stderr).toMatch(new RegExp(`^${failed.source}$`));
    expect(command.stderr).toMatch(new RegExp(`^${waiting.source}\n${failed.source}$`));
  });
});
