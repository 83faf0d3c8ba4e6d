/** Tests of accounts and API keys in the store. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { newSecret, type Scope } from '../../../src/core/accounts.ts';
import { openStore } from '../../../src/store/open.ts';
import { emptyStore, textRows } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

describe('accounts and keys', () => {
  const dayMs = 24 * 60 * 60 * 1000;
  const at = (days: number) => new Date(Date.UTC(2027, 0, 1) + days * dayMs);

  async function openWithKey({ lifetimeMs = null }: { lifetimeMs?: number | null } = {}) {
    let time = at(0);
    const databaseUrl = await emptyStore();
    const store = await openStore(databaseUrl, { now: () => time });
    onTestFinished(() => store.close());
    await store.accounts.addAccount('owner');
    const scopes: Scope[] = ['pets:read'];
    const key = await store.accounts.addKey({
      account: 'owner',
      name: 'old',
      scopes,
      lifetimeMs,
      secret: newSecret(false),
    });
    if (!key) throw new Error('no key was added');
    const setTime = (value: Date) => {
      time = value;
    };
    return { ...store.accounts, store, databaseUrl, key, setTime };
  }

  test('removing an account removes its keys, but not its messages and pets', async () => {
    const { store, databaseUrl, removeAccount, listKeys, listAccounts } = await openWithKey();
    const message = { id: 'msg_1', message: 'Hello', status: 'queued', createdAt: at(0).toISOString() };
    await store.messages.add({ ...message, accountId: 1 });
    await store.pets.add(biscuit, { accountId: 1, key: 'retry' });
    expect(await removeAccount('owner')).toMatchObject({ id: 1, name: 'owner' });
    expect(await removeAccount('owner')).toBeUndefined();
    expect([await listAccounts(), await listKeys()]).toEqual([[], []]);
    expect(await textRows(databaseUrl, 'SELECT * FROM message')).toEqual([
      { id: 'msg_1', account_id: '1', message: 'Hello', status: 'queued', created_at: String(at(0).getTime()) },
    ]);
    expect((await store.pets.list({ limit: 1, after: 0n })).pets).toHaveLength(1);
    // The id is not reused. Otherwise the new account would match the Idempotency-Keys of the old one.
    expect(await store.accounts.addAccount('owner')).toMatchObject({ id: 2 });
  });

  test('rotation creates a key like the old one, which stays valid for the overlap', async () => {
    const { rotateKey, listKeys, findKey, setTime, key } = await openWithKey({ lifetimeMs: 90 * dayMs });
    setTime(at(30));
    const secret = newSecret(false);
    const { account, accountId, name, scopes } = key;
    const rotated = await rotateKey(key.id, at(31), secret);
    expect(rotated).toMatchObject({ id: 2, account, accountId, name, scopes, createdAt: at(30), expiresAt: at(120) });
    expect(rotated).toMatchObject({ revokedAt: null, lastUsedAt: null, deprecatedCalls: 0, hint: secret.hint });
    expect((await listKeys())[0]).toEqual({ ...key, expiresAt: at(31) });
    expect((await findKey(secret.hash))?.id).toBe(2);
  });

  test('rotating a key that never expires creates another that never expires', async () => {
    const { rotateKey, listKeys } = await openWithKey();
    expect(await rotateKey(1, at(1), newSecret(false))).toMatchObject({ expiresAt: null });
    expect((await listKeys())[0]?.expiresAt).toEqual(at(1));
    expect(await rotateKey(2, at(1), newSecret(false))).toMatchObject({ expiresAt: null });
  });

  test('rotation never extends the lifetime of the old key', async () => {
    const { rotateKey, listKeys } = await openWithKey({ lifetimeMs: dayMs });
    await rotateKey(1, at(5), newSecret(false));
    expect((await listKeys())[0]?.expiresAt).toEqual(at(1));
  });
});
