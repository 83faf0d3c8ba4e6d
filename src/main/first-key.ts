/** The key that a first start outside production gives away, so that a first visitor can make a first call. */
import type { Logger } from 'pino';
import { newSecret, scopes } from '../accounts.ts';
import type { Repository } from '../repository/repository.ts';

/** Prints a new key and a call to try at `url`, where the store has no key yet; in production keys are made on purpose only. */
export async function giveFirstKey(store: Repository, url: string, logger: Logger, live: boolean): Promise<void> {
  if ((await store.accounts.listKeys()).length > 0) return;
  if (live) {
    logger.warn('there is no API key yet: animal-store account add NAME, then key create --account NAME --name NAME');
    return;
  }
  // Of two processes that start at once, the one that adds the account gives the key.
  if (!(await store.accounts.addAccount('first'))) return;
  const secret = newSecret(false);
  await store.accounts.addKey({ account: 'first', name: 'first', scopes: [...scopes], lifetimeMs: null, secret });
  // On stderr: a secret has no place in a log. What the log has to say comes before.
  logger.flush();
  process.stderr.write(
    `\nThe store had no API key, so here is a first one. It is shown only now:\n\n  ${secret.key}\n\nTry it:\n\n  curl -H 'Authorization: Bearer ${secret.key}' ${url}/v1/pets\n\n`,
  );
}
