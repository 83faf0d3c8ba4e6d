import { defineConfig } from 'vitest/config';

/** Started by scripts/mutation.ts, which names the tests. */
const tests = process.env.MUTATION_TESTS?.split(',') ?? [];

export default defineConfig({
  test: {
    include: tests.map((name) => `test/${name}.ts`),
    setupFiles: ['test/mutation/setup.ts'],
    execArgv: ['--import', `${import.meta.dirname}/test/mutation/preload.ts`],
    testTimeout: 10_000,
    // As they are, without Vite: each mutant starts a process, most of whose time is loading.
    experimental: { viteModuleRunner: false },
  },
});
