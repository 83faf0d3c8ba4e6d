/** Records when each API key was last used, and how often for deprecated calls. Kept in memory and written once a minute. */
import { setImmediate } from 'node:timers/promises';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Accounts, ApiKey, KeyUse } from '../core/accounts.ts';
import type { Metrics } from './metrics.ts';

export interface KeyUsage {
  count(key: ApiKey, at: Date): void;
  countDeprecated(key: ApiKey): void;
}

const flushEveryMs = 60_000;

/** How many keys one transaction updates. More would let other writes wait. */
const batchSize = 200;

/** Yields `batchSize` items at a time, with a turn of the event loop between them. */
async function* inBatches<Item>(items: Item[]): AsyncGenerator<Item[]> {
  for (let from = 0; from < items.length; from += batchSize) {
    if (from > 0) await setImmediate();
    yield items.slice(from, from + batchSize);
  }
}

export interface KeyUsageOptions {
  accounts: Accounts;
  metrics: Metrics;
  logger: FastifyBaseLogger;
  now: () => Date;
}

/** Flushes every minute and when `app` closes. No request waits for it. */
export function createKeyUsage(app: FastifyInstance, { accounts, metrics, logger, now }: KeyUsageOptions): KeyUsage {
  let uses = new Map<number, KeyUse>();

  /** Forgets keys that have ended. Otherwise each key that was ever used would keep its series in the metrics. */
  async function dropEnded(): Promise<void> {
    for await (const ids of inBatches(metrics.deprecatedKeys())) metrics.dropDeprecated(await accounts.findEnded(ids));
  }

  async function flush(): Promise<void> {
    const all = [...uses.values()];
    uses = new Map();
    for await (const batch of inBatches(all)) {
      try {
        await accounts.recordUses(batch);
      } catch (error) {
        logger.warn({ err: error }, 'could not record the use of API keys; the next attempt is in a minute');
        // The commit may have succeeded. Counting its calls twice is better than losing them.
        for (const { id, lastUsedAt, deprecatedCalls } of batch) {
          const use = uses.get(id) ?? { id, lastUsedAt, deprecatedCalls: 0 };
          use.deprecatedCalls += deprecatedCalls;
          uses.set(id, use);
        }
      }
    }
  }

  const timer = setInterval(() => {
    void flush();
    dropEnded().catch((error) => logger.warn({ err: error }, 'could not find out which API keys have ended'));
  }, flushEveryMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await flush();
  });

  function useOf(id: number): KeyUse {
    let use = uses.get(id);
    if (!use) {
      use = { id, lastUsedAt: now(), deprecatedCalls: 0 };
      uses.set(id, use);
    }
    return use;
  }

  return {
    count: ({ id }, at) => {
      useOf(id).lastUsedAt = at;
    },
    countDeprecated: (key) => {
      useOf(key.id).deprecatedCalls += 1;
      metrics.deprecatedCall(key);
    },
  };
}
