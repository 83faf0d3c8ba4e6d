/** Tests of how PostgreSQL gives ids: in the order of commits, and never twice. */
import { expect, test } from 'vitest';
import { biscuit, clientOf, newStore, open, textRows } from '../../support/store.ts';

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

test('additions update no row: beside an open snapshot, the next ones would read each version of it', async () => {
  const databaseUrl = await newStore();
  const store = await open(databaseUrl);
  await store.accounts.addAccount('zoo');
  for (let time = 0; time < 3; time++) await store.pets.add(biscuit, { accountId: 1, key: `${time % 2}` });
  // A session reports what it did when it ends.
  await store.close();
  const counts = 'SELECT sum(n_tup_ins) AS added, sum(n_tup_upd) AS updated FROM pg_stat_user_tables';
  await expect.poll(() => textRows(databaseUrl, counts)).toEqual([{ added: '5', updated: '0' }]);
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
