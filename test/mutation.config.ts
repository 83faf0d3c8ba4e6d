/** The tests that `npm run test:mutation` runs against each change of the source (stryker.config.json). */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // The others test rooms that are not changed, or start processes, which the change does not reach.
    include: ['test/unit/{core,http}/**/*.test.ts', 'test/api/{*,http/*}.test.ts'],
    exclude: ['test/api/resets.test.ts'],
    isolate: false,
    // As in vitest.config.ts, for a busy machine.
    testTimeout: 30_000,
    expect: { poll: { timeout: 10_000 } },
  },
});
