/** Tests of how PostgreSQL gives ids: in the order of commits, never twice, and without a row that grows. */
import { expect, test } from 'vitest';
import { clientOf, newDatabase, open, textRows } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

const emptyDatabase = () => newDatabase({ template: 'template_animals' });

test('the row that additions lock does not grow beside an open snapshot', async () => {
  const databaseUrl = await emptyDatabase();
  const store = await open(databaseUrl);
  const sizeOf = async () => (await textRows(databaseUrl, `SELECT pg_relation_size('pet_id') AS bytes`))[0]?.bytes;
  const before = await sizeOf();
  const other = await clientOf(databaseUrl).reserve();
  await other`BEGIN ISOLATION LEVEL REPEATABLE READ`;
  await other`SELECT count(*) FROM pet`;
  for (let time = 0; time < 500; time++) await store.pets.add(biscuit);
  expect(await sizeOf()).toBe(before);
  expect(await textRows(databaseUrl, 'SELECT count(*), max(id) FROM pet')).toEqual([{ count: '500', max: '500' }]);
  await other`ROLLBACK`;
  other.release();
});

test.for([
  ['DELETE FROM pet WHERE id > 2', '4'],
  ['TRUNCATE pet', '4'],
  ['UPDATE pet_id SET last_id = 9', '10'],
  ['INSERT INTO pet VALUES (20, $$x$$, 1, $$sold$$)', '21'],
] as const)('no id is given twice after %s', async ([statement, next]) => {
  const databaseUrl = await emptyDatabase();
  const store = await open(databaseUrl);
  for (let time = 0; time < 3; time++) await store.pets.add(biscuit);
  await clientOf(databaseUrl).unsafe(statement);
  expect(await store.pets.add(biscuit)).toMatchObject({ id: BigInt(next) });
});

test.for(['read committed', 'repeatable read', 'serializable'])(
  'stores that add at the same time give each id once, with %s transactions',
  async (isolation) => {
    const databaseUrl = await emptyDatabase();
    const name = new URL(databaseUrl).pathname.slice(1);
    await clientOf(databaseUrl).unsafe(`ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`);
    const stores = await Promise.all([1, 2, 3].map(() => open(databaseUrl)));
    for (let round = 0; round < 20; round++) {
      await Promise.all(stores.flatMap(({ pets }) => [pets.add(biscuit), pets.add(biscuit)]));
    }
    expect(await textRows(databaseUrl, 'SELECT count(*), max(id) FROM pet')).toEqual([{ count: '120', max: '120' }]);
  },
);

test('an id becomes visible only after all smaller ones', async () => {
  const databaseUrl = await emptyDatabase();
  const stores = await Promise.all([1, 2, 3].map(() => open(databaseUrl)));
  let adding = true;
  const adds = stores.map(async ({ pets }) => {
    for (let time = 0; time < 200; time++) await pets.add(biscuit);
  });
  const sql = clientOf(databaseUrl);
  const gaps: unknown[] = [];
  const looks = (async () => {
    while (adding) {
      const [row] = await sql`SELECT count(*) AS count, coalesce(max(id), 0) AS max FROM pet`;
      if (row?.count !== row?.max) gaps.push(row);
    }
  })();
  await Promise.all(adds);
  adding = false;
  await looks;
  expect(gaps).toEqual([]);
});
