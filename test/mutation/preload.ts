/**
 * Loaded before all else by the threads and processes that a test starts. Stryker counts in the test's own thread which mutants a test
 * reaches; these keep theirs in a file, which setup.ts adds.
 */
import { randomUUID } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const { MUTANTS_TEST: test, MUTANTS_FOLDER: folder = '' } = process.env;
const file = path.join(folder, randomUUID());

function tell(): void {
  const reached = globalThis.__stryker__?.mutantCoverage?.static ?? {};
  writeFileSync(`${file}.part`, JSON.stringify({ test, reached }));
  renameSync(`${file}.part`, `${file}.json`);
}

if (test) {
  process.on('exit', tell);
  // Most processes are killed when their test ends.
  setInterval(tell, 100).unref();
}
