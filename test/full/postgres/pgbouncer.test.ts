/** Tests of the store through PgBouncer in transaction mode, where no state may depend on a session. */
import type postgres from 'postgres';
import { beforeEach, expect, test } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { sessionTimeouts } from '../../../src/store/postgres/pool.ts';
import { OpenError } from '../../../src/store/store.ts';
import { missingPgbouncer, startPgbouncer } from '../../support/pgbouncer.ts';
import { launchCli, startServer } from '../../support/process.ts';
import { clientOf, newDatabase, open, textRows } from '../../support/store.ts';

/** A database that gives each session the settings of a server: the pooler passes on none. */
async function newPooledDatabase(template?: string): Promise<string> {
  const databaseUrl = await newDatabase(template === undefined ? {} : { template });
  const name = new URL(databaseUrl).pathname.slice(1);
  const settings = { ...sessionTimeouts, synchronous_commit: 'on' };
  for (const [setting, value] of Object.entries(settings))
    await clientOf(databaseUrl).unsafe(`ALTER DATABASE ${name} SET ${setting} = ${value}`);
  return databaseUrl;
}

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

beforeEach(({ skip }) => {
  if (missingPgbouncer) skip(missingPgbouncer);
});

test('three stores whose thirty connections share two do everything once', async () => {
  const databaseUrl = await newPooledDatabase('template_animals');
  const through = `${await startPgbouncer(databaseUrl, 2)}?prepare=false`;
  const stores = await Promise.all([1, 2, 3].map(() => open(through)));
  const rounds = Array.from({ length: 20 }, (_, round) => round);
  await Promise.all(
    rounds.flatMap((round) =>
      stores.flatMap(({ pets }) => [
        pets.add(biscuit),
        pets.add(biscuit, { accountId: 1, key: `key ${round}` }),
        pets.find(1n),
        pets.list({ limit: 100, after: 0n }),
        pets.list({ limit: 100, after: 0n, status: 'available' }),
      ]),
    ),
  );
  // Sixty pets without a key, and one for each of the twenty keys that all three stores sent.
  expect(await textRows(databaseUrl, 'SELECT count(*), max(id) FROM pet')).toEqual([{ count: '80', max: '80' }]);
});

test('PgBouncer gives a client another connection while a second client uses its first', async () => {
  const through = await startPgbouncer(await newDatabase(), 2);
  const [one, other] = [clientOf(through), clientOf(through)];
  const session = async (sql: postgres.Sql | postgres.TransactionSql) =>
    (await sql.unsafe('SELECT pg_backend_pid() AS pid'))[0]?.pid;
  const first = await session(one);
  await other.begin(async (transaction) => {
    expect(await session(transaction)).toBe(first);
    expect(await session(one)).not.toBe(first);
  });
});

test('without prepare=false, what the pooler loses gets 503, with what to do', async () => {
  const through = await startPgbouncer(await newPooledDatabase('template_animals'), 2);
  async function use(): Promise<void> {
    const store = await open(through);
    const works = [1n, 2n, 3n].flatMap((id) => [store.pets.find(id), store.accounts.listAccounts()]);
    await Promise.all([...works, store.pets.add(biscuit)]);
  }
  const outcomes = await Promise.allSettled([1, 2, 3, 4].map(use));
  const reasons = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
  expect(reasons.length).toBeGreaterThan(0);
  for (const reason of reasons)
    expect(reason instanceof OpenError ? reason.message : String(reason.cause)).toMatch(
      /prepared statement "[\w-]{22}" (does not exist|already exists): add prepare=false to DATABASE_URL, because/,
    );
});

test.for([1, 5])('a pooler in session mode needs no prepare=false: %i connections', async (connections) => {
  const through = await startPgbouncer(await newPooledDatabase('template_animals'), connections, 'session');
  const store = await open(through);
  expect(await store.pets.list({ limit: 1, after: 0n })).toMatchObject({ pets: [] });
});

test('migrate creates the schema, the store works, and the server serves', async () => {
  const databaseUrl = await newPooledDatabase();
  const through = `${await startPgbouncer(databaseUrl, 2)}?prepare=false`;
  const env = { DATABASE_URL: through };
  const migrations = await Promise.all([1, 2, 3].map(() => launchCli(['migrate'], { env }).end()));
  expect(migrations.map(({ code }) => code)).toEqual([0, 0, 0]);
  const { accounts } = await open(through);
  const secret = newSecret(false);
  await accounts.addAccount('owner');
  await accounts.addKey({ account: 'owner', name: 'k', scopes: [...scopes], lifetimeMs: null, secret });
  const server = await startServer({ env });
  const headers = { authorization: `Bearer ${secret.key}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ name: 'Biscuit', categoryId: 1 });
  const added = await Promise.all(
    Array.from({ length: 50 }, () => fetch(`${server.url}/v1/pets`, { method: 'POST', headers, body })),
  );
  expect(new Set(added.map(({ status }) => status))).toEqual(new Set([201]));
  const message = await fetch(`${server.url}/quickstart/messages`, {
    method: 'POST',
    headers,
    body: '{"message":"x"}',
  });
  expect(message.status).toBe(202);
  const page = await fetch(`${server.url}/v1/pets?limit=100`, { headers });
  expect(await page.json()).toHaveLength(50);
  expect((await server.end('SIGTERM')).code).toBe(0);
}, 60_000);
