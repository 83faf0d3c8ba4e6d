import { defineConfig } from 'vitest/config';

const testTimeout = 30_000;

/** What clients are promised whichever database the store uses. */
const behaviour = [
  ...[
    'account-attacks',
    'account-keys',
    'account-pages',
    'accounts',
    'auth',
    'createPet',
    'getPet',
    'limits',
    'listPets',
    'messages',
    'migrations',
    'people',
  ],
  ...['properties', 'raw-socket', 'response-cache', 'store'],
].map((name) => `test/${name}.test.ts`);

/** A few seconds of overload would prove little: only npm run test:slow runs this, for a minute. */
const onlySlow = ['test/reliability/overload.test.ts'];

const onPostgres = ['test/postgres*.test.ts'];
const globalSetup = 'test/support/postgres-setup.ts';

/** npm test runs the projects sqlite and postgres, npm run test:full all of them, with coverage. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    // For the threads and processes that tests start.
    env: { NODE_COMPILE_CACHE: `${import.meta.dirname}/node_modules/.cache/animal-store` },
    projects: [
      { extends: true, test: { name: 'sqlite', include: ['test/*.test.ts'], exclude: onPostgres, testTimeout } },
      { extends: true, test: { name: 'postgres', include: [...behaviour, ...onPostgres], globalSetup, testTimeout } },
      {
        extends: true,
        test: { name: 'reliability', include: ['test/reliability/*.test.ts'], exclude: onlySlow, testTimeout },
      },
      {
        extends: true,
        test: {
          name: 'reliability on postgres',
          include: ['going-back', 'resets', 'sign-ins'].map((name) => `test/reliability/${name}.test.ts`),
          globalSetup,
          testTimeout,
        },
      },
    ],
    coverage: {
      include: ['src/**'],
      // Runs in processes and threads of its own.
      exclude: [
        ...['src/main.ts', 'src/cli.ts', 'src/server/**'],
        ...['writer-thread', 'commands', 'people'].map((name) => `src/repository/sqlite/${name}.ts`),
      ],
      reporter: ['text-summary'],
      thresholds: { statements: 95, branches: 95, functions: 95, lines: 95 },
    },
  },
});
