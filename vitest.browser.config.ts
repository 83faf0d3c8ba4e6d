import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/browser/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
    // A browser and a server at a time: with more, pages wait for one another.
    fileParallelism: false,
  },
});
