import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/reliability/*.test.ts'],
    env: { TEST_TIER: 'slow' },
    testTimeout: 3_600_000,
    // One after the other: each measures the machine, or loads it.
    fileParallelism: false,
  },
});
