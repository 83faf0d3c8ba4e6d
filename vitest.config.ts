import { defineConfig } from 'vitest/config';

const testTimeout = 30_000;

/** What clients are promised, whichever database stands behind: these run on both. */
const behaviour = [
  ...['accounts', 'auth', 'createPet', 'getPet', 'limits', 'listPets', 'messages', 'properties'],
  ...['raw-socket', 'reliability/resets', 'response-cache', 'store'],
].map((name) => `test/${name}.test.ts`);

/** npm run test:harness, npm run test:image, npm run test:browser, npm run test:prism. */
const onTheirOwn = ['test/browser/**', 'test/harness/**', 'test/image/**', 'test/prism/**'];

const onPostgres = ['test/postgres*.test.ts'];

export default defineConfig({
  test: {
    maxWorkers: 2,
    // For the threads and processes that tests start.
    env: { NODE_COMPILE_CACHE: `${import.meta.dirname}/node_modules/.cache/animal-store` },
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
      // It holds a type alone.
      exclude: ['src/http/operation.ts'],
      // Not coverage/ itself, which the tests' processes write to meanwhile.
      reportsDirectory: 'coverage/vitest',
      // What runs in processes of its own is added by scripts/coverage.ts.
      reporter: ['json'],
      reportOnFailure: true,
    },
  },
});
