/** Tests of the reads that share a statement: what they return, what one of them does to the others, and what the state tells. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { newSecret, scopes } from '../../../src/core/accounts.ts';
import { limits } from '../../../src/core/limits.ts';
import { petJson } from '../../../src/core/pets.ts';
import { createHosts } from '../../../src/store/postgres/hosts.ts';
import { always } from '../../../src/store/postgres/lease.ts';
import { findPet, listPets } from '../../../src/store/postgres/pets.ts';
import { createPool, type Pool, sessionSettings } from '../../../src/store/postgres/pool.ts';
import { createReads } from '../../../src/store/postgres/reads.ts';
import { readTarget } from '../../../src/store/postgres/url.ts';
import { findKey } from '../../../src/store/queries/accounts.ts';
import { sql as step } from '../../../src/store/steps.ts';
import { clientOf, emptyStore, open } from '../../support/store.ts';

const pet = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;
const everything = { limit: 100, after: 0n };

/** Reads of a store, with the bytes that each of their statements returned. */
async function start() {
  const databaseUrl = await emptyStore();
  const store = await open(databaseUrl);
  const hosts = createHosts(readTarget(databaseUrl));
  const connect = (onClose: () => void) => hosts.connect(onClose, sessionSettings);
  const pool = createPool({ connect, lease: always, size: 4, maxWaiting: 100 });
  onTestFinished(() => pool.close());
  const sizes: number[] = [];
  const read: Pool['read'] = async (work, options) => {
    const rows = await pool.read(work, options);
    sizes.push((rows as unknown[][]).flat().reduce<number>((sum, value) => sum + String(value).length, 0));
    return rows;
  };
  return { databaseUrl, store, sizes, reads: createReads({ read }, false), sql: clientOf(databaseUrl) };
}

describe('reads of one turn', () => {
  test('share one statement, and each gets its own answer', async () => {
    const { store, sizes, reads } = await start();
    await Promise.all(Array.from({ length: 30 }, (_, at) => store.pets.add({ ...pet, name: `pet ${at}` })));
    await store.accounts.addAccount('ada');
    const secret = newSecret(false);
    await store.accounts.addKey({ account: 'ada', name: 'k', scopes: [...scopes], lifetimeMs: null, secret });
    const ids = Array.from({ length: 40 }, (_, at) => BigInt(at));
    const ask = () => [
      ...ids.map((after) => listPets(reads, { limit: 3, after })),
      ...ids.map((after) => listPets(reads, { limit: 3, after, status: 'available' })),
    ];
    const found = ids.slice(20, 35).map((id) => findPet(reads, id));
    const keys = [secret.hash, newSecret(false).hash].map((hash) => reads.run(() => findKey(hash)));
    const pages = await Promise.all(ask());
    expect((await Promise.all(found)).map(({ pet: text }) => text?.slice(0, 8))).toEqual(
      ids.slice(20, 35).map((id) => (id <= 30n ? `{"id":${id}` : undefined)),
    );
    expect(await Promise.all(keys)).toMatchObject([{ id: '1', account: 'ada', lifetime_ms: null }, undefined]);
    // 97 reads; the state is the 98th.
    expect(sizes).toHaveLength(1);
    for (const [at, page] of pages.entries()) {
      const after = at % 40;
      const numbers = [1, 2, 3].map((step) => after + step).filter((id) => id <= 30);
      expect(page.pets.map((text) => JSON.parse(text).id)).toEqual(numbers);
      expect(page.next).toBe(after + 3 < 30 ? BigInt(after + 3) : undefined);
      expect(page.state).toEqual(pages[0]?.state);
    }
    // Of more reads than a statement carries, none is lost, and equal ones count once.
    const many = await Promise.all([...ask(), ...ask(), ...ids.map((id) => findPet(reads, id + 1000n))]);
    expect(many).toHaveLength(200);
    expect(sizes).toHaveLength(3);
  });

  test('return integers beyond 2^53, texts and bytes exactly', async () => {
    const { reads } = await start();
    const texts = ['"', '\\', '{a,b}', 'NULL', '', "'; DROP TABLE pet; --", '\u0001\n\t', '\\x00', '🦊'];
    const one = (text: string) =>
      reads.run(() => step<object>`SELECT ${text} AS text, ${2n ** 63n - 1n} AS big, ${null} AS none`);
    expect(await Promise.all(texts.map(one))).toEqual(
      texts.map((text) => [{ text, big: '9223372036854775807', none: null }]),
    );
    const bytes = [0, 1, 92, 34, 255].map((byte) => Buffer.from([byte, byte]));
    const hex = (value: Buffer) => reads.run(() => step<object>`SELECT encode(${value}, 'hex') AS hex`);
    expect(await Promise.all(bytes.map(hex))).toEqual(bytes.map((value) => [{ hex: value.toString('hex') }]));
  });

  test('return the JSON that is stored with each row, and the same for rows that have none', async () => {
    const { store, reads, sql } = await start();
    const names = ['Biscuit', '"\\\u0001\n\t\u007f\u2028🦊', "%s '"];
    for (const name of names) await store.pets.add({ ...pet, name });
    const read = async () => [...(await listPets(reads, everything)).pets, (await findPet(reads, 2n)).pet];
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

  test('of which one fails, succeed otherwise', async () => {
    const { store, sizes, reads } = await start();
    await store.pets.add(pet);
    const divide = (by: number) => reads.run(() => step`SELECT 1 / ${by} AS one`);
    const outcomes = await Promise.allSettled([
      divide(1),
      divide(0),
      listPets(reads, everything),
      reads.run(() => step`SELECT ${'a\0b'} AS text`),
      reads.state(),
    ]);
    expect(outcomes).toMatchObject([
      { value: [{ one: '1' }] },
      { reason: { code: '22012' } },
      { value: { pets: [expect.any(String)] } },
      { reason: { code: '22021' } },
      { value: { version: '1' } },
    ]);
    // The statement of all has failed, and both alone.
    expect(sizes).toHaveLength(3);
  });

  test('of which one waits for a lock, are answered in time', async () => {
    const { store, reads, sql } = await start();
    await store.pets.add(pet);
    await sql.begin(async (transaction) => {
      await transaction`LOCK TABLE api_key`;
      const begun = performance.now();
      const key = reads.run(() => findKey(newSecret(false).hash));
      const refused = expect(key).rejects.toMatchObject({ code: 'service_unavailable' });
      expect((await listPets(reads, everything)).pets).toHaveLength(1);
      expect(performance.now() - begun).toBeLessThan(limits.statement * 0.8);
      await refused;
      const passed = performance.now() - begun;
      expect(passed).toBeGreaterThan(limits.statement * 0.8);
      expect(passed).toBeLessThan(limits.statement + 500);
    });
  });

  test('are answered in parts of little more than 1 MiB', async () => {
    const { store, sizes, reads } = await start();
    const name = 'x'.repeat(60_000);
    await Promise.all(Array.from({ length: 24 }, () => store.pets.add({ ...pet, name })));
    const pages = await Promise.all([0n, 1n, 2n, 3n, 4n].map((after) => listPets(reads, { limit: 15, after })));
    expect(pages.map(({ pets, next }) => [pets.length, next])).toEqual(
      [0n, 1n, 2n, 3n, 4n].map((after) => [15, after + 15n]),
    );
    // A page has 16 rows, of which one shows that there is another page: 0.96 MB.
    expect(sizes).toHaveLength(4);
    expect(Math.max(...sizes)).toBeLessThan(2_000_000);
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
    const { pets, state } = await listPets(reads, everything);
    expect(pets).toHaveLength(1);
    expect(state.revision === (await reads.state()).revision).toBe(false);
    await sql`INSERT INTO pet_revision VALUES (0)`;
  });
});
