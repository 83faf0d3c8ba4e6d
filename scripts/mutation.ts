/**
 * Changes the code one place at a time with Stryker, and runs the tests of the place: one of them must notice. Arguments name groups of
 * files; none: all groups, one after the other. Prints what lives, and exits 1 below 90 %.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Stryker } from '@stryker-mutator/core';
import { startForSuites } from '../test/support/postgres-setup.ts';

interface Group {
  files: string[];
  tests: string[];
  /** Tests that take longer, for the changes that the first ones did not notice. */
  later?: string[];
  /** Whether its tests start processes, which takes them seconds, as it does the later ones. */
  slow?: boolean;
  /** Whether its tests' stores are PostgreSQL's. */
  onPostgres?: boolean;
}

const inFolder = (folder: string, names: string) => names.split(' ').map((name) => `src/${folder}${name}.ts`);
const named = (names: string) => names.split(' ');

/** Each with the tests that are there for it: all of them for each change would take days. */
const groups: Record<string, Group> = {
  parts: {
    files: [
      ...inFolder('', 'accounts config csv errors int64 messages pets retries schema'),
      ...inFolder('http/', 'idempotency paging'),
      ...inFolder('repository/', 'postgres-errors postgres-pool postgres-url postgres-writer sqlite-errors'),
    ],
    tests: named('numbers parts schema keys config csv postgres-errors postgres-pool postgres-url postgres-writer'),
  },
  requests: {
    files: inFolder('http/', 'content messages methods operation orders pets reference validation'),
    tests: named('openapi createPet listPets getPet messages store request-log'),
    later: named('raw-socket ops'),
  },
  auth: { files: inFolder('http/', 'auth key-uses keyring'), tests: named('auth keys limits'), later: named('ops') },
  limits: {
    files: inFolder('http/', 'answers cors limits'),
    tests: named('limits headers listPets'),
    later: named('reliability/unread-answers'),
  },
  reads: {
    files: inFolder('http/', 'pipelining response-cache responses'),
    tests: named('response-cache listPets'),
    later: named('headers auth ops raw-socket reliability/pipelining reliability/unread-answers'),
  },
  page: { files: inFolder('http/', 'reference-page'), tests: named('reference-page') },
  ops: { files: inFolder('http/', 'metrics ops'), tests: named('ops limits') },
  sockets: {
    files: inFolder('http/', 'request-checks client-errors connections exchange shares'),
    tests: named('parts raw-socket'),
    later: named('reliability/unread-answers reliability/slow-clients'),
  },
  app: {
    files: [...inFolder('', 'app'), ...inFolder('http/', 'deprecation errors request-log')],
    tests: named('parts request-log headers getPet limits reference-page store'),
    later: named('openapi ops raw-socket storage process'),
  },
  writes: {
    files: inFolder('repository/', 'rows sqlite sqlite-commands sqlite-reader sqlite-writer sqlite-writer-thread'),
    tests: named('sqlite-writer storage accounts createPet listPets messages'),
    later: named('auth response-cache ops reliability/fsync reliability/disk'),
  },
  files: {
    files: inFolder('repository/', 'files migrations sqlite-connection unavailable'),
    tests: named('storage reliability/bad-files reliability/made-files'),
    later: named('process backup'),
    slow: true,
  },
  backup: {
    files: [
      ...inFolder('repository/', 'sqlite-check sqlite-copy sqlite-restore'),
      ...inFolder('cli/', 'files maintenance progress'),
    ],
    tests: named('backup'),
    later: named('cli transfer reliability/made-files'),
    slow: true,
  },
  transfer: {
    files: [
      ...inFolder('repository/', 'sqlite-export sqlite-import'),
      ...inFolder('cli/', 'export import import-passes lines rows source'),
    ],
    tests: named('transfer'),
    later: named('cli'),
    slow: true,
  },
  cli: {
    files: [...inFolder('', 'cli'), ...inFolder('cli/', 'accounts arguments health keys output run store')],
    tests: named('cli'),
    later: named('backup transfer'),
    slow: true,
  },
  main: {
    files: [
      ...inFolder('', 'main'),
      ...inFolder('main/', 'cluster-metrics environment first-key listen load run serve signals start supervise'),
    ],
    tests: named('process ops'),
    slow: true,
  },
  postgres: {
    files: inFolder('repository/', 'open postgres postgres-accounts postgres-arrays postgres-pets'),
    tests: named('accounts createPet listPets messages postgres'),
    later: named('auth postgres-faults'),
    slow: true,
    onPostgres: true,
  },
  'postgres-open': {
    files: inFolder('repository/postgres-', 'connection migrations open socket'),
    tests: named('postgres postgres-tls postgres-open'),
    later: named('postgres-faults'),
    slow: true,
    onPostgres: true,
  },
  copy: {
    files: [...inFolder('repository/', 'copy copy-tables'), ...inFolder('cli/', 'copy')],
    tests: named('postgres-copy'),
    later: named('cli'),
    slow: true,
    onPostgres: true,
  },
};

const wantedPercent = 90;

// The tests' threads and processes start a third sooner with it.
process.env.NODE_COMPILE_CACHE ??= path.resolve('node_modules/.cache/animal-store');

/** One server for all mutants, each of which would otherwise take a second to start its own. */
let postgres: Awaited<ReturnType<typeof startForSuites>> | undefined;

type Result = Awaited<ReturnType<Stryker['runMutationTest']>>[number];

async function mutate(title: string, places: string[], tests: string[], how: Pick<Group, 'slow' | 'onPostgres'>) {
  // For test/mutation/tests.ts and vitest.mutation.config.ts.
  Object.assign(process.env, {
    MUTATION_TESTS: tests.join(),
    MUTATION_TEST_TIMEOUT_MS: how.slow ? '60000' : '6000',
    MUTATION_POSTGRES_URL: how.onPostgres ? postgres?.url : '',
  });
  const jsonReporter = { fileName: `reports/mutation-${title}.json` };
  return new Stryker({ configFile: 'stryker.config.json', mutate: places, jsonReporter }).runMutationTest();
}

const lives = ({ status }: Result) => status === 'Survived' || status === 'NoCoverage';

/** A change, the same in each run, and where it is, in Stryker's notation: lines from 1, columns from 0. */
function identity({ fileName, location: { start, end }, mutatorName, replacement }: Result) {
  const place = `${path.relative('.', fileName)}:${start.line}:${start.column - 1}-${end.line}:${end.column - 1}`;
  return { place, change: [place, mutatorName, replacement].join() };
}

async function run(name: string): Promise<Result[]> {
  const group = groups[name];
  if (!group) throw new Error(`${name} is none of ${Object.keys(groups).join(', ')}.`);
  if (group.onPostgres) postgres ??= await startForSuites();
  const results = await mutate(name, group.files, group.tests, group);
  const places = new Set(results.filter(lives).map((result) => identity(result).place));
  if (!group.later || places.size === 0) return results;
  const again = await mutate(`${name}-later`, [...places], group.later, { ...group, slow: true });
  const verdicts = new Map(again.map((result) => [identity(result).change, result]));
  return results.map((result) => (lives(result) ? (verdicts.get(identity(result).change) ?? result) : result));
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
try {
  for (const group of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(groups)) {
    const results = await run(group);
    all.push(...results);
    for (const result of results.filter(lives)) console.log(changeOf(result));
    tell(group, results);
  }
} finally {
  await postgres?.end();
}
for (const [file, results] of Object.entries(Object.groupBy(all, ({ fileName }) => path.relative('.', fileName))))
  tell(file, results ?? []);
process.exitCode = tell('all', all) < wantedPercent ? 1 : 0;
