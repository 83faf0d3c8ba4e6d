/** Tests of what the store keeps of accounts, keys, sessions and links, and for how long. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { type ApiKey, newSecret, type Owner, RefusedError } from '../../src/core/accounts.ts';
import { dayMs, hourMs, limits } from '../../src/core/limits.ts';
import { newToken } from '../../src/core/people.ts';
import { borrowStore, open, textRows } from '../support/store.ts';

const start = Date.UTC(2027, 0, 1);
const at = (ms: number) => new Date(start + ms);

const newHash = () => newToken().hash;

/** A store with two people, whose passwords have the hash `old`; their accounts have the ids 1 and 2. */
async function openWithPeople() {
  const { store, setTime, databaseUrl } = await borrowStore();
  const { accounts, people } = store;
  setTime(at(0));
  for (const name of ['ada', 'ben']) await people.signUp(name, 'old');
  const addKey = async (account: Owner = 'ada', lifetimeMs: number | null = null) => {
    const key = { account, name: 'k', scopes: ['pets:read' as const], lifetimeMs, secret: newSecret(false) };
    return (await accounts.addKey(key)) as ApiKey;
  };
  return {
    ...{ store, databaseUrl, ...accounts, ...people },
    addKey,
    addSession: async (accountId = 1) => {
      const hash = newHash();
      expect(await people.addSession(hash, accountId, 'old')).toBe(true);
      return hash;
    },
    addLink: async (...link: ['invitation' | 'reset', accountId: number | null]) => {
      const hash = newHash();
      await people.addLink(hash, ...link);
      return hash;
    },
    /** Sets the clock to `ms` after the start. */
    setTime: (ms: number) => setTime(at(ms)),
    count: async (table: string) => Number((await textRows(databaseUrl, `SELECT count(*) AS n FROM ${table}`))[0]?.n),
  };
}

describe('a one-time link', () => {
  test('is valid to the millisecond: 24 hours for an invitation, one for a reset', async () => {
    const { signUp, setPassword, addLink, addAccount, findLink, setTime } = await openWithPeople();
    await addAccount('operator');
    const reset = await addLink('reset', 1);
    const lateReset = await addLink('reset', 2);
    const [own, first] = [await addLink('invitation', 3), await addLink('invitation', null)];
    setTime(hourMs - 1);
    expect(await setPassword(1, 'new', { link: reset })).toBe(true);
    setTime(hourMs);
    expect(await setPassword(2, 'new', { link: lateReset })).toBe(false);
    setTime(dayMs - 1);
    expect(await setPassword(3, 'new', { link: own })).toBe(true);
    expect(await signUp('cleo', 'old', first)).toMatchObject({ name: 'cleo' });
    const late = await addLink('invitation', null);
    setTime(2 * dayMs - 2);
    expect(await findLink(late)).toEqual({ purpose: 'invitation', account: null });
    setTime(2 * dayMs - 1);
    expect(await findLink(late)).toBeUndefined();
    expect(await signUp('dora', 'old', late)).toBe('link_used');
  });

  test('creates an account or sets a password only if it is for that', async () => {
    const { signUp, setPassword, addLink, findLink, findPerson, addSession, findSession, count } =
      await openWithPeople();
    const session = await addSession();
    const own = await addLink('reset', 1);
    const invitation = await addLink('invitation', null);
    const others = [await addLink('reset', null), await addLink('invitation', 2), newHash()];
    for (const link of [own, ...others]) expect(await signUp('cleo', 'old', link)).toBe('link_used');
    for (const link of [invitation, ...others]) expect(await setPassword(1, 'new', { link })).toBe(false);
    expect([await count('account'), await count('one_time_link')]).toEqual([2, 4]);
    expect(await findLink(own)).toMatchObject({ purpose: 'reset', account: { name: 'ada' } });
    expect(await findSession(session)).toBeDefined();
    expect((await findPerson('ada'))?.passwordHash).toBe('old');
  });
});

describe('a session', () => {
  test('ends 12 hours after its start, even if it is in use, and an hour after its last use', async () => {
    const { addSession, findSession, touchSession, setTime } = await openWithPeople();
    const [used, unused] = [await addSession(), await addSession()];
    for (let ms = hourMs / 2; ms < 12 * hourMs; ms += hourMs / 2) {
      setTime(ms);
      // The second is used too late: it does not begin again.
      for (const hash of ms < hourMs ? [used] : [used, unused]) await touchSession(hash);
      if (ms >= hourMs) expect(await findSession(unused)).toBeUndefined();
    }
    setTime(12 * hourMs - 1);
    expect(await findSession(used)).toBeDefined();
    setTime(12 * hourMs);
    expect(await findSession(used)).toBeUndefined();
  });
});

describe('accounts of one network', () => {
  const network = newHash();

  test('are at most 50 in 24 hours, also if they were deleted; a name that was taken does not count', async () => {
    const { signUp, removeAccount, setTime, count } = await openWithPeople();
    for (let number = 0; number < 50; number++) {
      expect(await signUp('ada', 'old', undefined, network)).toBe('name_taken');
      expect(await signUp(`a${number}`, 'old', undefined, network)).toMatchObject({ name: `a${number}` });
    }
    await removeAccount('a0');
    setTime(dayMs - 1);
    expect(await signUp('new', 'old', undefined, network)).toBe('too_many');
    expect(await signUp('other', 'old', undefined, newHash())).toMatchObject({ name: 'other' });
    expect(await signUp('invited', 'old')).toMatchObject({ name: 'invited' });
    setTime(dayMs);
    expect(await signUp('new', 'old', undefined, network)).toMatchObject({ name: 'new' });
    for (let number = 0; number < 5; number++) await signUp(`b${number}`, 'old', undefined, network);
    // Those that are over are deleted.
    expect(await count('counted_attempt')).toBe(7);
  });

  test('are at most 50 if two servers create them at the same time', async () => {
    const { signUp, databaseUrl } = await openWithPeople();
    const other = await open(databaseUrl, { now: () => at(0) });
    onTestFinished(other.close);
    for (let number = 0; number < 48; number++) await signUp(`a${number}`, 'old', undefined, network);
    const outcomes = await Promise.all(
      Array.from(Array(8), (_, number) =>
        (number % 2 ? signUp : other.people.signUp)(`b${number}`, 'old', undefined, network),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 'too_many')).toHaveLength(6);
  });

  test('that a clock ahead has counted do not keep out others when it is set back', async () => {
    const { signUp, setTime } = await openWithPeople();
    setTime(dayMs);
    for (let number = 0; number < 50; number++) await signUp(`a${number}`, 'old', undefined, network);
    setTime(0);
    expect(await signUp('new', 'old', undefined, network)).toMatchObject({ name: 'new' });
  });
});

test('a clock that is set back by a day ends sessions and links, which would live for longer', async () => {
  const { addSession, findSession, addLink, findLink, setPassword, signUp, endSessions, setTime } =
    await openWithPeople();
  setTime(dayMs);
  const [session, reset] = [await addSession(), await addLink('reset', 1)];
  const invitation = await addLink('invitation', null);
  const found = async () => [await findSession(session), await findLink(reset)].map(Boolean);
  setTime(dayMs - 60_000);
  expect(await found()).toEqual([true, true]);
  setTime(0);
  expect(await found()).toEqual([false, false]);
  expect(await endSessions(session)).toBe(false);
  expect(await setPassword(1, 'new', { link: reset })).toBe(false);
  expect(await signUp('cleo', 'old', invitation)).toBe('link_used');
  // Whoever signs in deletes sessions of the future: they do not come back when the clock gets there again.
  await addSession(2);
  setTime(dayMs);
  expect(await findSession(session)).toBeUndefined();
});

test('lists have every account and key, however many there are', async () => {
  const { addAccount, addKey, listAccounts, listKeys, keysFrom } = await openWithPeople();
  for (let first = 1; first <= 1000; first += 50) {
    // All at once would not end within a statement's time on a slow machine.
    const names = Array.from(Array(50), (_, index) => `zoo ${first + index}`);
    await Promise.all(names.map((name) => addAccount(name)));
    await Promise.all(names.map((name) => addKey(name)));
  }
  const ids = (rows: { id: number }[]) => rows.map(({ id }) => id);
  expect(ids(await listAccounts())).toEqual(Array.from(Array(1002), (_, index) => index + 1));
  expect(ids(await listKeys())).toEqual(Array.from(Array(1000), (_, index) => index + 1));
  expect(ids(await keysFrom(999, 1))).toEqual([999]);
  expect(ids(await keysFrom(1001, 1))).toEqual([]);
});

test('removing an account removes its keys, but not its messages and pets', async () => {
  const { store, databaseUrl, removeAccount, addAccount, addKey, listKeys, listAccounts } = await openWithPeople();
  await addKey();
  const message = { id: 'msg_1', message: 'Hello', status: 'queued', createdAt: at(0).toISOString() } as const;
  await store.messages.add({ ...message, accountId: 1 });
  await store.pets.add({ name: 'Biscuit', categoryId: 7n, status: 'available' }, { accountId: 1, key: 'retry' });
  expect(await removeAccount('ada', 'another hash')).toBeUndefined();
  expect(await removeAccount('ada')).toMatchObject({ id: 1, name: 'ada' });
  expect(await removeAccount('ada')).toBeUndefined();
  expect([await listAccounts(), await listKeys()]).toMatchObject([[{ name: 'ben' }], []]);
  expect(await textRows(databaseUrl, 'SELECT message, created_at FROM message')).toEqual([
    { message: 'Hello', created_at: `${start}` },
  ]);
  expect((await store.pets.list({ limit: 1, after: 0n })).pets).toHaveLength(1);
  // The id is not reused. Otherwise the new account would match the Idempotency-Keys of the old one.
  expect(await addAccount('ada')).toMatchObject({ id: 3 });
});

describe('the keys of an account', () => {
  test.each<[lifetimeMs: number | null, overlapUntil: number, old: number, next: number | null]>([
    [90 * dayMs, 31 * dayMs, 31 * dayMs, 120 * dayMs],
    [90 * dayMs, 100 * dayMs, 90 * dayMs, 120 * dayMs],
    [null, 31 * dayMs, 31 * dayMs, null],
  ])('that live for %s ms and overlap until %s are rotated to keys like them', async (lifetimeMs, until, old, next) => {
    const { addKey, rotateKey, listKeys, findKey, setTime } = await openWithPeople();
    const key = await addKey('ada', lifetimeMs);
    setTime(30 * dayMs);
    const secret = newSecret(false);
    const { accountId, name, scopes } = key;
    const rotated = { id: 2, accountId, name, scopes, expiresAt: next && at(next), revokedAt: null };
    const replaced = { ...key, expiresAt: at(old) };
    expect(await rotateKey(key.id, at(until), secret)).toMatchObject({ key: rotated, old: replaced });
    expect((await listKeys())[0]).toEqual(replaced);
    expect((await findKey(secret.hash))?.id).toBe(2);
  });

  test('that are rotated without an overlap are revoked: a clock that is behind does not bring them back', async () => {
    const { addKey, rotateKey, listKeys } = await openWithPeople();
    const key = await addKey();
    expect(await rotateKey(key.id, at(0), newSecret(false))).toMatchObject({ old: { revokedAt: at(0) } });
    expect(await listKeys()).toMatchObject([{ revokedAt: at(0) }, { revokedAt: null }]);
  });

  test('do not count for its limit when they are revoked or expired', async () => {
    const { addKey, revokeKey, setTime } = await openWithPeople();
    const add = async (count: number, lifetimeMs?: number) => {
      for (let index = 0; index < count; index++) await addKey('ada', lifetimeMs);
      await expect(addKey()).rejects.toThrow(RefusedError);
    };
    await add(limits.activeKeys, hourMs);
    await revokeKey(1);
    await add(1);
    setTime(hourMs - 1);
    await add(0);
    setTime(hourMs);
    await add(limits.activeKeys - 1);
  });

  test('are at most 100 in 24 hours if a person makes them; an operator may make more', async () => {
    const { addKey, addSession, setTime } = await openWithPeople();
    const session = await addSession();
    for (let index = 0; index < 100; index++) {
      setTime(2 * index);
      await addKey({ session }, 1);
    }
    setTime(1000);
    await expect(addKey({ session }, 1)).rejects.toMatchObject({ reason: 'too_many_today' });
    await addKey();
    setTime(25 * hourMs);
    expect(await addKey({ session: await addSession() }, 1)).toBeDefined();
  });
});
