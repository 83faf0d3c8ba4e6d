/** The first API key of a store. */
import type { Logger } from 'pino';
import { createTrail } from '../account/trail.ts';
import { type Config, signUpOf } from '../config.ts';
import { newSecret, scopes } from '../core/accounts.ts';
import type { Metrics } from '../http/metrics.ts';
import type { Store } from '../store/store.ts';

/** Outside production, creates and prints a first API key and a call to try it, if the store has none. */
export async function giveFirstKey(
  config: Config,
  logger: Logger,
  { accounts }: Store,
  metrics: Metrics,
  url: string,
): Promise<void> {
  if ((await accounts.keysFrom(1, 1)).length > 0) return;
  if (config.DEPLOYMENT === 'production') {
    const create = ['none', 'off'].includes(signUpOf(config))
      ? 'account add NAME, then key create --account NAME --name NAME'
      : 'account invite';
    logger.warn(`there is no API key yet: animal-store ${create}`);
    return;
  }
  // If two processes start at once, only the one that adds the account prints a key.
  const account = await accounts.addAccount('first');
  if (!account) return;
  const record = createTrail(logger, metrics);
  record('account_created', undefined, account.id);
  const secret = newSecret(false);
  const newKey = { account: 'first', name: 'first', scopes: [...scopes], lifetimeMs: null, secret };
  const key = await accounts.addKey(newKey);
  if (key) record('key_created', undefined, account.id, key.id);
  // On stderr: a secret must not be in the log. The log is written first.
  logger.flush();
  process.stderr.write(
    `\nThe store had no API key, so here is a first one. It is shown only now:\n\n  ${secret.key}\n\nTry it:\n\n  curl -H 'Authorization: Bearer ${secret.key}' ${url}/v1/pets\n\n`,
  );
}
