/** Lints the OpenAPI documents with every rule of Spectral and of OWASP's ruleset for it, and tests the lint of npm run check, by Redocly. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { differences, exceptions } from '../../contract/exceptions.ts';
import { temporaryFolder } from '../../support/app.ts';
import { launch } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { patientMs } from '../../support/tier.ts';

const names = ['openapi.yaml', 'openapi.quickstart.yaml'];

function toPointer(path: string[]): string {
  return ['#', ...path.map((name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

/** Runs the lint of npm run check on the documents, with `change` in openapi.yaml. */
function lint(change: (document: string) => string) {
  const folder = temporaryFolder();
  for (const name of names) {
    const text = readFileSync(path.join(projectFolder, name), 'utf8');
    writeFileSync(path.join(folder, name), name === 'openapi.yaml' ? change(text) : text);
  }
  return launch(process.execPath, [`${projectFolder}scripts/lint.ts`, folder], {}).end();
}

test('Redocly finds only what test/contract/exceptions.yaml explains', { timeout: patientMs }, async () => {
  expect(await lint((text) => text)).toMatchObject({ code: 0, stderr: '' });
});

test('a finding without an exception, and an exception without a finding, end npm run check', {
  timeout: patientMs,
}, async () => {
  const { code, stderr } = await lint((text) => text.replace('/store/orders:', '/stores/orders/:'));
  expect(code).toBe(1);
  expect(stderr).toContain('Redocly: no-path-trailing-slash #/paths/~1stores~1orders~1: no exception\n');
  expect(stderr).toContain('Redocly: operation-2xx-response #/paths/~1store~1orders: no such finding\n');
});

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
