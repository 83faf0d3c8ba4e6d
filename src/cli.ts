#!/usr/bin/env node
/** The entry point of the operator's commands. */
import { load } from './server/start.ts';

const { run } = await load(() => import('./cli/program.ts'));
process.exitCode = await run(process.argv.slice(2), process.env, {
  cwd: process.cwd(),
  // Opened only if a command reads it.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
});
