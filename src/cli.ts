#!/usr/bin/env node
/** The entry point of the operator's commands. */
import { handleSignals, load, onEndSignal } from './server/start.ts';

// Process 1 of a container would have no handlers.
if (process.pid === 1) {
  handleSignals();
  onEndSignal(() => process.exit(1));
}

const { run } = await load(() => import('./cli/program.ts'));
// Standard input is opened only if a command reads it.
process.exitCode = await run(process.argv.slice(2), process.env, process);
