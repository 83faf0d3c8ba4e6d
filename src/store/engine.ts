/** What an engine does for the parts of a store that are written once for both. */
import type { Pets } from '../core/pets.ts';
import type { CommandName, Input, Outcome } from './commands.ts';
import type { KnownKeyRow } from './rows.ts';
import type { Steps } from './steps.ts';

/** The fast paths, which each engine has of its own. */
type FastPets = Pick<Pets, 'list' | 'find' | 'add' | 'isCurrent'>;

/** Every function rejects with ApiError `service_unavailable` if the store is unavailable. */
export interface Engine {
  /** Runs a command in a transaction. Resolves after its commit. */
  write<Name extends CommandName>(name: Name, input: Input<Name>): Promise<Outcome<Name>>;
  /** Runs a query. `forKey`: for a request with a key that was valid recently; those of strangers may wait longer. */
  read<Result>(query: () => Steps<Result>, forKey?: boolean): Promise<Result>;
  /** Finds a key by the SHA-256 of its text. */
  findKeyRow(hash: Buffer, forKey?: boolean): Promise<KnownKeyRow | undefined>;
  pets: FastPets;
}
