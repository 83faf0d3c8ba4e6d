/** The tests that scripts/mutation.ts names, as one file: each mutant starts one process for it, instead of one for every file. */
import { describe } from 'vitest';

// With the name, as tests of two files may have one title.
for (const name of process.env.MUTATION_TESTS?.split(',') ?? [])
  describe(name, async () => {
    await import(`../${name}.test.ts`);
  });
