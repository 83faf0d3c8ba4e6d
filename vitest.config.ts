import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    coverage: {
      include: ['src/**'],
      // main.ts and cli.ts run only as processes of their own, where this collector does not reach: test/process.test.ts and
      // test/cli.test.ts spawn them. The other three hold types alone.
      exclude: ['src/main.ts', 'src/cli.ts', 'src/http/app-type.ts'],
      reporter: ['text'],
      thresholds: { lines: 100, branches: 100, functions: 100, statements: 100 },
    },
  },
});
