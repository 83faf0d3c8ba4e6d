import { describe, expect, onTestFinished, test } from 'vitest';
import { type ApiKey, KeyLimitError, newSecret } from '../../../src/core/accounts.ts';
import { limits } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';
import { emptyStore, textRows } from '../../support/store.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const start = Date.UTC(2027, 0, 1);
const at = (ms: number) => new Date(start + ms);

const firstHash = '$argon2id$v=19$m=19456,t=2,p=1$Zmlyc3Q$Zmlyc3Q';
const secondHash = '$argon2id$v=19$m=19456,t=2,p=1$c2Vjb25k$c2Vjb25k';

const newHash = () => newToken().hash;

/** An empty store, its clock, and a second server on the same database. */
async function openPeople() {
  const databaseUrl = await emptyStore();
  let time = start;
  const open = async () => {
    const store = await openStore(databaseUrl, { now: () => new Date(time) });
    onTestFinished(() => store.close());
    return store;
  };
  const store = await open();
  return {
    databaseUrl,
    store,
    ...store.people,
    openSecond: open,
    /** Sets the clock to `ms` after the start. */
    setTime: (ms: number) => {
      time = start + ms;
    },
    count: async (table: string) => Number((await textRows(databaseUrl, `SELECT count(*) AS n FROM ${table}`))[0]?.n),
  };
}

/** A store with two people; their accounts have the ids 1 and 2. */
async function openWithPeople() {
  const opened = await openPeople();
  for (const name of ['ada', 'ben']) await opened.signUp(name, firstHash);
  return opened;
}

describe('signing up', () => {
  test('needs an invitation that is less than 24 hours old', async () => {
    const { signUp, addLink, findLink, setTime } = await openPeople();
    const [first, second] = [newHash(), newHash()];
    for (const link of [first, second]) await addLink(link, 'invitation', null);
    setTime(24 * hourMs - 1);
    expect(await signUp('ada', firstHash, first)).toMatchObject({ name: 'ada' });
    expect(await findLink(second)).toEqual({ purpose: 'invitation', account: null });
    setTime(24 * hourMs);
    expect(await findLink(second)).toBeUndefined();
    expect(await signUp('ben', firstHash, second)).toBe('link_used');
  });

  test('accepts no other link: one to reset, one of an account, an unknown one', async () => {
    const { signUp, addLink, findLink, count } = await openWithPeople();
    const [reset, resetOfNone, invitationOfBen] = [newHash(), newHash(), newHash()];
    await addLink(reset, 'reset', 1);
    await addLink(resetOfNone, 'reset', null);
    await addLink(invitationOfBen, 'invitation', 2);
    for (const link of [reset, resetOfNone, invitationOfBen, newHash()])
      expect(await signUp('cleo', firstHash, link)).toBe('link_used');
    expect(await findLink(reset)).toMatchObject({ purpose: 'reset', account: { name: 'ada' } });
    expect(await findLink(invitationOfBen)).toMatchObject({ purpose: 'invitation', account: { name: 'ben' } });
    expect(await count('account')).toBe(2);
  });
});

describe('setting a password', () => {
  /** Each person has two sessions and two links. */
  async function openWithSessions() {
    const opened = await openWithPeople();
    const sessions = [1, 1, 2, 2].map((accountId) => ({ accountId, hash: newHash() }));
    for (const { hash, accountId } of sessions) await opened.addSession(hash, accountId, firstHash);
    const links = [1, 1, 2, 2].map((accountId) => ({ accountId, hash: newHash() }));
    for (const { hash, accountId } of links) await opened.addLink(hash, 'reset', accountId);
    /** The accounts of the sessions and links that are valid. */
    const remaining = async () => ({
      sessions: (await Promise.all(sessions.map(({ hash }) => opened.findSession(hash)))).map(
        (session) => session?.account.id,
      ),
      links: (await Promise.all(links.map(({ hash }) => opened.findLink(hash)))).map((link) => link?.account?.id),
    });
    const [link, , linkOfBen] = links.map(({ hash }) => hash) as [Buffer, Buffer, Buffer];
    return { ...opened, link, linkOfBen, remaining };
  }
  const everything = { sessions: [1, 1, 2, 2], links: [1, 1, 2, 2] };

  test('or the removal of the account needs the hash that it was checked against, if one is given', async () => {
    const { store, setPassword, findPerson } = await openWithPeople();
    expect(await setPassword(1, secondHash, { previous: secondHash })).toBe(false);
    expect((await findPerson('ada'))?.passwordHash).toBe(firstHash);
    expect(await setPassword(1, secondHash, { previous: firstHash })).toBe(true);
    expect(await store.accounts.removeAccount('ada', firstHash)).toBeUndefined();
    expect(await store.accounts.removeAccount('ada', secondHash)).toMatchObject({ id: 1 });
    await store.accounts.addAccount('program');
    expect(await setPassword(3, firstHash)).toBe(true);
  });

  test.for(["another account's link", 'an invitation for a new account', 'an unknown link'])(
    'with %s changes nothing',
    async (what) => {
      const { setPassword, addLink, findLink, findPerson, linkOfBen, remaining } = await openWithSessions();
      const invitation = newHash();
      await addLink(invitation, 'invitation', null);
      const given = what.startsWith('another') ? linkOfBen : what.endsWith('account') ? invitation : newHash();
      expect(await setPassword(1, secondHash, { link: given })).toBe(false);
      expect(await remaining()).toEqual(everything);
      expect(await findLink(invitation)).toBeDefined();
      expect((await findPerson('ada'))?.passwordHash).toBe(firstHash);
    },
  );

  test('needs a link that has not expired: one hour to reset, 24 hours for an invitation', async () => {
    const { store, setPassword, addLink, setTime } = await openWithPeople();
    await store.accounts.addAccount('operator');
    const [reset, lateReset, invitation] = [newHash(), newHash(), newHash()];
    await addLink(reset, 'reset', 1);
    await addLink(lateReset, 'reset', 2);
    await addLink(invitation, 'invitation', 3);
    setTime(hourMs - 1);
    expect(await setPassword(1, secondHash, { link: reset })).toBe(true);
    setTime(hourMs);
    expect(await setPassword(2, secondHash, { link: lateReset })).toBe(false);
    setTime(24 * hourMs - 1);
    expect(await setPassword(3, secondHash, { link: invitation })).toBe(true);
    expect(await store.people.findPerson('operator')).toMatchObject({ passwordHash: secondHash });
  });
});

describe('a session', () => {
  test('ends 12 hours after its start, even if it is in use', async () => {
    const { addSession, findSession, touchSession, setTime } = await openWithPeople();
    const hash = newHash();
    await addSession(hash, 1, firstHash);
    for (let ms = 0; ms < 12 * hourMs; ms += hourMs / 2) {
      setTime(ms);
      await touchSession(hash);
    }
    setTime(12 * hourMs - 1);
    await touchSession(hash);
    expect(await findSession(hash)).toBeDefined();
    setTime(12 * hourMs);
    expect(await findSession(hash)).toBeUndefined();
  });

  test('that has ended does not begin again when it is used late', async () => {
    const { addSession, findSession, touchSession, setTime } = await openWithPeople();
    const hash = newHash();
    await addSession(hash, 1, firstHash);
    setTime(hourMs);
    await touchSession(hash);
    expect(await findSession(hash)).toBeUndefined();
  });

  test('keeps its latest use if another server reports an earlier one', async () => {
    const { addSession, findSession, touchSession, setTime } = await openWithPeople();
    const hash = newHash();
    setTime(1000);
    await addSession(hash, 1, firstHash);
    setTime(0);
    await touchSession(hash);
    expect((await findSession(hash))?.usedAt).toEqual(at(1000));
  });

  test('does not begin after the password was changed, or while it is being changed', async () => {
    const opened = await openWithPeople();
    const { addSession, findSession, setPassword } = opened;
    const session = newHash();
    await setPassword(1, secondHash);
    expect(await addSession(session, 1, firstHash)).toBe(false);
    expect(await findSession(session)).toBeUndefined();
    expect(await addSession(session, 1, secondHash)).toBe(true);
    const sessions = Array.from({ length: 20 }, newHash);
    const change = opened.setPassword(2, secondHash);
    await Promise.all([change, ...sessions.map((hash) => addSession(hash, 2, firstHash))]);
    expect((await Promise.all(sessions.map((hash) => findSession(hash)))).filter(Boolean)).toEqual([]);
  });

  test('of an account that was removed meanwhile is not added, nor a link; writes at the same time succeed', async () => {
    const { store, addSession, addLink, count } = await openWithPeople();
    await Promise.all([
      addSession(newHash(), 99, firstHash),
      store.pets.add({ name: 'Biscuit', categoryId: 7n, status: 'available' }),
      addLink(newHash(), 'reset', 99),
    ]);
    expect([await count('session'), await count('one_time_link'), await count('pet')]).toEqual([0, 0, 1]);
  });

  test('that is added deletes up to ten that have ended', async () => {
    const { addSession, findSession, setTime, count } = await openWithPeople();
    for (let index = 0; index < 15; index++) await addSession(newHash(), 1, firstHash);
    setTime(hourMs - 1);
    const valid = newHash();
    await addSession(valid, 1, firstHash);
    expect(await count('session')).toBe(16);
    setTime(hourMs);
    await addSession(newHash(), 1, firstHash);
    expect(await count('session')).toBe(7);
    await addSession(newHash(), 1, firstHash);
    expect(await count('session')).toBe(3);
    expect(await findSession(valid)).toBeDefined();
  });
});

describe('a one-time link', () => {
  test('that is added deletes up to ten that have expired', async () => {
    const { addLink, findLink, setTime, count } = await openWithPeople();
    for (let index = 0; index < 15; index++) await addLink(newHash(), 'reset', 1);
    const valid = newHash();
    await addLink(valid, 'invitation', null);
    setTime(hourMs);
    await addLink(newHash(), 'invitation', null);
    expect(await count('one_time_link')).toBe(7);
    await addLink(newHash(), 'invitation', null);
    expect(await count('one_time_link')).toBe(3);
    expect(await findLink(valid)).toBeDefined();
  });
});

describe('a clock that is set back by a day', () => {
  test('ends sessions and links, which would live for longer', async () => {
    const { addSession, findSession, addLink, findLink, setPassword, signUp, endSessions, setTime } =
      await openWithPeople();
    const [session, reset, invitation] = [newHash(), newHash(), newHash()];
    setTime(24 * hourMs);
    await addSession(session, 1, firstHash);
    await addLink(reset, 'reset', 1);
    await addLink(invitation, 'invitation', null);
    setTime(24 * hourMs - minuteMs);
    expect([await findSession(session), await findLink(reset), await findLink(invitation)]).not.toContain(undefined);
    setTime(0);
    expect([await findSession(session), await findLink(reset), await findLink(invitation)]).toEqual(
      Array(3).fill(undefined),
    );
    expect(await endSessions(session)).toBe(false);
    expect(await setPassword(1, secondHash, { link: reset })).toBe(false);
    expect(await signUp('cleo', firstHash, invitation)).toBe('link_used');
    // Whoever signs in deletes sessions of the future: they do not come back when the clock gets there again.
    await addSession(newHash(), 2, firstHash);
    setTime(24 * hourMs);
    expect(await findSession(session)).toBeUndefined();
  });
});

test('an account has at most 50 sessions: a new one ends the one that was used first', async () => {
  const { addSession, findSession, setTime, count } = await openWithPeople();
  const hashes = Array.from({ length: 51 }, newHash);
  for (const [index, hash] of hashes.entries()) {
    setTime(index);
    await addSession(hash, 1, firstHash);
  }
  await addSession(newHash(), 2, firstHash);
  expect(await count('session')).toBe(51);
  expect(await findSession(hashes[0] as Buffer)).toBeUndefined();
  expect(await findSession(hashes[1] as Buffer)).toBeDefined();
});

describe('the keys of an account', () => {
  const addKey = (
    { accounts }: Store,
    { account = 'ada', lifetimeMs = null }: { account?: string; lifetimeMs?: number | null } = {},
  ) => accounts.addKey({ account, name: 'k', scopes: ['pets:read'], lifetimeMs, secret: newSecret(false) });

  /** A store in which ada has `keys` keys that expire after `lifetimeMs`. */
  async function openWithKeys(keys: number, lifetimeMs: number | null = null) {
    const opened = await openWithPeople();
    const added: ApiKey[] = [];
    for (let index = 0; index < keys; index++) added.push((await addKey(opened.store, { lifetimeMs })) as ApiKey);
    return { ...opened, ...opened.store.accounts, added };
  }

  test('do not count when they are revoked or expired', async () => {
    const { store, added, revokeKey, setTime } = await openWithKeys(limits.activeKeys, hourMs);
    await revokeKey((added[0] as ApiKey).id);
    await addKey(store);
    await expect(addKey(store)).rejects.toThrow(KeyLimitError);
    setTime(hourMs - 1);
    await expect(addKey(store)).rejects.toThrow(KeyLimitError);
    setTime(hourMs);
    for (let index = 0; index < limits.activeKeys - 1; index++) await addKey(store);
    await expect(addKey(store)).rejects.toThrow(KeyLimitError);
  });

  test('can be rotated at the limit only without overlap; a refused rotation leaves the old key as it was', async () => {
    const { store, added, rotateKey, listKeys, findKey } = await openWithKeys(limits.activeKeys, 90 * hourMs);
    await store.accounts.removeAccount('ben');
    const before = await listKeys();
    const [first, last] = [added[0] as ApiKey, added[49] as ApiKey];
    const refused = newSecret(false);
    await expect(rotateKey(first.id, at(hourMs), refused)).rejects.toThrow(KeyLimitError);
    await expect(rotateKey(first.id, at(900 * hourMs), refused)).rejects.toThrow(KeyLimitError);
    expect(await listKeys()).toEqual(before);
    expect(await findKey(refused.hash)).toBeUndefined();
    const secret = newSecret(false);
    expect(await rotateKey(last.id, at(0), secret)).toMatchObject({ expiresAt: at(90 * hourMs), accountId: 1 });
    expect((await findKey(secret.hash))?.name).toBe('k');
    expect((await listKeys())[49]?.expiresAt).toEqual(at(0));
  });

  test('that have ended are the newest 100; all of them go with the account', async () => {
    const { store, count, setTime } = await openWithKeys(1);
    for (let index = 1; index <= 103; index++) {
      setTime(index);
      const { id } = (await addKey(store)) as ApiKey;
      await store.accounts.revokeKey(id);
    }
    expect((await store.accounts.listOwnKeys(1, 1000)).ended.map(({ id }) => id)).toEqual(
      Array.from({ length: 100 }, (_, index) => 104 - index),
    );
    await store.accounts.removeAccount('ada');
    expect(await count('api_key')).toBe(0);
  });

  test('are at most 100 in 24 hours if a person makes them; an operator may make more', async () => {
    const { store, addSession, setTime } = await openWithPeople();
    const session = newHash();
    await addSession(session, 1, firstHash);
    const make = async () => {
      const secret = newSecret(false);
      const key = { account: { session }, name: 'k', scopes: [], lifetimeMs: 1, secret };
      return (await store.accounts.addKey(key)) as ApiKey;
    };
    for (let index = 0; index < 100; index++) {
      setTime(2 * index);
      await make();
    }
    setTime(1000);
    await expect(make()).rejects.toMatchObject({ name: 'KeyLimitError', reason: 'day' });
    await addKey(store);
    const later = newHash();
    setTime(25 * hourMs);
    await addSession(later, 1, firstHash);
    const secret = newSecret(false);
    expect(
      await store.accounts.addKey({ account: { session: later }, name: 'k', scopes: [], lifetimeMs: 1, secret }),
    ).toBeDefined();
  });
});
