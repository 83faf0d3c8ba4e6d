/** Tests of the PostgreSQL store alone, and of both engines side by side. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createPetReads } from '../../../src/store/postgres/pets.ts';
import type { Connection } from '../../../src/store/postgres/sql.ts';
import { textFor } from '../../../src/store/steps.ts';
import { biscuit, clientOf, emptyStore, open, temporaryFolder } from '../../support/store.ts';

test('both engines return the same bytes for any pet', async () => {
  const onPostgres = await open(await emptyStore());
  const onSqlite = await open(`sqlite:${temporaryFolder()}/store.db`);
  const animal = fc.record({
    name: fc.string({ unit: 'binary', minLength: 1, maxLength: 100 }).filter((name) => !name.includes('\0')),
    categoryId: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    status: fc.constantFrom('available' as const, 'pending' as const, 'sold' as const),
  });
  const control = Array.from(Array(0x9f), (_, index) => String.fromCharCode(index + 1)).join('');
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
      const { pets, next } = await onPostgres.pets.list(query);
      expect(await onSqlite.pets.list(query)).toMatchObject({ pets, next });
      expect(pets).toHaveLength(animals.length);
      const { pet } = await onPostgres.pets.find(after + 1n);
      expect(await onSqlite.pets.find(after + 1n)).toMatchObject({ pet });
      expect(pet).toBe(pets[0]);
      after += BigInt(animals.length);
    }),
    { numRuns: 60, examples: [[[example]]] },
  );
});

test('additions of one turn of the event loop share a commit unless they have the same key', async () => {
  const commits: number[] = [];
  const metrics = { commit: (count: number) => void commits.push(count), query: () => {}, failed: () => {} };
  const store = await open(await emptyStore(), { metrics });
  const add = (key: string) => store.pets.add(biscuit, { accountId: 1, key });
  const outcomes = await Promise.all([add('c'), add('d'), add('c'), store.pets.add(biscuit)]);
  expect(commits.splice(0)).toEqual([3, 1]);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['added', 'added', 'replayed', 'added']);
  await Promise.all(Array.from(Array(1001), () => store.pets.add(biscuit)));
  expect(commits).toEqual([500, 500, 1]);
});

test('what additions and reads leave is collected while it is young', async () => {
  setFlagsFromString('--expose-gc');
  const collect: NodeJS.GCFunction = runInNewContext('gc');
  const store = await open(await emptyStore());
  async function keptBytes() {
    // What is in use when a collection begins survives it.
    for (let time = 0; time < 3; time++) collect({ type: 'minor' });
    return process.memoryUsage().heapUsed;
  }
  async function run(rounds: number) {
    for (let round = 1; round <= rounds; round++) {
      await Promise.all(Array.from(Array(30), (_, n) => store.pets.add({ ...biscuit, categoryId: BigInt(n) })));
      await Promise.all(Array.from(Array(30), (_, n) => store.pets.find(BigInt(n))));
      if (round % 10 === 0) await keptBytes();
    }
  }
  await run(20);
  const before = await keptBytes();
  await run(100);
  expect((await keptBytes()) - before).toBeLessThan(1_000_000);
});

test('every list walks an index and sorts nothing, so that it costs no more in a larger store', async () => {
  const databaseUrl = await emptyStore();
  const sql = clientOf(databaseUrl);
  await sql`INSERT INTO pet SELECT n, 'x', n, ('{available,pending,sold}'::text[])[1 + n % 3] FROM generate_series(1, 20000) AS n`;
  await sql`ANALYZE pet`;
  const statements: string[] = [];
  const record = async (...[texts, ...given]: Parameters<Connection>) => {
    statements.push(textFor('postgres', texts, given));
    return [];
  };
  const reads = createPetReads({ read: (work) => work(record as never) });
  await reads.list({ limit: 20, after: 0n });
  await reads.find(1n);
  const plans = await Promise.all(
    statements.map(async (text) =>
      (await sql.unsafe(`EXPLAIN (GENERIC_PLAN, COSTS OFF) ${text}`)).map((row) => row['QUERY PLAN']),
    ),
  );
  expect(plans.map((plan) => plan.join().includes('Index Scan using pet_status_id on pet'))).toEqual([true, false]);
  for (const plan of plans) expect(plan.join('\n')).not.toMatch(/Seq Scan on pet\b|Bitmap|Sort/);
});
