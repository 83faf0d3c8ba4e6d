import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  biscuit,
  clientOf,
  countCommits,
  emptyStore,
  newStore,
  open,
  temporaryFolder,
  textRows,
} from '../../support/store.ts';

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

test.for([
  ['DELETE FROM pet WHERE id > 2', '4'],
  ['TRUNCATE pet', '4'],
  ['UPDATE pet_id SET last_id = 9', '10'],
  ['INSERT INTO pet VALUES (20, $$x$$, 1, $$sold$$)', '21'],
] as const)('no id is given twice after %s', async ([statement, next]) => {
  const databaseUrl = await newStore();
  const store = await open(databaseUrl);
  for (let time = 0; time < 3; time++) await store.pets.add(biscuit);
  await clientOf(databaseUrl).unsafe(statement);
  expect(await store.pets.add(biscuit)).toMatchObject({ id: BigInt(next) });
});

test('when the ids end within a batch, only the additions without one fail', async () => {
  const { commits, metrics } = countCommits();
  const databaseUrl = await newStore();
  const store = await open(databaseUrl, { metrics });
  const add = (key: string) => store.pets.add(biscuit, { accountId: 1, key });
  const last = BigInt(Number.MAX_SAFE_INTEGER);
  await clientOf(databaseUrl)`UPDATE pet_id SET last_id = ${String(last - 2n)}`;
  await add('a');
  const outcomes = await Promise.allSettled(['a', 'b', 'c'].map(add));
  expect(commits).toEqual([1, 3]);
  expect(outcomes).toMatchObject([
    { value: { outcome: 'replayed', id: last - 1n } },
    { value: { outcome: 'added', id: last } },
    { reason: { code: 'service_unavailable', cause: new Error('no id is left for another animal') } },
  ]);
});

test.for(['read committed', 'repeatable read', 'serializable'])(
  'with %s transactions, stores give each id once, visible after all smaller ones',
  async (isolation) => {
    const databaseUrl = await newStore();
    const name = new URL(databaseUrl).pathname.slice(1);
    const sql = clientOf(databaseUrl);
    await sql.unsafe(`ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`);
    const stores = await Promise.all([1, 2, 3].map(() => open(databaseUrl)));
    const seen: unknown[] = [];
    const adding = stores.map(async ({ pets }) => {
      for (let round = 0; round < 50; round++) await Promise.all([pets.add(biscuit), pets.add(biscuit)]);
    });
    const added = Promise.all(adding).then(() => seen.push('added'));
    while (!seen.includes('added')) {
      const [row] = await sql`SELECT count(*) AS count, coalesce(max(id), 0) AS max FROM pet`;
      if (row?.count !== row?.max) seen.push(row);
    }
    await added;
    expect(seen).toEqual(['added']);
    expect(await textRows(databaseUrl, 'SELECT count(*), max(id) FROM pet')).toEqual([{ count: '300', max: '300' }]);
  },
);
