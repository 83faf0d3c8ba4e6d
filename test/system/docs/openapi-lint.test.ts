/** Lints the OpenAPI documents with every rule of Spectral and of OWASP's ruleset for it. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { projectFolder, read } from '../../support/project.ts';

/** `at`: JSON pointers, as URI fragments, with everything below them. `*`: any text without a slash. */
type Exception = { rule: string; at: string[] };
const exceptions: Exception[] = parse(read('test/system/contract/exceptions.yaml')).spectral;

const toPointer = (path: string[]) =>
  ['#', ...path.map((name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');

const patternOf = (place: string) => new RegExp(`^${RegExp.escape(place).replaceAll('\\*', '[^/]*')}(/|$)`);

test("Spectral, with OWASP's rules, finds what test/system/contract/exceptions.yaml explains, and nothing else", () => {
  const options = ['--ruleset=test/system/contract/spectral.yaml', '--format=json', '--fail-severity=hint', '--quiet'];
  const spectral = `${projectFolder}node_modules/@stoplight/spectral-cli/dist/index.js`;
  const args = [spectral, 'lint', 'openapi.yaml', 'openapi.quickstart.yaml', 'openapi-3.0.json', ...options];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: projectFolder, encoding: 'utf8' });
  expect(stdout, stderr).toMatch(/^\[/);
  const places = exceptions.flatMap(({ rule, at }) => at.map((place) => ({ rule, place, pattern: patternOf(place) })));
  const used = new Set<object>();
  const unexplained = (JSON.parse(stdout) as { code: string; path: string[] }[]).filter(({ code, path }) => {
    const covering = places.filter(
      ({ rule, pattern }) => rule === code.replace(/-legacy$/, '') && pattern.test(toPointer(path)),
    );
    for (const place of covering) used.add(place);
    return covering.length === 0;
  });
  expect([unexplained, places.filter((place) => !used.has(place))]).toEqual([[], []]);
});
