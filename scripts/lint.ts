/** Exits with 1 if Redocly finds in an OpenAPI document what test/contract/exceptions.yaml does not explain. Optional argument: their folder. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { differences, exceptions } from '../test/contract/exceptions.ts';

interface Problem {
  ruleId: string;
  location: [{ pointer: string }];
}

const [folder = fileURLToPath(new URL('..', import.meta.url))] = process.argv.slice(2);
const redocly = fileURLToPath(import.meta.resolve('@redocly/cli/bin/cli.js'));
const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };

/** With every rule. Redocly exits with 1 because of the exceptions. Rejects if it prints no JSON. */
async function lint(name: string): Promise<Problem[]> {
  const args = [redocly, 'lint', `${folder}/${name}`, '--extends=all', '--format=json', '--max-problems=1000'];
  const { promise, resolve } = Promise.withResolvers<string>();
  execFile(process.execPath, args, { env }, (_error, stdout, stderr) => resolve(stdout || stderr));
  return JSON.parse(await promise).problems;
}

const problems = (await Promise.all(['openapi.yaml', 'openapi.quickstart.yaml'].map(lint))).flat();
const found = problems.map(({ ruleId, location: [{ pointer }] }) => ({ rule: ruleId, pointer }));
for (const difference of differences(exceptions.redocly, found)) {
  console.error(`Redocly: ${difference}`);
  process.exitCode = 1;
}
