/** Hands Stryker's mutant on to the threads and processes that a test starts, and takes from them which ones they reached. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeEach } from 'vitest';

type Hits = Record<string, number>;

declare global {
  /** Where the code that Stryker wrote finds which mutant is on, and counts (syntax-helpers of its instrumenter). */
  var __stryker__:
    | {
        activeMutant?: string;
        currentTestId?: string;
        mutantCoverage?: { static: Hits; perTest: Record<string, Hits> };
      }
    | undefined;
}

globalThis.__stryker__ ??= {};
const stryker = globalThis.__stryker__;
const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-mutants-'));
process.env.MUTANTS_FOLDER = folder;
process.env.NODE_OPTIONS = `--import=${fileURLToPath(new URL('./preload.ts', import.meta.url))}`;

beforeEach(() => {
  const { activeMutant, currentTestId } = stryker;
  if (activeMutant !== undefined) process.env.__STRYKER_ACTIVE_MUTANT__ = activeMutant;
  if (currentTestId !== undefined) process.env.MUTANTS_TEST = currentTestId;
});

afterAll(() => {
  stryker.mutantCoverage ??= { static: {}, perTest: {} };
  const { perTest } = stryker.mutantCoverage;
  for (const name of readdirSync(folder).filter((each) => each.endsWith('.json'))) {
    const { test, reached } = JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as {
      test: string;
      reached: Hits;
    };
    perTest[test] ??= {};
    const hits = perTest[test];
    for (const [mutant, times] of Object.entries(reached)) hits[mutant] = (hits[mutant] ?? 0) + times;
  }
  rmSync(folder, { recursive: true, force: true });
});
