/** The tests that `npm run test:mutation` runs against each change of the source (stryker.config.json). */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // The others test rooms that are not changed, or start processes, which the change does not reach. Some use chdir, which a thread cannot.
    include: ['test/unit/{core,http}/**/*.test.ts', 'test/api/{*,http/*}.test.ts'],
    isolate: false,
    // A change may make a test wait for a response that never comes. Too short a time would count a slow test as one that finds the change.
    testTimeout: 8_000,
    expect: { poll: { timeout: 4_000 } },
  },
});
