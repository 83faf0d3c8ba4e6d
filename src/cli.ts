#!/usr/bin/env node
/** The operator's commands. */
import { load } from './main/load.ts';

await load(() => import('./cli/run.ts'));
