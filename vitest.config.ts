import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Tests of the tests: npm run test:harness.
    exclude: ['test/harness/**'],
    testTimeout: 30_000,
    maxWorkers: 2,
    coverage: {
      include: ['src/**'],
      // app-type.ts holds a type alone. The others run in processes and threads of their own only, where this collector does not
      // reach: c8 holds them to their lines and functions (.c8rc.json).
      exclude: [
        'src/http/app-type.ts',
        'src/main.ts',
        'src/main/**',
        'src/cli.ts',
        'src/cli/**',
        'src/repository/sqlite-commands.ts',
        'src/repository/sqlite-rows.ts',
        'src/repository/sqlite-writer-thread.ts',
      ],
      // Not coverage/ itself, which the tests' processes write to meanwhile.
      reportsDirectory: 'coverage/vitest',
      reporter: ['text'],
      thresholds: { lines: 100, branches: 100, functions: 100, statements: 100 },
    },
  },
});
