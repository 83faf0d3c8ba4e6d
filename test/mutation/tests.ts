/** The tests that scripts/mutation.ts names, as one file: each mutant starts one process for it, instead of one for every file. */
import { describe } from 'vitest';

// Before the tests: what a module does when it is loaded would otherwise count for the one test that loads it first.
if (process.env.MUTATION_POSTGRES_URL) await import('../../src/repository/postgres/store.ts');

// With the name, as tests of two files may have one title.
for (const name of process.env.MUTATION_TESTS?.split(',') ?? [])
  describe(name, async () => {
    await import(`../${name}.test.ts`);
  });
