import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import type { Reporter } from 'vitest/node';

type ProjectOptions = NonNullable<TestProjectInlineConfiguration['test']>;

/** A project: the tests below a folder of test/. Without `onPostgres`, they run on SQLite. */
const project = (name: string, folder: string, options: ProjectOptions = {}): TestProjectInlineConfiguration => ({
  extends: true,
  test: { name, include: [`test/${folder}/**/*.test.ts`], ...options },
});

/** A folder of test/system, which gives its project the name. */
const system = (folder: string, options?: ProjectOptions) => project(folder, `system/${folder}`, options);

/** Starts a PostgreSQL server for the tests. */
const onPostgres = { globalSetup: 'test/support/postgres-setup.ts' };

/** Files share their modules: importing these again for each file would take a third of the time. */
const shared = { isolate: false };

/** Fails the run if a test was skipped for want of a tool. */
const requireTools: Reporter = {
  onTestCaseResult(test) {
    const result = test.result();
    if (result.state !== 'skipped' || !result.note?.includes('not installed')) return;
    process.stderr.write(`${test.fullName}: ${result.note}\n`);
    process.exitCode = 1;
  },
};

export default defineConfig({
  test: {
    maxWorkers: 2,
    // A busy machine can delay any of these tests. The timeout only ends one that hangs: no test measures a time with it.
    testTimeout: process.env.TEST_TIER === 'slow' ? 3_600_000 : 600_000,
    hookTimeout: 60_000,
    reporters: process.env.REQUIRE_TOOLS ? ['default', requireTools] : ['default'],
    // A second, as by default, is short on a busy machine.
    expect: { poll: { timeout: 10_000 } },
    // For the threads and processes that tests start.
    env: { NODE_COMPILE_CACHE: `${import.meta.dirname}/node_modules/.cache/animal-store` },
    projects: [
      project('unit', 'unit', { ...shared, testTimeout: 30_000, hookTimeout: 30_000 }),
      // What clients are promised: on the engine that DATABASE_URL names, and on PostgreSQL.
      project('api', 'api', { ...shared, ...(process.env.DATABASE_URL?.startsWith('postgres') && onPostgres) }),
      project('api-postgres', 'api', { ...shared, ...onPostgres }),
      // Without the optimisations, the service is as correct. The pages of accounts use none, and processes do not get PLAIN.
      project('api-plain', 'api', {
        ...shared,
        env: { PLAIN: 'on' },
        exclude: ['test/api/account/**'],
      }),
      ...['cli', 'deploy', 'disk', 'docs', 'nginx', 'process', 'sqlite'].map((folder) => system(folder)),
      ...['load', 'postgres', 'upgrade'].map((folder) => system(folder, onPostgres)),
      // These need more time or more tools: test:full leaves them out.
      system('browser', { testTimeout: 120_000, expect: { poll: { timeout: 15_000 } } }),
      system('cluster'),
      system('contract', { testTimeout: 1_200_000, hookTimeout: 1_200_000 }),
      system('harness'),
      system('image', {
        globalSetup: 'test/system/image/setup.ts',
        testTimeout: 300_000,
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
