#!/usr/bin/env node
/** The operator's commands. */
import { load } from './server/start.ts';

await load(() => import('./cli/program.ts'));
