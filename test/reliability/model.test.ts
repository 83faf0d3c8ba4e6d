/** Random commands to a real process, and to a model that is simple enough to be right: they must agree at each step. */
import fc from 'fast-check';
import { test } from 'vitest';
import { startServer } from '../support/process.ts';
import { commands, type Real } from '../support/store-commands.ts';
import { figure, tier } from '../support/tier.ts';

test('whatever is asked in whatever order, across restarts and kill -9, the answers are those of a simple model', async () => {
  const done = new Map<string, number>();
  // The next run's process starts while this one's is asked.
  const runs = tier(4, 300);
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      const server = await startServer({ env: { NODE_V8_COVERAGE: undefined } });
      const real: Real = { server, key: await server.firstKey() };
      try {
        await fc.asyncModelRun(() => ({ model: { pets: [], retries: new Map(), seen: new Map() }, real }), sequence);
      } finally {
        await real.server.end('SIGKILL');
      }
      for (const told of sequence) {
        const [kind = ''] = String(told).split(' ');
        done.set(kind, (done.get(kind) ?? 0) + 1);
      }
    }),
    { numRuns: runs },
  );
  const total = [...done.values()].reduce((sum, count) => sum + count, 0);
  const told = [...done].sort(([, a], [, b]) => b - a).map(([kind, count]) => `${kind} ${count}`);
  figure(`${runs} runs of ${total} commands in all, each answered as the model says: ${told.join(', ')}`);
}, 3_600_000);
