/** Tests the tests: each planted bug must make its test fail, and without the bug the test must pass. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { copyProject } from '../../support/plant.ts';
import { projectFolder } from '../../support/project.ts';
import { plantedBugs } from './planted-bugs.ts';

interface Report {
  testResults: { assertionResults: { fullName: string; status: string }[] }[];
}

test.each(plantedBugs)('the tests detect: %s', async (_, file, from, to, testFile, testName, onPostgres) => {
  const folder = copyProject();
  /** The names of the tests that ran, and of those that failed. */
  async function run() {
    const report = path.join(folder, 'report.json');
    // Other files run in one project.
    const projects = testFile.startsWith('api/') ? [`--project=api${onPostgres ? '-postgres' : ''}`] : [];
    // With a bug, some tests wait for a response that never comes.
    const how = [
      '-t',
      `^${RegExp.escape(testName)}`,
      '--testTimeout=120000',
      '--reporter=json',
      `--outputFile=${report}`,
    ];
    const args = ['run', `test/${testFile}.test.ts`, ...projects, ...how];
    const child = spawn(path.join(projectFolder, 'node_modules/.bin/vitest'), args, { cwd: folder, stdio: 'ignore' });
    await once(child, 'exit');
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
    const results = testResults.flatMap(({ assertionResults }) => assertionResults);
    const withStatus = (...statuses: string[]) =>
      results.filter(({ status }) => statuses.includes(status)).map(({ fullName }) => fullName);
    return { ran: withStatus('passed', 'failed'), failed: withStatus('failed') };
  }
  const sound = await run();
  expect(sound.ran.length, 'tests of that name').toBeGreaterThan(0);
  expect(sound.failed, 'without the bug').toEqual([]);
  const parts = readFileSync(path.join(folder, file), 'utf8').split(from);
  expect(parts.length, `${file} contains ${from}`).toBeGreaterThan(1);
  writeFileSync(path.join(folder, file), parts.join(to));
  const { failed } = await run();
  expect(failed.length, 'with the bug').toBeGreaterThan(0);
});
