/** Which build runs: the version of package.json, and the commit that the image or the checkout has. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');

/** The text of a file without the line feed at its end. Undefined if it cannot be read. */
function textOf(...parts: string[]): string | undefined {
  try {
    return readFileSync(path.resolve(...parts), 'utf8').trim();
  } catch {
    return undefined;
  }
}

/**
 * The commit of the checkout, as gitrepository-layout(5) describes: reading takes 0.3 ms, git itself 5 ms. Undefined without a checkout, and if
 * git keeps its references in another format.
 */
function headOf(checkout: string): string | undefined {
  const dotGit = path.join(checkout, '.git');
  // In a further worktree, .git is a file that names the folder.
  const [, elsewhere] = /^gitdir: (.+)$/.exec(textOf(dotGit) ?? '') ?? [];
  const folder = path.resolve(checkout, elsewhere ?? dotGit);
  const head = textOf(folder, 'HEAD') ?? '';
  const [, branch] = /^ref: (.+)$/.exec(head) ?? [];
  if (branch === undefined) return head;
  const common = path.resolve(folder, textOf(folder, 'commondir') ?? '.');
  return textOf(common, branch) ?? packedIn(textOf(common, 'packed-refs') ?? '', branch);
}

function packedIn(references: string, branch: string): string | undefined {
  return references
    .split('\n')
    .find((line) => line.endsWith(` ${branch}`))
    ?.split(' ')[0];
}

const hash = /^([0-9a-f]{7})[0-9a-f]{33,57}$/;
const [, commit] = hash.exec(headOf(root) ?? '') ?? [];
// The build of the image writes the file.
const built = textOf(root, 'revision')?.replace(hash, '$1');

export interface Release {
  /** Such as 1.0.0. */
  version: string;
  /** The first 7 characters of the commit. Undefined if it is unknown. */
  revision: string | undefined;
}

export const release: Release = {
  version: (JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string }).version,
  revision: built || commit,
};

/** Such as "1.0.0 (abc1234)". */
export const releaseText = release.revision ? `${release.version} (${release.revision})` : release.version;
