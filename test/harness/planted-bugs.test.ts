/** Tests the tests: each planted bug must make its test fail, and without the bug the test must pass. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../support/app.ts';
import { projectFolder } from '../support/project.ts';
import { figure } from '../support/tier.ts';
import { type PlantedBug, plantedBugs } from './planted-bugs.ts';

interface Report {
  testResults: { assertionResults: { fullName: string; status: string }[]; message: string }[];
}

const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** Copies the whole project, including the tests. */
function copyProject(): string {
  const copy = temporaryFolder();
  const { stdout } = spawnSync('git', ['ls-files', '-co', '--exclude-standard'], {
    cwd: projectFolder,
    encoding: 'utf8',
  });
  for (const file of stdout.trimEnd().split('\n')) {
    mkdirSync(path.dirname(path.join(copy, file)), { recursive: true });
    cpSync(path.join(projectFolder, file), path.join(copy, file));
  }
  symlinkSync(path.join(projectFolder, 'node_modules'), path.join(copy, 'node_modules'));
  return copy;
}

/** Runs in `folder` the tests that must catch a bug; resolves to the names of those that ran and of those that failed. */
async function run(
  folder: string,
  { caughtBy: [file, name], onPostgres = false }: PlantedBug,
): Promise<{ ran: string[]; failed: string[] }> {
  const report = path.join(folder, 'report.json');
  const named = ['-t', `^${escaped(name)}`];
  const args = [
    'run',
    file,
    `--project=quick${onPostgres ? '-postgres' : ''}`,
    `--project=full${onPostgres ? '-postgres' : ''}`,
    ...named,
    '--reporter=json',
    `--outputFile=${report}`,
  ];
  const child = spawn(path.join(projectFolder, 'node_modules/.bin/vitest'), args, { cwd: folder, stdio: 'ignore' });
  await once(child, 'exit');
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
  const results = testResults.flatMap(({ assertionResults }) => assertionResults);
  const withStatus = (...statuses: string[]) =>
    results.filter(({ status }) => statuses.includes(status)).map(({ fullName }) => fullName);
  return { ran: withStatus('passed', 'failed'), failed: withStatus('failed') };
}

function plantIn(folder: string, { file, from, to }: PlantedBug): void {
  const parts = readFileSync(path.join(folder, file), 'utf8').split(from);
  if (parts.length < 2) throw new Error(`${file} does not contain the text to replace: ${from}`);
  writeFileSync(path.join(folder, file), parts.join(to));
}

const rows: string[][] = [['planted bug', 'caught by', 'failed test']];

/** Prints the rows as a table with aligned columns. */
function printTable(): void {
  const widths = rows.reduce((widest, row) => row.map((cell, at) => Math.max(cell.length, widest[at] ?? 0)), [0]);
  for (const row of rows)
    process.stdout.write(`| ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |\n`);
  figure(`${rows.length - 1} of ${plantedBugs.length} planted bugs were caught by their tests`);
}

describe('the tests', () => {
  afterAll(printTable);

  test.each(plantedBugs.map((bug) => [bug.name, bug] as const))('detect: %s', async (name, bug) => {
    const folder = copyProject();
    const sound = await run(folder, bug);
    expect(sound.ran.length, 'tests of that name').toBeGreaterThan(0);
    expect(sound.failed, 'without the bug').toEqual([]);
    plantIn(folder, bug);
    const { failed } = await run(folder, bug);
    expect(failed.length, 'with the bug').toBeGreaterThan(0);
    rows.push([name, bug.caughtBy[0], failed[0] as string]);
  });
});
