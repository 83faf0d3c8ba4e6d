import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/prism/*.test.ts'],
    testTimeout: 1_200_000,
    hookTimeout: 1_200_000,
  },
});
