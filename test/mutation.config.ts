/** The tests that `npm run test:mutation` runs against each change of the source (stryker.config.json). */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // The others test rooms that are not changed, start processes, which the change does not reach, or use chdir, which Stryker's threads cannot.
    include: ['test/unit/{core,http}/**/*.test.ts', 'test/api/{*,http/*}.test.ts'],
    exclude: ['test/api/resets.test.ts'],
    isolate: false,
    // Over twice what the slowest needs. A change may make a test wait for a response that never comes.
    testTimeout: 8_000,
    expect: { poll: { timeout: 2_000 } },
  },
});
