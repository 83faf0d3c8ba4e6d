import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/image/*.test.ts'],
    globalSetup: 'test/image/setup.ts',
    testTimeout: 300_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 60_000 } },
    // One engine, and fixed figures of memory and processors.
    fileParallelism: false,
  },
});
