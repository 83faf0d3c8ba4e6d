import { defineConfig } from 'vitest/config';

const testTimeout = 30_000;

/** What clients are promised, whichever database stands behind: these run on both. */
const behaviour = [
  ...['accounts', 'auth', 'createPet', 'getPet', 'limits', 'listPets', 'messages', 'plain-reads', 'properties'],
  ...['raw-socket', 'rendered', 'store'],
].map((name) => `test/${name}.test.ts`);

/** npm run test:harness, npm run test:image. */
const onTheirOwn = ['test/harness/**', 'test/image/**'];

const onPostgres = ['test/postgres*.test.ts'];

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: {
          name: 'sqlite',
          include: ['test/**/*.test.ts'],
          exclude: [...onPostgres, ...onTheirOwn],
          testTimeout,
        },
      },
      {
        extends: true,
        test: {
          name: 'postgres',
          include: [...behaviour, ...onPostgres],
          globalSetup: 'test/support/postgres-setup.ts',
          testTimeout,
        },
      },
    ],
    coverage: {
      include: ['src/**'],
      // app-type.ts holds a type alone. The others run in processes and threads of their own only, where this collector does not
      // reach: c8 holds them to their lines and functions (.c8rc.json).
      exclude: [
        'src/http/app-type.ts',
        'src/main.ts',
        'src/main/**',
        'src/cli.ts',
        'src/cli/**',
        'src/http/ops.ts',
        'src/repository/files.ts',
        'src/repository/sqlite-check.ts',
        'src/repository/sqlite-commands.ts',
        'src/repository/rows.ts',
        'src/repository/sqlite-copy.ts',
        'src/repository/sqlite-export.ts',
        'src/repository/sqlite-import.ts',
        'src/repository/sqlite-restore.ts',
        'src/repository/sqlite-writer-thread.ts',
      ],
      // Not coverage/ itself, which the tests' processes write to meanwhile.
      reportsDirectory: 'coverage/vitest',
      reporter: ['text'],
      thresholds: { lines: 100, branches: 100, functions: 100, statements: 100 },
    },
  },
});
