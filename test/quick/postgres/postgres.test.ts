/** Tests of the PostgreSQL store alone, and of both engines side by side. */
import fc from 'fast-check';
import type postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { limits } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import { TimeoutError } from '../../../src/store/postgres/errors.ts';
import { createPetReads } from '../../../src/store/postgres/pets.ts';
import type { Statement } from '../../../src/store/postgres/sql.ts';
import type { Store } from '../../../src/store/store.ts';
import { clientOf, emptyStore, open, temporaryFolder, textRows } from '../../support/store.ts';

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

test('the store works with prepare=false, without named statements, for use behind a pooler', async () => {
  const databaseUrl = await emptyStore();
  const store = await open(`${databaseUrl}?prepare=false&connections=1`);
  const retry = { accountId: 1, key: 'k' };
  expect(await store.pets.add(biscuit, retry)).toMatchObject({ outcome: 'added', id: 1n });
  expect(await store.pets.add(biscuit, retry)).toMatchObject({ outcome: 'replayed', id: 1n });
  expect((await store.pets.list({ ...everything, status: 'available' })).pets).toHaveLength(1);
  await store.accounts.addAccount('owner');
  const key = { account: 'owner', name: 'k', scopes: [], lifetimeMs: 60_000, secret: newSecret(false) };
  expect(await store.accounts.addKey(key)).toMatchObject({ id: 1 });
  expect((await store.accounts.findKey(key.secret.hash))?.name).toBe('k');
  expect(await store.accounts.rotateKey(1, new Date(), newSecret(false))).toMatchObject({ id: 2 });
  const { people } = store;
  const link = newToken().hash;
  await people.addLink(link, 'invitation', null);
  expect(await people.signUp('ada', 'hash', link)).toMatchObject({ id: 2, hasPassword: true });
  await people.addSession(link, 2, 'hash');
  expect((await people.findSession(link))?.account.name).toBe('ada');
  expect(await people.setPassword(2, 'other hash')).toBe(true);
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
      const [reader] = stores as [Store];
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
  const metrics = { commit: (count: number) => void commits.push(count), query: () => undefined };
  const store = await open(await emptyStore(), { metrics });
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

describe('locks', () => {
  /** Resolves when that many sessions wait for a lock. */
  async function waitForLocks(sql: postgres.Sql, sessions: number): Promise<void> {
    const waiting = () => sql`
      SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await expect.poll(async () => (await waiting()).length, { timeout: 2000, interval: 5 }).toBe(sessions);
  }

  /** Runs `act` while another session holds what `hold` has locked; then that session rolls back. `act` starts calls and waits for none. */
  async function whileLocked<Result>(
    databaseUrl: string,
    hold: (transaction: postgres.TransactionSql) => Promise<unknown>,
    act: (waiting: (sessions: number) => Promise<void>) => Promise<Promise<Result>[]>,
  ): Promise<PromiseSettledResult<Result>[]> {
    const sql = clientOf(databaseUrl);
    let results: Promise<PromiseSettledResult<Result>[]> | undefined;
    const rollback = new Error('rollback');
    const held = clientOf(databaseUrl).begin(async (transaction) => {
      await hold(transaction);
      results = Promise.allSettled(await act((sessions) => waitForLocks(sql, sessions)));
      throw rollback;
    });
    await expect(held).rejects.toBe(rollback);
    return (await results) ?? [];
  }

  test('of two sign-ups with one invitation the second waits for the first, even if that one waits for its name', async () => {
    const databaseUrl = await emptyStore();
    const { people } = await open(databaseUrl);
    const { hash } = newToken();
    await people.addLink(hash, 'invitation', null);
    const results = await whileLocked(
      databaseUrl,
      (transaction) => transaction`INSERT INTO account (name, created_at) VALUES ('ada', 0)`,
      async (waiting) => {
        const first = people.signUp('ada', 'hash', hash);
        await waiting(1);
        const second = people.signUp('ben', 'hash', hash);
        await waiting(2);
        return [first, second];
      },
    );
    expect(results).toMatchObject([{ value: { name: 'ada' } }, { value: 'link_used' }]);
  });

  test('of two keys that are added or rotated at the limit the second waits for the first', async () => {
    const databaseUrl = await emptyStore();
    const { accounts } = await open(databaseUrl);
    await accounts.addAccount('ada');
    const add = (secret = newSecret(false)) =>
      accounts.addKey({ account: 'ada', name: 'k', scopes: [], lifetimeMs: null, secret });
    for (let index = 1; index < limits.activeKeys; index++) await add();
    const secret = newSecret(false);
    const results = await whileLocked(
      databaseUrl,
      (transaction) => transaction`
        INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at) VALUES (1, 'k', '', ${secret.hash}, '', 0)`,
      async (waiting) => {
        // The hash is unique: this call waits after it has counted the keys.
        const first = add(secret);
        await waiting(1);
        const others = [add(), accounts.rotateKey(1, new Date(Date.now() + 60_000), newSecret(false))];
        await waiting(3);
        return [first, ...others];
      },
    );
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(results.slice(1)).toMatchObject(Array(2).fill({ reason: { name: 'KeyLimitError' } }));
  });

  test('a password change also ends a session that another server is adding', async () => {
    const databaseUrl = await emptyStore();
    const { people } = await open(databaseUrl);
    await people.signUp('ada', 'first hash');
    const { hash } = newToken();
    const sql = clientOf(databaseUrl);
    let changing: Promise<boolean> | undefined;
    await clientOf(databaseUrl).begin(async (transaction) => {
      const now = Date.now();
      await transaction`INSERT INTO session (hash, account_id, created_at, used_at) VALUES (${hash}, 1, ${now}, ${now})`;
      changing = people.setPassword(1, 'second hash');
      await waitForLocks(sql, 1);
    });
    expect(await changing).toBe(true);
    expect(await people.findSession(hash)).toBeUndefined();
  });

  /** Why a call is rejected. On a busy machine, its deadline can come before the answer that the database gives 0.3 s earlier: then it is called again. */
  async function reasonOf(call: () => Promise<unknown>): Promise<unknown> {
    for (let left = 4; ; left--) {
      const reason = await call().catch((error: unknown) => error);
      if (left === 0 || !((reason as Error).cause instanceof TimeoutError)) return reason;
    }
  }

  test('that another session holds for long make every function give up after two seconds', async () => {
    const databaseUrl = await emptyStore();
    // Those of people use a quarter of the connections.
    const store = await open(`${databaseUrl}?connections=24`);
    const { accounts, people } = store;
    const link = newToken().hash;
    const newKey = () => ({ account: 'cleo', name: 'k', scopes: [], lifetimeMs: null, secret: newSecret(false) });
    for (const name of ['ada', 'ben', 'cleo']) await people.signUp(name, 'hash');
    await people.addLink(link, 'invitation', null);
    await accounts.addKey(newKey());
    // Opens a connection for each call.
    await Promise.all(Array.from({ length: 6 }, () => store.check()));
    await clientOf(databaseUrl).begin(async (transaction) => {
      for (const table of ['account', 'one_time_link']) await transaction`SELECT FROM ${transaction(table)} FOR UPDATE`;
      // Each waits for a row of its own: a second one in the queue for a row would wait for longer.
      const calls: (() => Promise<unknown>)[] = [
        () => people.signUp('dora', 'hash', link),
        () => people.setPassword(1, 'hash'),
        () => accounts.addKey({ ...newKey(), account: 'ben' }),
        () => accounts.rotateKey(1, new Date(), newSecret(false)),
      ];
      const reasons = await Promise.all(calls.map(reasonOf));
      expect(reasons).toMatchObject(calls.map(() => ({ code: 'service_unavailable', cause: { code: '55P03' } })));
    });
  });
});

test('every list walks an index and sorts nothing, so that it costs no more in a larger store', async () => {
  const databaseUrl = await emptyStore();
  const sql = clientOf(databaseUrl);
  await sql`INSERT INTO pet SELECT n, 'x', n, ('{available,pending,sold}'::text[])[1 + n % 3] FROM generate_series(1, 20000) AS n`;
  await sql`ANALYZE pet`;
  const statements: string[] = [];
  const record = {
    async arrays({ text }: Statement) {
      statements.push(text);
      return [];
    },
  };
  const reads = createPetReads({ read: (work) => work(record as never) });
  await reads.list({ limit: 20, after: 0n });
  await reads.find(1n);
  const plans = await Promise.all(
    statements.map(async (text) =>
      (await sql.unsafe(`EXPLAIN (GENERIC_PLAN, COSTS OFF) ${text}`)).map((row) => row['QUERY PLAN']),
    ),
  );
  expect(
    plans.map((plan) =>
      plan
        .filter((line) => /Scan.* on pet\b|Sort/.test(line))
        .map((line) =>
          line
            .trim()
            .replace('->  ', '')
            .replace(/ pet_\d$/, ''),
        ),
    ),
  ).toEqual(
    [['pet_pkey', 'pet_status_id'], ['pet_pkey']].map((indexes) => [
      // The highest id, which is part of the state.
      'Index Only Scan Backward using pet_pkey on pet',
      ...indexes.map((index) => `Index Scan using ${index} on pet`),
    ]),
  );
});
