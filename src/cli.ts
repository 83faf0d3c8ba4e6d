#!/usr/bin/env node
/** The entry point of the operator's commands. */
import fs from 'node:fs';
import { handleSignals, load, onEndSignal } from './server/start.ts';

// The kernel ignores signals to process 1 of a container that have no handler.
if (process.pid === 1) {
  handleSignals();
  onEndSignal(() => process.exit(1));
}

// Node would open a debugger.
process.on('SIGUSR1', () => {});

try {
  // If the memory of a container runs out, the kernel ends the command, not the server beside it
  // (https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html).
  fs.writeFileSync('/proc/self/oom_score_adj', '500');
} catch {
  // No Linux, or the score is higher already.
}

const { run } = await load(() => import('./cli/program.ts'));
// Standard input is opened only if a command reads it.
process.exitCode = await run(process.argv.slice(2), process.env, process);
