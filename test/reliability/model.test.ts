/** Random commands to a real process, and to a model that is simple enough to be right: they must agree at each step. */
import fc from 'fast-check';
import { test } from 'vitest';
import { startServer } from '../support/process.ts';
import { commands, type Real } from '../support/store-commands.ts';
import { figure, patientMs, tier } from '../support/tier.ts';

test(
  'whatever is asked in whatever order, across restarts and kill -9, the answers are those of a simple model',
  async () => {
    const done = new Map<string, number>();
    const runs = tier(4, 200);
    await fc.assert(
      fc.asyncProperty(commands, async (sequence) => {
        const server = await startServer();
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
      // To look for a shorter sequence that fails too may take hours: the shortest so far is told after some time.
      { numRuns: runs, interruptAfterTimeLimit: patientMs / 2, markInterruptAsFailure: true },
    );
    const total = [...done.values()].reduce((sum, count) => sum + count, 0);
    const told = [...done].sort(([, a], [, b]) => b - a).map(([kind, count]) => `${kind} ${count}`);
    figure(`${runs} runs of ${total} commands in all, each answered as the model says: ${told.join(', ')}`);
  },
  patientMs,
);
