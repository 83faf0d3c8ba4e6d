/**
 * Changes the code one place at a time with Stryker, and runs the tests of the place: one of them must notice. Names groups of files; none:
 * all groups, one after the other. Prints what lives, and exits 1 below 90 %.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Stryker } from '@stryker-mutator/core';

interface Group {
  files: string[];
  tests: string[];
}

const inFolder = (folder: string, names: string) => names.split(' ').map((name) => `src/${folder}${name}.ts`);
const testsOf = (names: string) => names.split(' ').map((name) => `${name}.test`);

/** Each with the tests that are there for it: all others beside them would take hours. */
const groups: Record<string, Group> = {
  parts: {
    files: [
      ...inFolder('', 'accounts config csv errors int64 messages pets retries schema'),
      ...inFolder('http/', 'deprecation front idempotency paging request-log'),
      ...inFolder('repository/', 'sqlite-errors'),
    ],
    tests: ['mutation/parts'],
  },
  requests: {
    files: inFolder('http/', 'answers content errors messages methods operation orders pet-answers pets validation'),
    tests: testsOf('createPet listPets getPet messages store request-log openapi plain-reads storage auth limits'),
  },
  auth: { files: inFolder('http/', 'auth key-uses keyring'), tests: testsOf('auth keys limits ops') },
  reads: { files: inFolder('http/', 'in-turn plain-reads rendered'), tests: testsOf('plain-reads rendered listPets') },
  limits: { files: inFolder('http/', 'cors limits'), tests: testsOf('limits headers') },
  page: { files: inFolder('http/', 'reference reference-page'), tests: testsOf('reference-page') },
  ops: { files: inFolder('http/', 'metrics ops'), tests: testsOf('ops limits') },
  writes: {
    files: inFolder('repository/', 'sqlite sqlite-commands sqlite-reader sqlite-writer sqlite-writer-thread'),
    tests: testsOf('storage accounts createPet listPets messages'),
  },
  sockets: { files: inFolder('http/', 'socket unread'), tests: testsOf('raw-socket') },
};

const wantedPercent = 90;

// The tests' threads and processes start a third sooner with it.
process.env.NODE_COMPILE_CACHE ??= path.resolve('node_modules/.cache/animal-store');

type Result = Awaited<ReturnType<Stryker['runMutationTest']>>[number];

async function run(name: string): Promise<Result[]> {
  const group = groups[name];
  if (!group) throw new Error(`${name} is none of ${Object.keys(groups).join(', ')}.`);
  // For vitest.mutation.config.ts.
  process.env.MUTATION_TESTS = group.tests.join();
  const jsonReporter = { fileName: `reports/mutation-${name}.json` };
  return new Stryker({ configFile: 'stryker.config.json', mutate: group.files, jsonReporter }).runMutationTest();
}

/** The text that the mutant took the place of, and what it put there. */
function changeOf({ fileName, location: { start, end }, replacement }: Result): string {
  const lines = readFileSync(fileName, 'utf8')
    .split('\n')
    .slice(start.line - 1, end.line);
  lines.push((lines.pop() ?? '').slice(0, end.column - 1));
  lines[0] = (lines[0] ?? '').slice(start.column - 1);
  const short = (text: string) => text.replace(/\s+/g, ' ').slice(0, 60);
  return `${path.relative('.', fileName)}:${start.line}  ${short(lines.join(' '))}  →  ${short(replacement)}`;
}

function tell(title: string, results: Result[]): number {
  const count = (...statuses: Result['status'][]) => results.filter(({ status }) => statuses.includes(status)).length;
  const noticed = count('Killed', 'Timeout');
  const total = noticed + count('Survived', 'NoCoverage');
  const percent = (100 * noticed) / total;
  console.log(
    `${title}: ${percent.toFixed(1)} % of ${total} (${count('Killed')} noticed, ${count('Timeout')} endless, ` +
      `${count('Survived')} live, ${count('NoCoverage')} never run)`,
  );
  return percent;
}

const all: Result[] = [];
for (const group of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(groups)) {
  const results = await run(group);
  all.push(...results);
  for (const result of results.filter(({ status }) => status === 'Survived')) console.log(changeOf(result));
  tell(group, results);
}
for (const [file, results] of Object.entries(Object.groupBy(all, ({ fileName }) => path.relative('.', fileName))))
  tell(file, results ?? []);
process.exitCode = tell('all', all) < wantedPercent ? 1 : 0;
