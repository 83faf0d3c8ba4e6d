import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/contract/*.test.ts', 'test/prism/*.test.ts'],
    testTimeout: 1_200_000,
    hookTimeout: 1_200_000,
    // Each of the tools needs a processor of its own.
    fileParallelism: false,
  },
});
