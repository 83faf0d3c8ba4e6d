/** Lets a command end after its current step when a signal asks it to, and at once when a second one does. */
import { sameInterruptMs } from '../server/start.ts';

const signals = ['SIGINT', 'SIGTERM'] as const;

/** Calls `onFirst` at the first SIGINT or SIGTERM; a second one ends the process. `ignore` restores what signals did before. */
export function watchSignals(onFirst: () => void): { isInterrupted: () => boolean; ignore: () => void } {
  let interruptedAt: number | undefined;

  function interrupt(signal: NodeJS.Signals): void {
    const now = performance.now();
    if (interruptedAt === undefined) {
      interruptedAt = now;
      onFirst();
    } else if (now - interruptedAt >= sameInterruptMs) {
      ignore();
      process.kill(process.pid, signal);
    }
  }

  function ignore(): void {
    for (const signal of signals) process.off(signal, interrupt);
  }

  for (const signal of signals) process.on(signal, interrupt);
  return { isInterrupted: () => interruptedAt !== undefined, ignore };
}
