import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import type { Reporter } from 'vitest/node';

const testTimeout = 30_000;

type ProjectOptions = NonNullable<TestProjectInlineConfiguration['test']>;

/** A project: the tests below `folders` of test/, on SQLite unless `options` say otherwise. */
const project = (name: string, folders: string[], options: ProjectOptions = {}): TestProjectInlineConfiguration => ({
  extends: true,
  test: {
    name,
    include: folders.map((folder) => `test/${folder}/**/*.test.ts`),
    testTimeout,
    hookTimeout: testTimeout,
    ...options,
  },
});

const onPostgres = { globalSetup: 'test/support/postgres-setup.ts' };

/** Files share their modules: importing these again for each file would take a third of the time. */
const quick = { isolate: false };

/** A busy machine can delay any of these tests. The timeout only ends one that hangs: no test measures a time with it. */
const full = { testTimeout: 600_000, hookTimeout: 60_000 };

/** Fails the run if a test was skipped for want of a tool. */
const requireTools: Reporter = {
  onTestCaseResult(test) {
    const result = test.result();
    if (result.state !== 'skipped' || !result.note?.includes('not installed')) return;
    process.stderr.write(`${test.fullName}: ${result.note}\n`);
    process.exitCode = 1;
  },
};

/** The behaviours that depend most on the engine: npm test runs them on PostgreSQL, too. */
const engineDependent = ['operations', 'paging', 'races', 'response-cache'].map(
  (name) => `test/quick/behaviour/${name}.test.ts`,
);

/**
 * A folder of test/ is a tier, and a tier is a project. What clients are promised whichever database the store uses is in the rooms `behaviour`:
 * test:full runs all of them on both engines. The rooms `postgres` need a real PostgreSQL for everything.
 */
export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: process.env.REQUIRE_TOOLS ? ['default', requireTools] : ['default'],
    // A second, as by default, is short on a busy machine.
    expect: { poll: { timeout: 10_000 } },
    // For the threads and processes that tests start.
    env: { NODE_COMPILE_CACHE: `${import.meta.dirname}/node_modules/.cache/animal-store` },
    projects: [
      project('quick', ['quick'], { ...quick, exclude: ['test/quick/postgres/**'] }),
      project('quick-postgres', [], {
        ...quick,
        ...onPostgres,
        include: ['test/quick/postgres/**/*.test.ts', ...engineDependent],
      }),
      // Without the optimisations: the service is as correct.
      project('quick-plain', ['quick/behaviour', 'quick/http'], { ...quick, env: { PLAIN: 'on' } }),
      project('full', ['full'], { ...full, exclude: ['test/full/postgres/**'] }),
      project('full-postgres', ['full/behaviour', 'full/postgres', 'quick/behaviour', 'quick/account'], {
        ...full,
        ...onPostgres,
        exclude: engineDependent,
      }),
      project('slow', ['slow', 'full/reliability', 'full/behaviour'], {
        env: { TEST_TIER: 'slow' },
        testTimeout: 3_600_000,
      }),
      project('browser', ['browser'], {
        testTimeout: 120_000,
        hookTimeout: 60_000,
        expect: { poll: { timeout: 15_000 } },
      }),
      project('contract', ['contract'], { testTimeout: 1_200_000, hookTimeout: 1_200_000 }),
      project('harness', ['harness'], { testTimeout: 600_000 }),
      project('image', ['image'], {
        globalSetup: 'test/image/setup.ts',
        testTimeout: 300_000,
        hookTimeout: 60_000,
        expect: { poll: { timeout: 60_000 } },
      }),
    ],
    coverage: {
      include: ['src/**/*.ts'],
      // Runs in processes and threads of its own.
      exclude: [
        ...['src/main.ts', 'src/cli.ts', 'src/server/**'],
        ...['writer-thread', 'commands'].map((name) => `src/store/sqlite/${name}.ts`),
      ],
      reporter: ['text-summary'],
      thresholds: { statements: 95, branches: 95, functions: 95, lines: 95 },
    },
  },
});
