/** What holds of PostgreSQL alone, and of the two engines side by side. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { newSecret } from '../src/accounts.ts';
import { OpenError, type Repository } from '../src/repository/repository.ts';
import { dataFolder, freePort, initialize, start } from './support/postgres.ts';
import { launch, runCli, startServer } from './support/process.ts';
import { projectFolder } from './support/project.ts';
import { startProxy } from './support/proxy.ts';
import { clientOf, emptyStore, newDatabase, open, temporaryFolder, textRows } from './support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

/** Address of a server that takes no writes, as it waits for those of a primary. */
async function startStandby(): Promise<string> {
  const data = dataFolder({ inMemory: true });
  initialize(data, []);
  fs.writeFileSync(`${data}/standby.signal`, '');
  const server = await start(data);
  onTestFinished(async () => {
    await server.kill();
    fs.rmSync(data, { recursive: true, force: true });
  });
  return server.url('postgres');
}

const everything = { limit: 100, after: 0n };

test('both engines answer with the same bytes, for any animal', async () => {
  const onPostgres = await open(await emptyStore());
  const onSqlite = await open(`sqlite:${temporaryFolder()}/store.db`);
  const animal = fc.record({
    name: fc.string({ unit: 'binary', minLength: 1, maxLength: 100 }).filter((name) => !name.includes('\0')),
    categoryId: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    status: fc.constantFrom('available' as const, 'pending' as const, 'sold' as const),
  });
  const control = Array.from({ length: 0x9f }, (_, index) => String.fromCharCode(index + 1)).join('');
  const example = {
    name: `${control}"\\/\u2028\ufeff\uffff😀{},NULL`,
    categoryId: -(2n ** 63n),
    status: 'sold',
  } as const;
  let after = 0n;
  await fc.assert(
    fc.asyncProperty(fc.array(animal, { minLength: 1, maxLength: 20 }), async (animals) => {
      const [ours, theirs] = await Promise.all(
        [onPostgres, onSqlite].map((store) => Promise.all(animals.map((pet) => store.pets.add(pet)))),
      );
      expect(ours).toEqual(theirs);
      const query = { limit: 100, after };
      const page = await onPostgres.pets.list(query);
      expect(page).toEqual(await onSqlite.pets.list(query));
      expect(page.pets).toHaveLength(animals.length);
      const id = after + 1n;
      expect(await onPostgres.pets.find(id)).toBe(await onSqlite.pets.find(id));
      after += BigInt(animals.length);
    }),
    { numRuns: 60, examples: [[[example]]] },
  );
});

test('nothing is left to a session, where a pooler may stand between: statements need no names', async () => {
  const databaseUrl = await emptyStore();
  const store = await open(`${databaseUrl}?prepare=false&connections=1`);
  const retry = { accountId: 1, key: 'k' };
  expect(await store.pets.add(biscuit, retry)).toMatchObject({ outcome: 'added', id: 1n });
  expect(await store.pets.add(biscuit, retry)).toMatchObject({ outcome: 'replayed', id: 1n });
  expect((await store.pets.list({ ...everything, status: 'available' })).pets).toHaveLength(1);
  await store.accounts.addAccount('owner');
  const key = { account: 'owner', name: 'k', scopes: [], lifetimeMs: 5, secret: newSecret(false) };
  expect(await store.accounts.addKey(key)).toMatchObject({ id: 1 });
  expect((await store.accounts.findKey(key.secret.hash))?.name).toBe('k');
});

describe('ids', () => {
  test('become visible in their order, whoever adds: no walk passes one by', async () => {
    const databaseUrl = await emptyStore();
    const stores = await Promise.all([1, 2, 3].map(() => open(databaseUrl)));
    let adding = true;
    const writers = stores.map(async (store) => {
      for (let round = 0; round < 60; round++) {
        await Promise.all(Array.from({ length: 1 + (round % 7) }, () => store.pets.add(biscuit)));
      }
    });
    const walk = (async () => {
      const [reader] = stores as [Repository];
      const seen: number[] = [];
      for (let last = false, after = 0n; !last; ) {
        last = !adding;
        const { pets } = await reader.pets.list({ limit: 100, after });
        const ids = pets.map((pet) => JSON.parse(pet).id as number);
        seen.push(...ids);
        after = BigInt(seen.at(-1) ?? 0);
        if (ids.length > 0) last = false;
      }
      return seen;
    })();
    await Promise.all(writers);
    adding = false;
    const added = 3 * Array.from({ length: 60 }, (_, round) => 1 + (round % 7)).reduce((sum, count) => sum + count);
    expect(await walk).toEqual(Array.from({ length: added }, (_, index) => index + 1));
  });

  test('are given once, also when a row is gone', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    await Promise.all([store.pets.add(biscuit), store.pets.add(biscuit)]);
    await clientOf(databaseUrl)`DELETE FROM pet`;
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 3n });
  });
});

test('a creation sent at once through three servers, under one key, adds one animal; with another body it is refused', async () => {
  const databaseUrl = await emptyStore();
  const stores = await Promise.all([1, 2, 3].map(() => open(databaseUrl)));
  for (let round = 0; round < 10; round++) {
    const retry = { accountId: 1, key: `key ${round}` };
    const calls = stores.flatMap((store) => [1, 2, 3, 4].map(() => store.pets.add(biscuit, retry)));
    const outcomes = await Promise.all(calls);
    expect(outcomes.map(({ outcome }) => outcome).sort()).toEqual(['added', ...Array(11).fill('replayed')]);
    expect(new Set(outcomes.map((addition) => 'id' in addition && addition.id)).size).toBe(1);
    expect(await stores[0]?.pets.add({ ...biscuit, categoryId: 8n }, retry)).toEqual({ outcome: 'reused' });
  }
  expect((await stores[0]?.pets.list(everything))?.pets).toHaveLength(10);
});

test('retries are forgotten after their time, ten for each that is made', async () => {
  const databaseUrl = await emptyStore();
  let time = Date.UTC(2027, 0, 1);
  const store = await open(databaseUrl, { now: () => new Date(time) });
  const add = (key: string) => store.pets.add(biscuit, { accountId: 1, key });
  await Promise.all(Array.from({ length: 30 }, (_, index) => add(`old ${index}`)));
  time += 24 * 60 * 60 * 1000;
  expect(await add('old 1')).toMatchObject({ outcome: 'added', id: 31n });
  expect(await textRows(databaseUrl, 'SELECT count(*) FROM idempotency')).toEqual([{ count: '21' }]);
});

test('no list costs more in a larger store: each walks an index, and nothing is sorted', async () => {
  const databaseUrl = await emptyStore();
  const sql = clientOf(databaseUrl);
  await sql`INSERT INTO pet SELECT n, 'x', n, ('{available,pending,sold}'::text[])[1 + n % 3] FROM generate_series(1, 20000) AS n`;
  await sql`ANALYZE pet`;
  const source = fs.readFileSync(`${projectFolder}src/repository/postgres-pets.ts`, 'utf8');
  const statements = [...source.matchAll(/sql`(SELECT [^`]*)`/g)].map(([, text = '']) => {
    let count = 0;
    return text.replaceAll(/\$\{[^}]*\}/g, () => `$${++count}`);
  });
  const plans = await Promise.all(
    statements.map(async (text) =>
      (await sql.unsafe(`EXPLAIN (GENERIC_PLAN, COSTS OFF) ${text}`)).map((row) => row['QUERY PLAN']),
    ),
  );
  expect(
    plans.map((plan) => plan.filter((line) => /Scan|Sort/.test(line)).map((line) => line.trim().replace('->  ', ''))),
  ).toEqual([
    ['Index Scan using pet_status_id on pet'],
    ['Index Scan using pet_pkey on pet'],
    ['Index Scan using pet_pkey on pet'],
  ]);
});

describe('the schema', () => {
  const migrations = fs.readdirSync(`${projectFolder}migrations/postgres`).sort();

  test('is made once by ten processes that start at once', async () => {
    const databaseUrl = await newDatabase();
    const env = { DATABASE_URL: databaseUrl };
    const exits = await Promise.all(Array.from({ length: 10 }, () => runCli(['migrate'], { env })));
    expect(exits.map(({ code, stderr }) => [code, stderr])).toEqual(Array(10).fill([0, '']));
    const said = exits.map(({ stdout }) => stdout.trim()).sort();
    expect(said).toEqual([`Applied ${migrations.join(', ')}.`, ...Array(9).fill('The store is up to date.')]);
    const applied = await textRows(
      databaseUrl,
      'SELECT version, name FROM migration WHERE version > 0 ORDER BY version',
    );
    expect(applied.map(({ name }) => name)).toEqual(migrations);
    expect(await textRows(databaseUrl, 'SELECT count(*) FROM pet_id')).toEqual([{ count: '1' }]);
  }, 60_000);

  test('that another process is just making is waited for', async () => {
    const databaseUrl = await newDatabase();
    const other = clientOf(databaseUrl);
    const sql = clientOf(databaseUrl);
    const waiting = async () =>
      (await sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).length;
    let opening: Promise<Repository> | undefined;
    await other.begin(async (transaction) => {
      await transaction`CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`;
      opening = open(databaseUrl);
      await expect.poll(waiting, { timeout: 5000, interval: 5 }).toBe(1);
    });
    await (await opening)?.check();
  });

  test('is left to the operator in production, who is told what to run', async () => {
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

  test('of a later release is refused', async () => {
    const databaseUrl = await newDatabase({ template: 'template_animals' });
    await clientOf(databaseUrl)`INSERT INTO migration VALUES (99, '0099_later.sql', 0)`;
    await expect(open(databaseUrl)).rejects.toThrow(
      `has schema version 99; this release knows none above ${migrations.length}.`,
    );
  });

  test('is not made among the tables of another application', async () => {
    const databaseUrl = await newDatabase();
    await clientOf(databaseUrl)`CREATE TABLE pet (id integer)`;
    await expect(open(databaseUrl)).rejects.toThrow(/holds tables of another application \(pet\)\.$/);
    expect(await textRows(databaseUrl, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)).toEqual([
      { tablename: 'pet' },
    ]);
  });
});

describe('a database that cannot be opened is told in one sentence', () => {
  test('one where tables may not be made', async () => {
    const databaseUrl = await newDatabase();
    const role = `reader_${randomBytes(8).toString('hex')}`;
    const sql = clientOf(databaseUrl);
    await sql.unsafe(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    onTestFinished(async () => void (await sql.unsafe(`DROP ROLE ${role}`)));
    const limited = databaseUrl.replace(/\/\/[^@]+@/, `//${role}:secret@`);
    await expect(open(limited)).rejects.toThrow('cannot be opened: permission denied for schema public.');
  });

  test('one that does not keep names byte for byte', async () => {
    const databaseUrl = await newDatabase({ encoding: 'SQL_ASCII' });
    await expect(open(databaseUrl)).rejects.toThrow('has the encoding SQL_ASCII; it must be UTF8.');
  });

  test('one that confirms before it writes', async () => {
    const databaseUrl = await newDatabase();
    const name = new URL(databaseUrl).pathname.slice(1);
    await clientOf(databaseUrl).unsafe(`ALTER DATABASE ${name} SET synchronous_commit = off`);
    await expect(open(databaseUrl)).rejects.toThrow('synchronous_commit must not be off.');
  });

  test('one that is not there: at once', async () => {
    const begun = performance.now();
    const databaseUrl = (await newDatabase()).replace(/test_\w+$/, 'nowhere');
    await expect(open(databaseUrl)).rejects.toThrow(
      /^postgres:\/\/127.0.0.1:\d+\/nowhere cannot be opened: .*does not exist\.$/,
    );
    expect(performance.now() - begun).toBeLessThan(4000);
  });

  test('but of several hosts one that is well is enough', async () => {
    const databaseUrl = await emptyStore();
    const down = await freePort();
    await (await open(databaseUrl.replace('127.0.0.1', `127.0.0.1:${down},127.0.0.1`))).check();
  });

  test('but one that is up within five seconds is waited for', async () => {
    const databaseUrl = await emptyStore();
    const port = await freePort();
    const opening = open(databaseUrl.replace(/:\d+\//, `:${port}/`));
    await sleep(500);
    await startProxy(databaseUrl, port);
    await (await opening).check();
  });

  test('one whose server is down, or a standby: after five seconds, and by the server with exit 1', async () => {
    const databaseUrl = `postgres://someone:secret@127.0.0.1:${await freePort()}/animals`;
    const begun = performance.now();
    const standby = await startStandby();
    await Promise.all([
      expect(open(databaseUrl)).rejects.toThrow(OpenError),
      expect(open(standby)).rejects.toThrow('cannot be opened: it is a standby, or does not answer.'),
    ]);
    expect(performance.now() - begun).toBeLessThan(12_000);
    const env = { DATABASE_URL: databaseUrl, PORT: '0' };
    const { code, stderr } = await launch(process.execPath, [`${projectFolder}src/main.ts`], { env }).end();
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^animal-store: DATABASE_URL: postgres:\/\/127\.0\.0\.1:\d+\/animals cannot be opened: connect ECONNREFUSED [\d.:]+\.\n$/,
    );
  });

  test.for([
    ['postgres://host', 'the address must be postgres://user:password@host:port/database.'],
    ['postgres://user:p@ss@host/a', 'the address must be postgres://user:password@host:port/database.'],
    ['postgres://host:x/a', '"host:x" is not a host and a port.'],
    [
      'postgres://host/a?sslmode=sometimes',
      'sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full.',
    ],
    ['postgres://host/a?sslmode=verify-full&sslrootcert=/nowhere/ca.pem', 'sslrootcert cannot be read: ENOENT'],
    ['postgres://host/a?connections=0', 'connections must be a whole number from 1 to 1000.'],
    ['postgres://host/a?pool=5', 'pool is not one of sslmode, sslrootcert, prepare, connections.'],
  ] as const)('%s: %s', async ([databaseUrl, sentence]) => {
    await expect(open(databaseUrl)).rejects.toThrow(OpenError);
    await expect(open(databaseUrl)).rejects.toThrow(sentence);
  });
});
