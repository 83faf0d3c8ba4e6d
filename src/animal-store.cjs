#!/usr/bin/env node
/** The command animal-store: cli.ts, after the checks of preflight.cjs. */
require('./preflight.cjs');
import('./cli.ts');
