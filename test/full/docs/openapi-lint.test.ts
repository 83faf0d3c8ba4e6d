/** Lints the OpenAPI documents with every rule of Redocly, of Spectral and of OWASP's ruleset for Spectral. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { differences, exceptions, type Finding } from '../../contract/exceptions.ts';
import { projectFolder } from '../../support/project.ts';
import { patientMs } from '../../support/tier.ts';

const names = ['openapi.yaml', 'openapi.quickstart.yaml'];

/** Runs a linter, which exits with 1 because of the exceptions, and parses what it prints. */
function lint(command: string, ...args: string[]) {
  const { stdout, stderr } = spawnSync(process.execPath, [`${projectFolder}node_modules/${command}`, 'lint', ...args], {
    cwd: projectFolder,
    encoding: 'utf8',
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  });
  expect(stdout, stderr).toMatch(/^[[{]/);
  return JSON.parse(stdout);
}

function toPointer(path: string[]): string {
  return ['#', ...path.map((name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

test('Redocly finds only what test/contract/exceptions.yaml explains', { timeout: patientMs }, () => {
  const found = names.flatMap((name): Finding[] =>
    lint('@redocly/cli/bin/cli.js', name, '--extends=all', '--format=json', '--max-problems=1000').problems.map(
      ({ ruleId, location: [{ pointer }] }: { ruleId: string; location: [{ pointer: string }] }) => {
        return { rule: ruleId, pointer };
      },
    ),
  );
  expect(differences(exceptions.redocly, found)).toEqual([]);
});

test("Spectral, with OWASP's rules, finds only what test/contract/exceptions.yaml explains", {
  timeout: patientMs,
}, () => {
  const options = ['--ruleset=test/contract/spectral.yaml', '--format=json', '--fail-severity=hint', '--quiet'];
  const found = lint('@stoplight/spectral-cli/dist/index.js', ...names, ...options).map(
    ({ code, path }: { code: string; path: string[] }) => ({ rule: code, pointer: toPointer(path) }),
  );
  expect(differences(exceptions.spectral, found)).toEqual([]);
});
