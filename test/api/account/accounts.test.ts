/** Tests of the lists of accounts and keys, and of the removal of an account. */

import { expect, test } from 'vitest';
import {
  alertOf,
  ended,
  next,
  noticeOf,
  password,
  redirect,
  removedCookie,
  startWithAda,
} from '../../support/account-pages.ts';
import { at, openWithPeople } from '../../support/people.ts';
import { textRows } from '../../support/store.ts';

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
    { message: 'Hello', created_at: `${+at(0)}` },
  ]);
  expect((await store.pets.list({ limit: 1, after: 0n })).pets).toHaveLength(1);
  // The id is not reused. Otherwise the new account would match the Idempotency-Keys of the old one.
  expect(await addAccount('ada')).toMatchObject({ id: 3 });
});

test('deletion removes the account, its sessions and its keys, and no others', async () => {
  const { app, account, here, there } = await startWithAda();
  await app.newKey({ account: 'ada' });
  // A page from before somebody else signed in here.
  for (const [form, more] of Object.entries({ delete: {}, password: { password: next } })) {
    const refused = await here.post(`/account/${form}`, { name: 'ben', current: password, ...more });
    expect(alertOf(refused)).toContain('This page was open for the account ben, but you are signed in as ada.');
  }
  const deleted = await here.post('/account/delete', { name: 'ada', current: password });
  expect(deleted).toMatchObject(redirect('/account/sign-in?done=deleted'));
  expect(deleted.cookies).toEqual([expect.stringMatching(removedCookie)]);
  expect(noticeOf(await here.get('/account/sign-in?done=deleted'))).toBe('Your account and its keys are deleted.');
  expect((await app.store.accounts.listKeys()).map(({ account }) => account)).toEqual(['tests']);
  expect((await app.signIn('ada')).status).toBe(403);
  // The name is free again, and what the old account had does not come back.
  expect((await app.addPerson('ada')).id).not.toBe(account.id);
  expect(await there.get('/account')).toMatchObject(ended);
});
