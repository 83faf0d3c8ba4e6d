/** Tests of the reads that share a statement: what they return, what one of them does to the others, and what the state tells. */
import { describe, expect, test } from 'vitest';
import { hashKey } from '../../../src/core/accounts.ts';
import { petJson } from '../../../src/core/pets.ts';
import { createKeyReads, createPetReads } from '../../../src/store/postgres/pets.ts';
import type { Pool } from '../../../src/store/postgres/pool.ts';
import { clientOf, emptyStore, open, openPools, biscuit as pet } from '../../support/store.ts';

const everything = { limit: 100, after: 0n };

/** Reads of a store, with the number of statements that they send. */
async function start() {
  const databaseUrl = await emptyStore();
  const store = await open(databaseUrl);
  const pools = await openPools(databaseUrl, { connections: 8 });
  const sent = { statements: 0 };
  const read: Pool['read'] = async (work, options) => {
    sent.statements += 1;
    return pools.keyed.read(work, options);
  };
  const sql = clientOf(databaseUrl);
  return { store, sent, reads: createPetReads({ read }), keys: createKeyReads({ read }), sql };
}

describe('reads of one turn', () => {
  test('share one statement, and each gets its own answer', async () => {
    const { store, sent, reads, keys } = await start();
    await Promise.all(Array.from(Array(30), (_, at) => store.pets.add({ ...pet, name: `pet ${at}` })));
    const numbers = Array.from(Array(40), (_, at) => at);
    const ask = () =>
      [{}, { status: 'available' } as const].flatMap((filter) =>
        numbers.map((after) => reads.list({ limit: 3, after: BigInt(after), ...filter })),
      );
    const single = numbers.slice(20, 35).map((id) => reads.find(BigInt(id)));
    const unknown = Promise.all(['a', 'b', 'a'].map((text) => keys(hashKey(text))));
    const pages = await Promise.all(ask());
    expect((await Promise.all(single)).map(({ pet: text }) => text && JSON.parse(text).id)).toEqual(
      numbers.slice(20, 35).map((id) => (id <= 30 ? id : undefined)),
    );
    expect(await unknown).toEqual([undefined, undefined, undefined]);
    // Pages, single animals and keys.
    expect(sent.statements).toBe(3);
    for (const [at, page] of pages.entries()) {
      const after = at % 40;
      expect(page.pets.map((text) => JSON.parse(text).id)).toEqual(
        [1, 2, 3].map((step) => after + step).filter((id) => id <= 30),
      );
      expect(page.next).toBe(after + 3 < 30 ? BigInt(after + 3) : undefined);
      // The last pages are current for a shorter time.
      expect(page.state).toBe(pages[page.next ? 0 : 39]?.state);
    }
    // A statement carries 1,000 rows, and equal ones count once.
    await Promise.all([...ask(), ...ask()]);
    expect(sent.statements).toBe(4);
    await Promise.all(Array.from(Array(1100), (_, after) => reads.list({ limit: 1, after: BigInt(after) })));
    expect(sent.statements).toBe(7);
  });

  test('return the JSON that is stored with each row, and the same for rows that have none', async () => {
    const { store, reads, sql } = await start();
    const names = ['Biscuit', '"\\\u0001\n\t\u007f\u2028🦊', "%s '"];
    for (const name of names) await store.pets.add({ ...pet, name });
    const read = async () => [...(await reads.list(everything)).pets, (await reads.find(2n)).pet];
    const texts = names.map((name, at) => petJson(at + 1, name, pet.categoryId, pet.status));
    expect(await read()).toEqual([...texts, texts[1]]);
    // Without the trigger.
    const setAll = (json: string) =>
      sql.unsafe(
        `SET session_replication_role = replica; UPDATE pet SET json = ${json}; RESET session_replication_role`,
      );
    await setAll('NULL');
    expect(await read()).toEqual([...texts, texts[1]]);
    await setAll(`format('{"id":%s}', id)`);
    expect(await read()).toEqual(['{"id":1}', '{"id":2}', '{"id":3}', '{"id":2}']);
  });
});

test('what was read is current until it changes: not after TRUNCATE, and never if the row of the state is missing', async () => {
  const { store, reads, sql } = await start();
  await store.pets.add(pet);
  const [{ state }, last, none] = await Promise.all([reads.find(1n), reads.list(everything), reads.find(2n)]);
  const areCurrent = () => Promise.all([state, last.state, none.state].map(reads.isCurrent));
  expect(await areCurrent()).toEqual([true, true, true]);
  await store.pets.add(pet);
  expect(await areCurrent()).toEqual([true, false, false]);
  const [kept] = await sql`SELECT revision FROM pet_revision`;
  await sql`TRUNCATE pet`;
  // As a dump of the data alone, when it is restored.
  await sql`UPDATE pet_revision SET revision = ${kept?.revision}`;
  expect(await areCurrent()).toEqual([false, false, false]);
  await sql`DELETE FROM pet_revision`;
  const unknown = await reads.list(everything);
  expect(await reads.isCurrent(unknown.state)).toBe(false);
  await sql`INSERT INTO pet_revision VALUES (0)`;
});
