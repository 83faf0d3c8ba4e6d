import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/harness/*.test.ts'],
    testTimeout: 600_000,
  },
});
