#!/usr/bin/env node
/** The entry point of the operator's commands. */
import { load } from './server/start.ts';

const { run } = await load(() => import('./cli/program.ts'));
// Standard input is opened only if a command reads it.
process.exitCode = await run(process.argv.slice(2), process.env, process);
