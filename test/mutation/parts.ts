/** The tests that mutants meet, as one file: each mutant starts one thread for it, instead of one for every file. */
import '../numbers.test.ts';
import '../parts.test.ts';
import '../schema.test.ts';
import '../keys.test.ts';
import '../config.test.ts';
import '../csv.test.ts';
