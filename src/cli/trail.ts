/** Records in the trail what a command changes of accounts and keys. A running server writes it to its log. */
import { messageOf } from '../core/errors.ts';
import type { TrailEvent } from '../core/people.ts';
import type { Store } from '../store/store.ts';

/**
 * The same store; each change of accounts, keys and links that succeeds is also added to its trail. If an event cannot be added, its change
 * still succeeds, because a new key must be shown, and `onLost` is called with a sentence for the operator.
 */
export function recordChanges(store: Store, onLost: (sentence: string) => void): Store {
  const { accounts, people, trail } = store;

  async function record(event: TrailEvent): Promise<void> {
    try {
      await trail.add(event);
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined;
      const message = messageOf(cause ?? error);
      onLost(`The change was made, but its event ${event.event} is missing in the trail: ${message}.`);
    }
  }

  return {
    ...store,
    accounts: {
      ...accounts,
      async addAccount(name) {
        const account = await accounts.addAccount(name);
        if (account) await record({ event: 'account_created', account: account.id });
        return account;
      },
      async removeAccount(owner, passwordHash) {
        const account = await accounts.removeAccount(owner, passwordHash);
        if (account) await record({ event: 'account_removed', account: account.id });
        return account;
      },
      async addKey(newKey) {
        const key = await accounts.addKey(newKey);
        if (key) await record({ event: 'key_created', account: key.accountId, key: key.id });
        return key;
      },
      async revokeKey(id, session) {
        const key = await accounts.revokeKey(id, session);
        if (key) await record({ event: 'key_revoked', account: key.accountId, key: key.id });
        return key;
      },
      async rotateKey(id, oldExpiresAt, secret, session) {
        const key = await accounts.rotateKey(id, oldExpiresAt, secret, session);
        if (key) await record({ event: 'key_rotated', account: key.accountId, key: key.id });
        return key;
      },
    },
    people: {
      ...people,
      async addLink(hash, purpose, accountId) {
        await people.addLink(hash, purpose, accountId);
        const event = purpose === 'invitation' ? 'account_invited' : 'account_reset';
        await record({ event, account: accountId ?? undefined });
      },
    },
  };
}
