/** Tests of the PostgreSQL store alone, and of both engines side by side. */
import fs from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { newSecret } from '../src/accounts.ts';
import type { Repository } from '../src/repository/store.ts';
import { projectFolder } from './support/project.ts';
import { clientOf, emptyStore, open, temporaryFolder, textRows } from './support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

const everything = { limit: 100, after: 0n };

test('both engines return the same bytes for any pet', async () => {
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

test('the store works with prepare=false, without named statements, for use behind a pooler', async () => {
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

test('sessions set their application_name', async () => {
  const databaseUrl = await emptyStore();
  const store = await open(databaseUrl);
  await store.check();
  const names = await clientOf(databaseUrl)`
    SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`;
  expect([...names]).toEqual([{ application_name: 'animal-store' }]);
});

describe('ids', () => {
  test('become visible in order, whichever server adds, so that no walk through the pages misses one', async () => {
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

  test('are never reused, even if a row is deleted', async () => {
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    await Promise.all([store.pets.add(biscuit), store.pets.add(biscuit)]);
    await clientOf(databaseUrl)`DELETE FROM pet`;
    expect(await store.pets.add(biscuit)).toMatchObject({ id: 3n });
  });
});

test('additions of one turn of the event loop share a commit unless they have the same key', async () => {
  const commits: number[] = [];
  const store = await open(await emptyStore(), { onCommit: (count) => commits.push(count) });
  const add = (accountId: number, key: string) => store.pets.add(biscuit, { accountId, key });
  await Promise.all([add(1, 'a'), add(1, 'b'), add(2, 'a'), store.pets.add(biscuit), store.pets.add(biscuit)]);
  expect(commits.splice(0)).toEqual([5]);
  const outcomes = await Promise.all([add(1, 'c'), add(1, 'd'), add(1, 'c'), add(1, 'e')]);
  expect(commits.splice(0)).toEqual([2, 2]);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['added', 'added', 'replayed', 'added']);
  await Promise.all(Array.from({ length: 1001 }, () => store.pets.add(biscuit)));
  expect(commits).toEqual([500, 500, 1]);
});

test('concurrent creations through three servers under one key add one pet, and another body is refused', async () => {
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

test('each new retry deletes ten expired ones', async () => {
  const databaseUrl = await emptyStore();
  let time = Date.UTC(2027, 0, 1);
  const store = await open(databaseUrl, { now: () => new Date(time) });
  const add = (key: string) => store.pets.add(biscuit, { accountId: 1, key });
  await Promise.all(Array.from({ length: 30 }, (_, index) => add(`old ${index}`)));
  time += 24 * 60 * 60 * 1000;
  expect(await add('old 1')).toMatchObject({ outcome: 'added', id: 31n });
  expect(await textRows(databaseUrl, 'SELECT count(*) FROM idempotency')).toEqual([{ count: '21' }]);
});

test('every list walks an index and sorts nothing, so that it costs no more in a larger store', async () => {
  const databaseUrl = await emptyStore();
  const sql = clientOf(databaseUrl);
  await sql`INSERT INTO pet SELECT n, 'x', n, ('{available,pending,sold}'::text[])[1 + n % 3] FROM generate_series(1, 20000) AS n`;
  await sql`ANALYZE pet`;
  const source = fs.readFileSync(`${projectFolder}src/repository/postgres/pets.ts`, 'utf8');
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
