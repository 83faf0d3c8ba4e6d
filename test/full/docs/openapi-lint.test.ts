/** Lints the OpenAPI documents with every rule of Spectral and of OWASP's ruleset for it. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { differences, exceptions } from '../../contract/exceptions.ts';
import { projectFolder } from '../../support/project.ts';
import { patientMs } from '../../support/tier.ts';

const names = ['openapi.yaml', 'openapi.quickstart.yaml'];

function toPointer(path: string[]): string {
  return ['#', ...path.map((name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

test("Spectral, with OWASP's rules, finds only what test/contract/exceptions.yaml explains", {
  timeout: patientMs,
}, () => {
  const options = ['--ruleset=test/contract/spectral.yaml', '--format=json', '--fail-severity=hint', '--quiet'];
  const spectral = `${projectFolder}node_modules/@stoplight/spectral-cli/dist/index.js`;
  const { stdout, stderr } = spawnSync(process.execPath, [spectral, 'lint', ...names, ...options], {
    cwd: projectFolder,
    encoding: 'utf8',
  });
  expect(stdout, stderr).toMatch(/^\[/);
  const findings = JSON.parse(stdout) as { code: string; path: string[] }[];
  const found = findings.map((finding) => ({ rule: finding.code, pointer: toPointer(finding.path) }));
  expect(differences(exceptions.spectral, found)).toEqual([]);
});
