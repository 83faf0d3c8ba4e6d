/** Records the traffic of the tests, by running them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Exchange } from '../../support/exchanges.ts';
import { projectFolder } from '../../support/project.ts';

/** Test files that call the server through test/support/app.ts, without those of one engine, and those that send generated requests to a real process. */
function filesWithTraffic(): string[] {
  const own = readdirSync(`${projectFolder}test/quick`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts') && !/^(postgres|sqlite)/.test(name))
    .map((name) => `test/quick/${name}`)
    .filter((name) => readFileSync(projectFolder + name, 'utf8').includes('startApp('));
  return [...own, 'test/full/reliability/generated-requests.test.ts', 'test/full/reliability/model.test.ts'];
}

/** Runs the tests on SQLite; throws if one fails. */
export async function recordTraffic(): Promise<Exchange[]> {
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-'));
  try {
    const file = path.join(folder, 'exchanges');
    const args = ['run', '--project=quick', '--project=full', ...filesWithTraffic()];
    const env = { ...process.env, EXCHANGES: file };
    const vitest = path.join(projectFolder, 'node_modules/.bin/vitest');
    const child = spawn(vitest, args, { cwd: projectFolder, env, stdio: ['ignore', 'ignore', 'inherit'] });
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error(`the tests that record the traffic failed: npx vitest ${args.join(' ')}`);
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
