import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

const testTimeout = 30_000;

type ProjectOptions = NonNullable<TestProjectInlineConfiguration['test']>;

/** A project: the tests below `folders` of test/, on SQLite unless `options` say otherwise. */
const project = (name: string, folders: string[], options: ProjectOptions = {}): TestProjectInlineConfiguration => ({
  extends: true,
  test: { name, include: folders.map((folder) => `test/${folder}/**/*.test.ts`), testTimeout, ...options },
});

const onPostgres = { globalSetup: 'test/support/postgres-setup.ts' };

/**
 * A folder of test/ is a tier, and a tier is a project. What clients are promised whichever database the store uses is in the rooms `behaviour`:
 * they run on both engines. The rooms `postgres` need a real PostgreSQL for everything.
 */
export default defineConfig({
  test: {
    maxWorkers: 2,
    // For the threads and processes that tests start.
    env: { NODE_COMPILE_CACHE: `${import.meta.dirname}/node_modules/.cache/animal-store` },
    projects: [
      project('quick', ['quick'], { exclude: ['test/quick/postgres/**'] }),
      project('quick-postgres', ['quick/behaviour', 'quick/postgres'], onPostgres),
      project('full', ['full'], { exclude: ['test/full/postgres/**'] }),
      // The account pages, too: on both engines they would double the time of npm test.
      project('full-postgres', ['full/behaviour', 'full/postgres', 'quick/account'], onPostgres),
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
