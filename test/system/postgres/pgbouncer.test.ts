/** Tests of the store through PgBouncer in transaction mode, where no state may depend on a session. */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { sessionSettings } from '../../../src/store/postgres/connection.ts';
import { OpenError } from '../../../src/store/store.ts';
import { findPort } from '../../support/known-port.ts';
import { startProxy } from '../../support/proxy.ts';
import { biscuit, newDatabase, open, textRows } from '../../support/store.ts';
import { missingPgbouncer, startPgbouncer } from './pgbouncer.ts';

/** A database that gives each session the settings of a server: the pooler passes on none. */
const newPooledDatabase = () =>
  newDatabase({ template: 'template_animals', settings: { ...sessionSettings, synchronous_commit: 'on' } });

beforeEach(({ skip }) => {
  if (missingPgbouncer) skip(missingPgbouncer);
});

test('three stores whose thirty connections share two do everything once', async () => {
  const databaseUrl = await newPooledDatabase();
  const through = `${await startPgbouncer(databaseUrl, 2)}?prepare=false`;
  const stores = await Promise.all([1, 2, 3].map(() => open(through)));
  const rounds = Array.from(Array(20), (_, round) => round);
  await Promise.all(
    rounds.flatMap((round) =>
      stores.flatMap(({ pets }) => [
        pets.add(biscuit),
        pets.add(biscuit, { accountId: 1, key: `key ${round}` }),
        pets.find(1n),
        pets.list({ limit: 100, after: 0n, status: 'available' }),
      ]),
    ),
  );
  // Sixty pets without a key, and one for each of the twenty keys that all three stores sent.
  expect(await textRows(databaseUrl, 'SELECT count(*), max(id) FROM pet')).toEqual([{ count: '80', max: '80' }]);
});

test('a pooler that starts late, and refuses start-up options, is waited for', async () => {
  const through = `${await startPgbouncer(await newPooledDatabase(), 2)}?prepare=false`;
  const port = await findPort();
  const opening = open(through.replace(/:\d+\//, `:${port}/`));
  await sleep(500);
  await startProxy(through, port);
  await (await opening).check();
});

test('without prepare=false, what the pooler loses gets 503, with what to do', async () => {
  const through = await startPgbouncer(await newPooledDatabase(), 2);
  async function use() {
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
