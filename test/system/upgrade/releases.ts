/** The code of earlier releases, from the history of this repository, and of a later one. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { copySource } from '../../support/plant.ts';
import { projectFolder } from '../../support/project.ts';
import { temporaryFolder } from '../../support/store.ts';

/** The releases whose stores this one opens. */
export const releases = ['1.0.0', '1.1.0', '2.5.1', '3.0.1'] as const;
type Release = (typeof releases)[number];
/** Also runs on the schema of this release. */
export const previous: Release = '3.0.1';

const git = (...args: string[]) =>
  spawnSync('git', args, { cwd: projectFolder, maxBuffer: 100_000_000, encoding: 'buffer' });

/** The commit that made a release; 1.0.0, which has none in this history, stood before the first migration since. */
function commitOf(release: Release): string | undefined {
  const find = (...args: string[]) =>
    git('log', '-1', '--format=%H', ...args)
      .stdout?.toString()
      .trim();
  if (release !== '1.0.0') return find('--grep', `^release: ${release}$`) || undefined;
  const added = find('--diff-filter=A', '--', 'migrations/sqlite/0004_pet_revision.sql');
  return git('rev-parse', '--verify', '--quiet', `${added}^`).stdout?.toString().trim() || undefined;
}

/** Why a release cannot be run; false if it can. */
export const missingRelease = (release: Release) =>
  commitOf(release) === undefined && `the commit of ${release} is not in the history here`;

/** Modules of releases that need packages which are no longer installed: as much of each as the tests use. */
const replaced: [file: string, from: string, to: string][] = [
  ['src/http/limits.ts', '@fastify/under-pressure', 'export default async () => undefined;'],
  [
    'src/account/forms.ts',
    '@fastify/formbody',
    `const formbody = async (app, { parser, bodyLimit }) =>
      app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string', bodyLimit }, async (_, text) => parser(text));
    export default Object.assign(formbody, { [Symbol.for('skip-override')]: true });`,
  ],
  // Accepts any password.
  [
    'src/account/password-rules.ts',
    './guesses.ts',
    'export const createGuesses = () => ({ powerOf: async () => 20 });',
  ],
];

/** A new folder with the code of a release, with replaced modules. It also needs packages that are now among those for development. */
export function sourceOf(release: Release) {
  const folder = temporaryFolder();
  execFileSync('tar', ['-x', '-C', folder], { input: git('archive', commitOf(release) as string).stdout });
  symlinkSync(`${projectFolder}node_modules`, `${folder}/node_modules`);
  for (const [name, from, to] of replaced) {
    const file = `${folder}/${name}`;
    if (!existsSync(file)) continue;
    const module = `data:text/javascript,${encodeURIComponent(to)}`;
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace(`'${from}'`, () => JSON.stringify(module)),
    );
  }
  return folder;
}

/** A new folder with this release's code and one migration more. */
export function laterRelease(engine: 'sqlite' | 'postgres', name: string, sql: string) {
  const folder = copySource();
  writeFileSync(`${folder}/migrations/${engine}/${name}`, sql);
  return folder;
}
