/** Records in the trail which accounts, keys and links a command changes. A running server writes the events to its log. */
import type { Account, ApiKey } from '../core/accounts.ts';
import { messageOf } from '../core/errors.ts';
import type { TrailEvent, TrailEventName } from '../core/people.ts';
import type { Store } from '../store/store.ts';

type Ids = Omit<TrailEvent, 'event'>;

const idsOfAccount = ({ id }: Account): Ids => ({ account: id });
const idsOfKey = ({ accountId, id }: ApiKey): Ids => ({ account: accountId, key: id });

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

  /** The same change; if it succeeds, its event is added. */
  function recorded<Given extends unknown[], Changed>(
    event: TrailEventName,
    idsOf: (changed: Changed) => Ids,
    change: (...given: Given) => Promise<Changed | undefined>,
  ) {
    return async (...given: Given) => {
      const changed = await change(...given);
      if (changed) await record({ event, ...idsOf(changed) });
      return changed;
    };
  }

  return {
    ...store,
    accounts: {
      ...accounts,
      addAccount: recorded('account_created', idsOfAccount, accounts.addAccount),
      removeAccount: recorded('account_removed', idsOfAccount, accounts.removeAccount),
      addKey: recorded('key_created', idsOfKey, accounts.addKey),
      revokeKey: recorded('key_revoked', idsOfKey, accounts.revokeKey),
      rotateKey: recorded('key_rotated', idsOfKey, accounts.rotateKey),
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
