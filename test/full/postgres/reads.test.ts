/** Tests of the reads that share a statement: what they return, what one of them does to the others, and what the state tells. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { petJson } from '../../../src/core/pets.ts';
import { openAlone } from '../../../src/store/postgres/open.ts';
import { createKeyReads, createPetReads } from '../../../src/store/postgres/pets.ts';
import { createPools, type Pool } from '../../../src/store/postgres/pool.ts';
import { createBatch } from '../../../src/store/postgres/reads.ts';
import { readTarget } from '../../../src/store/postgres/url.ts';
import { clientOf, emptyStore, open } from '../../support/store.ts';

const pet = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;
const everything = { limit: 100, after: 0n };

/** Reads of a store, with the number of statements that they send. */
async function start() {
  const databaseUrl = await emptyStore();
  const store = await open(databaseUrl);
  const target = { ...readTarget(databaseUrl), connections: 8 };
  const { config, destroy } = await openAlone(target, { now: () => new Date() });
  destroy();
  const pools = createPools(config, target);
  onTestFinished(() => pools.close());
  const sent = { statements: 0 };
  const read: Pool['read'] = async (work, options) => {
    sent.statements += 1;
    return pools.keyed.read(work, options);
  };
  const sql = clientOf(databaseUrl);
  const pool = { read };
  return { store, sent, reads: createPetReads(pool), keys: createKeyReads(pool), sql };
}

describe('reads of one turn', () => {
  test('share one statement, and each gets its own answer', async () => {
    const { store, sent, reads, keys } = await start();
    await Promise.all(Array.from({ length: 30 }, (_, at) => store.pets.add({ ...pet, name: `pet ${at}` })));
    await store.accounts.addAccount('ada');
    const secret = newSecret(false);
    await store.accounts.addKey({ account: 'ada', name: 'k', scopes: [...scopes], lifetimeMs: null, secret });
    const ids = Array.from({ length: 40 }, (_, at) => BigInt(at));
    const ask = () => [
      ...ids.map((after) => reads.list({ limit: 3, after })),
      ...ids.map((after) => reads.list({ limit: 3, after, status: 'available' })),
    ];
    const single = ids.slice(20, 35).map((id) => reads.find(id));
    const unknown = newSecret(false).hash;
    const found = [secret.hash, unknown, secret.hash].map((hash) => keys.ask(hash));
    const pages = await Promise.all(ask());
    expect((await Promise.all(single)).map(({ pet: text }) => text?.slice(0, 8))).toEqual(
      ids.slice(20, 35).map((id) => (id <= 30n ? `{"id":${id}` : undefined)),
    );
    const key = { id: 1, account: 'ada' };
    expect(await Promise.all(found)).toMatchObject([key, undefined, key]);
    // Pages, single animals and keys.
    expect(sent.statements).toBe(3);
    for (const [at, page] of pages.entries()) {
      const after = at % 40;
      const numbers = [1, 2, 3].map((step) => after + step).filter((id) => id <= 30);
      expect(page.pets.map((text) => JSON.parse(text).id)).toEqual(numbers);
      expect(page.next).toBe(after + 3 < 30 ? BigInt(after + 3) : undefined);
      expect(page.state).toEqual(pages[0]?.state);
    }
    // Of more reads than a statement carries, none is lost, and equal ones count once.
    const many = await Promise.all([...ask(), ...ask(), ...ids.map((id) => reads.find(id + 1000n))]);
    expect(many).toHaveLength(200);
    expect(sent.statements).toBe(5);
    await Promise.all(Array.from({ length: 1100 }, (_, after) => reads.list({ limit: 1, after: BigInt(after) })));
    expect(sent.statements).toBe(8);
  });

  test('return the JSON that is stored with each row, and the same for rows that have none', async () => {
    const { store, reads, sql } = await start();
    const names = ['Biscuit', '"\\\u0001\n\t\u007f\u2028🦊', "%s '"];
    for (const name of names) await store.pets.add({ ...pet, name });
    const read = async () => [...(await reads.list(everything)).pets, (await reads.find(2n)).pet];
    const texts = names.map((name, at) => petJson(at + 1, name, pet.categoryId, pet.status));
    const stored = (await sql`SELECT json FROM pet ORDER BY id`).map(({ json }) => json);
    expect(stored).toEqual(texts);
    expect(await read()).toEqual([...texts, texts[1]]);
    /** Without the trigger. */
    const setAll = (json: string) =>
      sql.unsafe(
        `SET session_replication_role = replica; UPDATE pet SET json = ${json}; RESET session_replication_role`,
      );
    await setAll('NULL');
    expect(await read()).toEqual([...texts, texts[1]]);
    await setAll(`format('{"id":%s}', id)`);
    expect(await read()).toEqual(['{"id":1}', '{"id":2}', '{"id":3}', '{"id":2}']);
    await sql`UPDATE pet SET name = 'Crumb', json = 'anything' WHERE id = 2`;
    expect((await read())[1]).toBe('{"id":2,"name":"Crumb","categoryId":7,"status":"available"}');
  });

  test('do not wait for two statements that hang', async () => {
    const never = Promise.withResolvers<number[]>();
    const batch = createBatch<number, number>({
      keyOf: String,
      send: async (numbers) => (numbers.includes(0) || numbers.includes(1) ? never.promise : numbers),
    });
    const hanging = [batch.ask(0)];
    await sleep(1);
    hanging.push(batch.ask(1));
    await sleep(1);
    const begun = performance.now();
    expect(await batch.ask(2)).toBe(2);
    expect(performance.now() - begun).toBeLessThan(1000);
    never.resolve([7]);
    expect(await Promise.all(hanging)).toEqual([7, 7]);
  });

  test('have two statements under way at most; what is asked meanwhile shares the next', async () => {
    let most = 0;
    let under = 0;
    const sizes: number[] = [];
    const batch = createBatch<number, number>({
      keyOf: String,
      async send(numbers) {
        sizes.push(numbers.length);
        most = Math.max(most, ++under);
        await sleep(20);
        under -= 1;
        return numbers;
      },
    });
    const answers: Promise<number>[] = [];
    for (let turn = 0; turn < 6; turn++) {
      answers.push(batch.ask(turn), batch.ask(turn));
      await sleep(1);
    }
    expect(await Promise.all(answers)).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    expect([most, sizes]).toEqual([2, [1, 1, 4]]);
  });
});

describe('the state', () => {
  test('has another version, and the same revision, after an addition', async () => {
    const { store, reads, sql } = await start();
    const before = await reads.state();
    await store.pets.add(pet);
    await sql`SELECT add_pets(ARRAY['of an earlier release'], ARRAY[1], ARRAY['sold'], ARRAY[NULL]::bigint[], ARRAY[NULL]::text[], ARRAY[1], 1)`;
    const after = await reads.state();
    expect(after.revision).toBe(before.revision);
    expect([before.version, after.version]).toEqual(['0', '2']);
  });

  test.for<[string, string]>([
    ['an update', "UPDATE pet SET name = 'other' WHERE id = 2"],
    ['a deletion', 'DELETE FROM pet WHERE id = 1'],
    ['the deletion of all', 'TRUNCATE pet'],
    ['an addition below the highest id', "INSERT INTO pet VALUES (2, 'other', 1, 'sold')"],
  ])('has another revision after %s', async ([, change]) => {
    const { store, reads, sql } = await start();
    await Promise.all([1, 2, 3].map(() => store.pets.add(pet)));
    if (change.startsWith('INSERT')) await sql`DELETE FROM pet WHERE id = 2`;
    const before = await reads.state();
    await sql.unsafe(change);
    expect((await reads.state()).revision).not.toBe(before.revision);
  });

  test('is equal to no other if its row is missing', async () => {
    const { store, reads, sql } = await start();
    await store.pets.add(pet);
    await sql`DELETE FROM pet_revision`;
    const { pets, state } = await reads.list(everything);
    expect(pets).toHaveLength(1);
    expect(state.revision === (await reads.state()).revision).toBe(false);
    await sql`INSERT INTO pet_revision VALUES (0)`;
  });
});
