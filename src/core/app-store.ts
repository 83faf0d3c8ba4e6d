/** What the HTTP server needs of a store. */
import type { Accounts } from './accounts.ts';
import type { StoreMeasures } from './measures.ts';
import type { Messages } from './messages.ts';
import type { People } from './people.ts';
import type { Pets } from './pets.ts';

export interface AppStore {
  pets: Pets;
  accounts: Accounts;
  messages: Messages;
  people: People;
  /** Current values for the metrics. */
  measure(): StoreMeasures;
}
