import { defineConfig } from 'vitest/config';

/** Started by scripts/mutation.ts, which names the tests, and the PostgreSQL server where they run on one. */
const { MUTATION_TEST_TIMEOUT_MS, MUTATION_POSTGRES_URL } = process.env;

export default defineConfig({
  test: {
    include: ['test/mutation/tests.ts'],
    setupFiles: ['test/mutation/setup.ts'],
    execArgv: ['--import', `${import.meta.dirname}/test/mutation/preload.ts`],
    // A change that makes a request wait for ever is to be noticed soon.
    testTimeout: Number(MUTATION_TEST_TIMEOUT_MS),
    ...(MUTATION_POSTGRES_URL && { provide: { postgresUrl: MUTATION_POSTGRES_URL } }),
    // As they are, without Vite: each mutant starts a process, most of whose time is loading.
    experimental: { viteModuleRunner: false },
  },
});
