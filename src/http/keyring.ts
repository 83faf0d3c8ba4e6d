/** The API keys of late, by the Authorization header that carried them: a busy client's costs two look-ups a second. */
import type { FastifyInstance } from 'fastify';
import type { ApiKey } from '../accounts.ts';

export interface Keyring {
  /** The key that `authorization` carries, as it was stored half a second ago at most; undefined where it has to be looked up. */
  recall(authorization: string): ApiKey | undefined;
  remember(authorization: string, key: ApiKey): void;
}

/** A revocation takes effect within a second, on every process. */
const knownForMs = 500;
const maxKnown = 10_000;

/** Forgets everything twice a second, and for good when `app` closes. */
export function createKeyring(app: FastifyInstance): Keyring {
  const known = new Map<string, ApiKey>();
  const timer = setInterval(() => known.clear(), knownForMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  return {
    recall: (authorization) => known.get(authorization),
    remember(authorization, key) {
      if (known.size >= maxKnown) known.clear();
      known.set(authorization, key);
    },
  };
}
