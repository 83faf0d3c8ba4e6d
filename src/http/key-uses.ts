/** When each API key was last used, and how often for deprecated calls: kept in memory, written once a minute. */
import type { FastifyInstance } from 'fastify';
import type { Accounts, ApiKey, KeyUse } from '../accounts.ts';
import type { Metrics } from './metrics.ts';

export interface KeyUses {
  count(key: ApiKey): void;
  countDeprecated(key: ApiKey): void;
}

const flushEveryMs = 60_000;

/** Flushes every minute and when `app` closes; no request waits for it. */
export function createKeyUses(app: FastifyInstance, accounts: Accounts, metrics: Metrics, now: () => Date): KeyUses {
  let uses = new Map<number, KeyUse>();

  async function flush(): Promise<void> {
    const batch = [...uses.values()];
    uses = new Map();
    if (batch.length === 0) return;
    try {
      await accounts.recordUses(batch);
    } catch (error) {
      app.log.warn({ err: error }, 'the last use of API keys is not recorded yet');
      // To be counted twice after an unclear commit is a lesser fault than not at all.
      for (const { id, lastUsedAt, deprecatedCalls } of batch) {
        const use = uses.get(id) ?? { id, lastUsedAt, deprecatedCalls: 0 };
        use.deprecatedCalls += deprecatedCalls;
        uses.set(id, use);
      }
    }
  }

  const timer = setInterval(flush, flushEveryMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await flush();
  });

  function useOf({ id }: ApiKey): KeyUse {
    const use = uses.get(id) ?? { id, lastUsedAt: now(), deprecatedCalls: 0 };
    uses.set(id, use);
    return use;
  }

  return {
    count: (key) => {
      useOf(key).lastUsedAt = now();
    },
    countDeprecated: (key) => {
      useOf(key).deprecatedCalls += 1;
      metrics.deprecatedCall(key);
    },
  };
}
