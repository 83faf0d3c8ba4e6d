/** Tells whether the server can serve and the store commits, and logs each change, also while nobody asks. */
import type { Logger } from 'pino';
import { outageOf } from '../core/errors.ts';
import type { StoreMetrics } from '../store/store.ts';

/** How often the server asks the store if nobody calls /readyz. */
const askEveryMs = 5000;

/** Writes have recovered when one succeeds after this time without a failure. */
const calmMs = 1000;

const secondsSince = (begun: number) => Math.round((performance.now() - begun) / 1000);

export function createReadiness(logger: Logger) {
  let silent: { begun: number } | undefined;
  let failing: { begun: number; last: number; failed: number } | undefined;

  return {
    isReady: () => silent === undefined,

    /** Resolves to why `check` rejects, or to undefined. */
    async ask(check: () => Promise<void>): Promise<string | undefined> {
      const reason = await check().then(() => undefined, outageOf);
      if (reason !== undefined && !silent) {
        silent = { begun: performance.now() };
        logger.error({ reason }, 'not ready');
      } else if (reason === undefined && silent) {
        logger.info({ seconds: secondsSince(silent.begun) }, 'ready again');
        silent = undefined;
      }
      return reason;
    },

    /** Asks at intervals. Returns a function that ends this. */
    watch(check: () => Promise<void>): () => void {
      const timer = setInterval(() => void this.ask(check), askEveryMs).unref();
      return () => clearInterval(timer);
    },

    /** Reports what the store does to `metrics`, too. */
    follow: (metrics: Pick<StoreMetrics, 'commit' | 'query'>): StoreMetrics => ({
      query: metrics.query,
      commit(writes) {
        metrics.commit(writes);
        if (!failing || performance.now() - failing.last < calmMs) return;
        logger.info({ failed: failing.failed, seconds: secondsSince(failing.begun) }, 'writes succeed again');
        failing = undefined;
      },
      failed(error, writes) {
        const now = performance.now();
        if (!failing) logger.error({ reason: outageOf(error) }, 'writes fail');
        failing = { begun: failing?.begun ?? now, last: now, failed: (failing?.failed ?? 0) + writes };
      },
    }),
  };
}
