import { defineConfig } from 'vitest/config';

/** Started by scripts/mutation.ts, which names the tests. */
export default defineConfig({
  test: {
    include: ['test/mutation/tests.ts'],
    setupFiles: ['test/mutation/setup.ts'],
    execArgv: ['--import', `${import.meta.dirname}/test/mutation/preload.ts`],
    // A change that makes a request wait for ever is to be noticed soon.
    testTimeout: Number(process.env.MUTATION_TEST_TIMEOUT_MS),
    // As they are, without Vite: each mutant starts a process, most of whose time is loading.
    experimental: { viteModuleRunner: false },
  },
});
