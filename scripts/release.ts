/** Makes a release of the clean working tree: npm run release -- VERSION. If it refuses, nothing has changed. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '..');
const at = (...parts: string[]) => path.join(root, ...parts);
const read = (name: string) => readFileSync(at(name), 'utf8');
const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' });

const documents = ['openapi.yaml', 'openapi.quickstart.yaml'];
const unreleased = '## [Unreleased]\n';

/** Versions are three numbers. There are no pre-releases. */
const isVersion = (text: string) => /^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}$/.test(text);
const compareVersions = new Intl.Collator('en', { numeric: true }).compare;

/** What the changelog lists of the next release. */
function changes(): string {
  const [, text = ''] = read('CHANGELOG.md').split(unreleased);
  return text.split('\n## ')[0] as string;
}

/** Why there can be no such release, as a sentence. */
function refusalOf(version: string): string | undefined {
  const { version: current } = JSON.parse(read('package.json')) as { version: string };
  if (!isVersion(version) || compareVersions(version, current) <= 0)
    return `The version must be three numbers, and greater than ${current}: npm run release -- VERSION.`;
  if (git('status', '--porcelain') !== '') return 'The working tree has changes: commit them first.';
  if (!/^- /m.test(changes())) return 'CHANGELOG.md lists no change under [Unreleased].';
  return undefined;
}

function release(version: string): void {
  const today = new Date().toISOString().slice(0, 10);
  const heading = `${unreleased}\n## [${version}] - ${today}\n`;
  writeFileSync(
    at('CHANGELOG.md'),
    read('CHANGELOG.md').replace(unreleased, () => heading),
  );
  execFileSync('npm', ['version', version, '--no-git-tag-version'], { cwd: root });
  execFileSync(process.execPath, [at('scripts/generate.ts')], { stdio: 'inherit' });
  for (const name of documents) copyFileSync(at(name), at('docs/releases', name));
  git('add', '--all');
  git('commit', '--quiet', '--message', `release: ${version}`);
  console.log(`Committed release ${version}. CONTRIBUTING.md says what remains.`);
}

const [version = ''] = process.argv.slice(2);
const refusal = refusalOf(version);
if (refusal) {
  console.error(refusal);
  process.exitCode = 1;
} else release(version);
