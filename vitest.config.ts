import { defineConfig } from 'vitest/config';

const testTimeout = 30_000;

const files = (...names: string[]) => names.map((name) => `test/${name}.test.ts`);

/** What clients are promised whichever database the store uses. */
const behaviour = [
  ...files(
    'account-attacks',
    'account-keys',
    'account-pages',
    'accounts',
    'auth',
    'authority',
    'createPet',
    'getPet',
    'limits',
  ),
  ...files('listPets', 'messages', 'migrations', 'people', 'properties', 'raw-socket', 'response-cache', 'store'),
];
const onPostgres = files('postgres*');

/** These run other programs, wait for faults, or move many animals: npm test leaves them to npm run test:full. */
const onlyFull = files(
  ...['backup', 'cost', 'dev', 'examples', 'hosts', 'kubernetes', 'log', 'matrix', 'monitoring', 'nginx'],
  ...['nginx-attacks', 'nginx-logs', 'openapi-lint', 'ops', 'raw-socket', 'readme', 'signals', 'terminal'],
  ...['trail', 'transfer'],
);
const onlyFullOnPostgres = files(
  ...['account-attacks', 'account-keys', 'account-pages', 'matrix', 'postgres-check', 'postgres-copy'],
  ...['postgres-faults', 'postgres-measures', 'postgres-open', 'postgres-roles', 'postgres-sessions'],
  ...['postgres-transfer', 'postgres-wraparound', 'raw-socket'],
);

/** A few seconds of overload would prove little: only npm run test:slow runs this, for a minute. */
const onlySlow = files('reliability/overload');

const globalSetup = 'test/support/postgres-setup.ts';

/** npm test runs the projects sqlite and postgres, npm run test:full all of them, with coverage. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    // For the threads and processes that tests start.
    env: { NODE_COMPILE_CACHE: `${import.meta.dirname}/node_modules/.cache/animal-store` },
    projects: [
      {
        extends: true,
        test: { name: 'sqlite', include: files('*'), exclude: [...onPostgres, ...onlyFull], testTimeout },
      },
      {
        extends: true,
        test: {
          name: 'postgres',
          include: [...behaviour, ...onPostgres],
          exclude: onlyFullOnPostgres,
          globalSetup,
          testTimeout,
        },
      },
      {
        extends: true,
        test: { name: 'full', include: [...onlyFull, ...files('reliability/*')], exclude: onlySlow, testTimeout },
      },
      {
        extends: true,
        test: {
          name: 'full on postgres',
          include: [
            ...onlyFullOnPostgres,
            ...files(...['account-removal', 'going-back', 'resets', 'sign-ins'].map((name) => `reliability/${name}`)),
          ],
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
        ...['writer-thread', 'commands'].map((name) => `src/repository/sqlite/${name}.ts`),
      ],
      reporter: ['text-summary'],
      thresholds: { statements: 95, branches: 95, functions: 95, lines: 95 },
    },
  },
});
