#!/usr/bin/env node
/** The command animal-store: cli.ts, after a check of the version of Node. */
require('./node-version.cjs');
import('./cli.ts');
