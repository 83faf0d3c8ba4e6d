/** Tests of the store through PgBouncer in transaction mode, where no state may depend on a session. */
import type postgres from 'postgres';
import { beforeEach, expect, test } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { missingPgbouncer, startPgbouncer } from '../../support/pgbouncer.ts';
import { launchCli, launchServer, runCli, startServer } from '../../support/process.ts';
import { clientOf, newDatabase, open, textRows } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

beforeEach(({ skip }) => {
  if (missingPgbouncer) skip(missingPgbouncer);
});

test('three stores whose thirty connections share two do everything once', async () => {
  const databaseUrl = await newDatabase({ template: 'template_animals' });
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

test.for([1, 2, 10])(
  'without prepare=false, a server and a command say so and do not start: %i connections',
  async (connections) => {
    const through = await startPgbouncer(await newDatabase({ template: 'template_animals' }), connections);
    const sentence = `DATABASE_URL: ${through.replace(/\/\/.*@/, '//')} is behind a pooler that loses prepared statements: add prepare=false to DATABASE_URL, or use PgBouncer 1.21 or later with max_prepared_statements.`;
    const env = { DATABASE_URL: through };
    // A second start meets what the first has left in the pooler's sessions.
    for (let time = 0; time < 2; time++)
      expect(await launchServer({ env }).end()).toMatchObject({ code: 1, stderr: `animal-store: ${sentence}\n` });
    expect(commandErrorOf(await runCli(['key', 'list'], { env }))).toBe(sentence);
  },
);

test.for([1, 5])('a pooler in session mode needs no prepare=false: %i connections', async (connections) => {
  const through = await startPgbouncer(await newDatabase({ template: 'template_animals' }), connections, 'session');
  const store = await open(through);
  expect(await store.pets.list({ limit: 1, after: 0n })).toMatchObject({ pets: [] });
});

test('migrate creates the schema, the store works, and the server serves', async () => {
  const databaseUrl = await newDatabase();
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
