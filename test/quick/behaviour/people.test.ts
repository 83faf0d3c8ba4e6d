/** Tests of people in the store: passwords, sessions, links, and the limit of keys. */
import fs from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type ApiKey, KeyLimitError, newSecret } from '../../../src/core/accounts.ts';
import { limits } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';
import { clientOf, emptyStore, engine, newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';

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

/** Calls `act` `times` times at once, on two servers in turn. */
async function simultaneously<Result>(
  { store, openSecond }: { store: Store; openSecond: () => Promise<Store> },
  times: number,
  act: (store: Store, index: number) => Promise<Result>,
): Promise<Result[]> {
  const servers = [store, await openSecond()] as const;
  // Opens all connections, which would otherwise be opened one after another.
  await Promise.all(servers.flatMap((server) => Array.from({ length: times }, () => server.check())));
  return Promise.all(Array.from({ length: times }, (_, index) => act(servers[index % 2] as Store, index)));
}

describe('signing up', () => {
  test('adds an account with a password', async () => {
    const { store, signUp, findPerson } = await openPeople();
    const account = { id: 1, name: 'ada', createdAt: at(0), hasPassword: true };
    expect(await signUp('ada', firstHash)).toEqual(account);
    expect(await findPerson('ada')).toEqual({ account, passwordHash: firstHash });
    expect(await store.accounts.listAccounts()).toEqual([account]);
    expect(await store.accounts.removeAccount('ada')).toEqual(account);
  });

  test('with a name that is taken changes nothing, whether its account has a password or not', async () => {
    const { store, signUp, findPerson } = await openPeople();
    await store.accounts.addAccount('operator');
    await signUp('ada', firstHash);
    expect(await signUp('operator', secondHash)).toBe('name_taken');
    expect(await signUp('ada', secondHash)).toBe('name_taken');
    expect((await findPerson('operator'))?.passwordHash).toBeNull();
    expect((await findPerson('ada'))?.passwordHash).toBe(firstHash);
    expect(await store.accounts.listAccounts()).toHaveLength(2);
  });

  test('with one name at the same time succeeds once', async () => {
    const opened = await openPeople();
    const results = await simultaneously(opened, 20, ({ people }) => people.signUp('ada', firstHash));
    expect(results.filter((result) => result === 'name_taken')).toHaveLength(19);
    expect(await opened.count('account')).toBe(1);
  });

  test('uses up an invitation', async () => {
    const { store, signUp, addLink, findLink } = await openPeople();
    const link = newHash();
    await addLink(link, 'invitation', null);
    expect(await signUp('ada', firstHash, link)).toMatchObject({ id: 1, name: 'ada', hasPassword: true });
    expect(await findLink(link)).toBeUndefined();
    expect(await signUp('ben', firstHash, link)).toBe('link_used');
    expect(await store.accounts.listAccounts()).toHaveLength(1);
  });

  test('with one invitation at the same time succeeds once', async () => {
    const opened = await openPeople();
    const link = newHash();
    await opened.addLink(link, 'invitation', null);
    const results = await simultaneously(opened, 20, ({ people }, index) =>
      people.signUp(`person ${index}`, firstHash, link),
    );
    expect(results.filter((result) => result === 'link_used')).toHaveLength(19);
    expect(await opened.count('account')).toBe(1);
  });

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

  test('with a taken name leaves the invitation usable', async () => {
    const { signUp, addLink } = await openWithPeople();
    const link = newHash();
    await addLink(link, 'invitation', null);
    expect(await signUp('ada', secondHash, link)).toBe('name_taken');
    expect(await signUp('cleo', secondHash, link)).toMatchObject({ name: 'cleo' });
  });
});

test('a person is found by the exact name, with a null hash if the account has no password', async () => {
  const { store, findPerson } = await openWithPeople();
  const added = await store.accounts.addAccount('operator');
  expect(added).toEqual({ id: 3, name: 'operator', createdAt: at(0), hasPassword: false });
  expect(await findPerson('operator')).toEqual({ account: added, passwordHash: null });
  expect((await findPerson('ada'))?.passwordHash).toBe(firstHash);
  for (const name of ['nobody', 'Ada', 'ada ', '']) expect(await findPerson(name)).toBeUndefined();
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
  const onlyBen = { sessions: [undefined, undefined, 2, 2], links: [undefined, undefined, 2, 2] };

  test('ends all sessions and links of the account, and of no other', async () => {
    const { setPassword, findPerson, remaining } = await openWithSessions();
    expect(await remaining()).toEqual(everything);
    expect(await setPassword(1, secondHash)).toBe(true);
    expect(await remaining()).toEqual(onlyBen);
    expect((await findPerson('ada'))?.passwordHash).toBe(secondHash);
    expect((await findPerson('ben'))?.passwordHash).toBe(firstHash);
  });

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

  test('with a link uses it up', async () => {
    const { setPassword, findPerson, addSession, findSession, link, remaining } = await openWithSessions();
    expect(await setPassword(1, secondHash, { link })).toBe(true);
    expect(await remaining()).toEqual(onlyBen);
    const session = newHash();
    await addSession(session, 1, secondHash);
    expect(await setPassword(1, firstHash, { link })).toBe(false);
    expect((await findPerson('ada'))?.passwordHash).toBe(secondHash);
    expect(await findSession(session)).toBeDefined();
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

  test('with one link at the same time succeeds once', async () => {
    const opened = await openWithSessions();
    const hashes = Array.from({ length: 20 }, (_, index) => `hash ${index}`);
    const results = await simultaneously(opened, 20, ({ people }, index) =>
      people.setPassword(1, hashes[index] as string, { link: opened.link }),
    );
    expect(results.filter(Boolean)).toHaveLength(1);
    expect((await opened.findPerson('ada'))?.passwordHash).toBe(hashes[results.indexOf(true)]);
  });

  test('of an account that does not exist resolves to false', async () => {
    const { setPassword } = await openWithPeople();
    expect(await setPassword(99, secondHash)).toBe(false);
    expect(await setPassword(99, secondHash, { link: newHash() })).toBe(false);
  });
});

describe('a session', () => {
  test('is found with its account and the time of its last use', async () => {
    const { addSession, findSession, findPerson, setTime } = await openWithPeople();
    const hash = newHash();
    setTime(5);
    await addSession(hash, 2, firstHash);
    expect(await findSession(hash)).toEqual({ account: (await findPerson('ben'))?.account, usedAt: at(5) });
    expect(await findSession(newHash())).toBeUndefined();
  });

  test('ends an hour after its last use', async () => {
    const { addSession, findSession, touchSession, setTime } = await openWithPeople();
    const [idle, used] = [newHash(), newHash()];
    for (const hash of [idle, used]) await addSession(hash, 1, firstHash);
    setTime(hourMs - 1);
    expect(await findSession(idle)).toBeDefined();
    await touchSession(used);
    setTime(hourMs);
    expect(await findSession(idle)).toBeUndefined();
    setTime(2 * hourMs - 2);
    expect(await findSession(used)).toMatchObject({ usedAt: at(hourMs - 1) });
    setTime(2 * hourMs - 1);
    expect(await findSession(used)).toBeUndefined();
  });

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

  test('ends when it is ended, alone or with all of its account', async () => {
    const { addSession, findSession, endSession, endSessions } = await openWithPeople();
    const [first, second, third, ofBen] = [newHash(), newHash(), newHash(), newHash()];
    for (const hash of [first, second, third]) await addSession(hash, 1, firstHash);
    await addSession(ofBen, 2, firstHash);
    const found = async () =>
      (await Promise.all([first, second, third, ofBen].map((hash) => findSession(hash)))).map(Boolean);
    await endSession(newHash());
    expect(await found()).toEqual([true, true, true, true]);
    await endSession(first);
    expect(await found()).toEqual([false, true, true, true]);
    expect(await endSessions(newHash())).toBe(false);
    expect(await endSessions(second)).toBe(true);
    expect(await found()).toEqual([false, false, false, true]);
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

  test('ends with its account, as do its links; those of other accounts stay', async () => {
    const { store, addSession, findSession, addLink, findLink, count } = await openWithPeople();
    const hashes = [1, 2].map((accountId) => ({ accountId, session: newHash(), link: newHash() }));
    for (const { accountId, session, link } of hashes) {
      await addSession(session, accountId, firstHash);
      await addLink(link, 'reset', accountId);
    }
    await store.accounts.removeAccount('ada');
    for (const { accountId, session, link } of hashes) {
      expect([await findSession(session), await findLink(link)].map(Boolean)).toEqual(Array(2).fill(accountId === 2));
    }
    expect([await count('session'), await count('one_time_link')]).toEqual([1, 1]);
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
  test('is found with its purpose and account until it expires', async () => {
    const { addLink, findLink, findPerson, setTime } = await openWithPeople();
    const [reset, invitation] = [newHash(), newHash()];
    await addLink(reset, 'reset', 1);
    await addLink(invitation, 'invitation', null);
    setTime(hourMs - 1);
    expect(await findLink(reset)).toEqual({ purpose: 'reset', account: (await findPerson('ada'))?.account });
    setTime(hourMs);
    expect(await findLink(reset)).toBeUndefined();
    expect(await findLink(invitation)).toEqual({ purpose: 'invitation', account: null });
    expect(await findLink(newHash())).toBeUndefined();
  });

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

  const limitOf = (error: unknown) => {
    if (error instanceof KeyLimitError) return 'too many';
    throw error;
  };

  test('are at most 50 active ones; another account has its own', async () => {
    const { store, listKeys } = await openWithKeys(limits.activeKeys);
    await expect(addKey(store)).rejects.toThrow(KeyLimitError);
    expect(await listKeys('ada')).toHaveLength(50);
    expect(await addKey(store, { account: 'ben' })).toMatchObject({ account: 'ben' });
    expect(await addKey(store, { account: 'nobody' })).toBeUndefined();
  });

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

  test('cannot exceed the limit if they are added at the same time on two servers: 45 and 20 make 50', async () => {
    const opened = await openWithKeys(45);
    const results = await simultaneously(opened, 20, (store) => addKey(store).catch(limitOf));
    expect(results.filter((result) => result === 'too many')).toHaveLength(15);
    expect(await opened.listKeys('ada')).toHaveLength(50);
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

  test('that never expire stay so after a refused rotation', async () => {
    const { added, rotateKey, listKeys } = await openWithKeys(limits.activeKeys);
    await expect(rotateKey((added[7] as ApiKey).id, at(1), newSecret(false))).rejects.toThrow(KeyLimitError);
    expect((await listKeys())[7]?.expiresAt).toBeNull();
  });

  test('cannot exceed the limit if they are rotated at the same time on two servers', async () => {
    const opened = await openWithKeys(45);
    const results = await simultaneously(opened, 20, ({ accounts }, index) =>
      accounts.rotateKey((opened.added[index] as ApiKey).id, at(hourMs), newSecret(false)).catch(limitOf),
    );
    expect(results.filter((result) => result === 'too many')).toHaveLength(15);
    const keys = await opened.listKeys('ada');
    expect(keys).toHaveLength(50);
    expect(keys.filter(({ expiresAt }) => expiresAt !== null)).toHaveLength(5);
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

  test('cannot be rotated or revoked in the name of another account', async () => {
    const { added, listKeys, findKey, revokeKey, rotateKey, addSession } = await openWithKeys(1);
    const [ofAda, ofBen] = [newHash(), newHash()];
    await addSession(ofAda, 1, firstHash);
    await addSession(ofBen, 2, firstHash);
    const [{ id }] = added as [ApiKey];
    const secret = newSecret(false);
    expect(await revokeKey(id, ofBen)).toBeUndefined();
    expect(await rotateKey(id, at(0), secret, ofBen)).toBeUndefined();
    expect(await listKeys()).toEqual(added);
    expect(await findKey(secret.hash)).toBeUndefined();
    expect(await rotateKey(id, at(0), secret, ofAda)).toMatchObject({ id: 2, accountId: 1 });
    expect(await revokeKey(id, ofAda)).toMatchObject({ id, revokedAt: at(0) });
    expect(await rotateKey(id, at(0), newSecret(false), ofAda)).toBeUndefined();
  });
});

/** A server of the release before the account pages: its statements on accounts and keys, over one connection to the schema that it created. */
async function openPrevious() {
  const sqlite = engine === 'SQLite';
  const folder = `migrations/${engine.toLowerCase().replace('postgresql', 'postgres')}`;
  const isBefore = (name: string) => name < (sqlite ? '0005' : '0002');
  const files = fs.readdirSync(folder).filter(isBefore).sort();
  const texts = files.map((name) => fs.readFileSync(`${folder}/${name}`, 'utf8'));
  const records = files.map((name, index) => `INSERT INTO migration VALUES (${index + 1}, '${name}', 0)`);
  const databaseUrl = sqlite ? `sqlite:${temporaryFolder()}/store.db` : await newDatabase();
  const run = sqlite
    ? runOnSqlite(databaseUrl, [...texts, ...records])
    : await runOnPostgres(databaseUrl, [...texts, ...records]);
  // SQLite named the columns, PostgreSQL did not.
  const columns = sqlite ? 'id, name, created_at' : '*';

  /** One round through the statements. `remove`: the account that it removes, with its keys. */
  async function useAccounts({ remove = 'round' } = {}): Promise<void> {
    const add = `INSERT INTO account (name, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING ${columns}`;
    for (const name of ['kept', 'round']) await run(add, name, 1);
    const accounts = await run(`SELECT ${columns} FROM account ORDER BY id`);
    expect(accounts.map(({ name }) => name)).toEqual(expect.arrayContaining(['kept', 'round', remove]));
    const { hash, hint } = newSecret(false);
    const [key] = await run(
      `INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at, lifetime_ms, expires_at)
       SELECT id, $1, $2, $3, $4, $5, $6, $7 FROM account WHERE name = $8 RETURNING *`,
      ...['k', hint, hash, 'pets:read', 1, null, null, 'round'],
    );
    const revoke = 'UPDATE api_key SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2 RETURNING *';
    expect(await run(revoke, 5, Number(key?.id))).toHaveLength(1);
    const find =
      'SELECT api_key.*, account.name AS account FROM api_key JOIN account ON account.id = account_id WHERE hash = $1';
    const [found] = await run(find, hash);
    expect([found?.account, String(found?.revoked_at)]).toEqual(['round', '5']);
    expect(await run(`DELETE FROM account WHERE name = $1 RETURNING ${columns}`, remove)).toHaveLength(1);
  }
  return { useAccounts, migrate: () => open(databaseUrl) };
}

type Row = Record<string, unknown>;

/** Runs `statements`, and returns a function that keeps each statement prepared, as a server does. */
function runOnSqlite(databaseUrl: string, statements: string[]) {
  const database = new Database(databaseUrl.replace('sqlite:', ''));
  onTestFinished(() => void database.close());
  database.pragma('journal_mode = WAL');
  for (const text of statements) database.exec(text);
  database.pragma(`application_id = ${0x414e4d4c}`);
  database.pragma('user_version = 4');
  const prepared = new Map<string, Database.Statement<unknown[], Row>>();
  return async (text: string, ...parameters: unknown[]): Promise<Row[]> => {
    const statement = prepared.get(text) ?? database.prepare<unknown[], Row>(text.replaceAll(/\$\d/g, '?'));
    prepared.set(text, statement);
    // Lets the rest of the process run between two statements.
    await new Promise(setImmediate);
    return statement.all(...parameters);
  };
}

async function runOnPostgres(databaseUrl: string, statements: string[]) {
  const sql = clientOf(databaseUrl);
  await sql`CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)`;
  for (const text of [`INSERT INTO migration VALUES (0, '', 0)`, ...statements]) await sql.unsafe(text);
  return async function run(text: string, ...parameters: unknown[]): Promise<Row[]> {
    try {
      return [...(await sql.unsafe<Row[]>(text, parameters as never[], { prepare: true }))];
    } catch (error) {
      // The server also sends a statement again that ended in a deadlock, here with the migration.
      if ((error as { code?: unknown }).code !== '40P01') throw error;
      return run(text, ...parameters);
    }
  };
}

test('a server of the release before continues to work while the schema is migrated, and after it', async () => {
  const { migrate, useAccounts } = await openPrevious();
  await useAccounts();
  await useAccounts();
  let migrating = true;
  const working = (async () => {
    while (migrating) await useAccounts();
    for (let left = 3; left > 0; left--) await useAccounts();
  })();
  const store = await migrate();
  migrating = false;
  await working;
  expect(await store.people.findPerson('kept')).toMatchObject({ account: { hasPassword: false }, passwordHash: null });
  // What this release adds does not disturb the other one.
  const account = await store.people.signUp('ada', firstHash);
  const session = newHash();
  await store.people.addSession(session, (account as { id: number }).id, firstHash);
  await useAccounts({ remove: 'ada' });
  expect(await store.people.findSession(session)).toBeUndefined();
  expect((await store.accounts.listAccounts()).map(({ name }) => name)).toEqual(['kept', 'round']);
});

test('an account lists its own keys, newest first: all active ones, and the last of those that have ended', async () => {
  const { store, setTime } = await openWithPeople();
  const ids = { active: [] as number[], ended: [] as number[] };
  for (let index = 0; index < 12; index++) {
    const account = index % 2 === 0 ? 'ada' : 'ben';
    const lifetimeMs = index % 3 === 0 ? minuteMs : null;
    const key = await store.accounts.addKey({ account, name: 'k', scopes: [], lifetimeMs, secret: newSecret(false) });
    const { id } = key as ApiKey;
    if (index % 4 === 2) await store.accounts.revokeKey(id);
    if (account === 'ada') ids[index % 3 === 0 || index % 4 === 2 ? 'ended' : 'active'].unshift(id);
  }
  setTime(minuteMs);
  const found = await store.accounts.listOwnKeys(1, 2);
  expect(found.active.map(({ id }) => id)).toEqual(ids.active);
  expect(found.ended.map(({ id }) => id)).toEqual(ids.ended.slice(0, 2));
  expect((await store.accounts.listOwnKeys(1, 100)).ended.map(({ id }) => id)).toEqual(ids.ended);
  expect(found.active[0]).toMatchObject({ account: 'ada', accountId: 1, name: 'k' });
});
