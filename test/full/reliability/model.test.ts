/** Runs random commands against a real process and a simple model, which must agree at each step. */
import fc from 'fast-check';
import { test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { commands, type Real } from '../../support/store-commands.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

test(
  'for any order of requests, across restarts and kill -9, the responses are those of a simple model',
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
        for (const command of sequence) {
          const [kind = ''] = String(command).split(' ');
          done.set(kind, (done.get(kind) ?? 0) + 1);
        }
      }),
      // Shrinking a failing sequence may take hours: after this time the shortest one so far is reported.
      { numRuns: runs, interruptAfterTimeLimit: patientMs / 2, markInterruptAsFailure: true },
    );
    const total = [...done.values()].reduce((sum, count) => sum + count, 0);
    const listed = [...done].sort(([, a], [, b]) => b - a).map(([kind, count]) => `${kind} ${count}`);
    figure(`${runs} runs of ${total} commands in all, each as the model predicts: ${listed.join(', ')}`);
  },
  patientMs,
);
