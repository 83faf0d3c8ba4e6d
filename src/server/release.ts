/** Which build runs: the version of package.json, and the commit that the image or the checkout has. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');

const hash = /^([0-9a-f]{7})[0-9a-f]{33,57}$/;

/** The commit of the checkout. Undefined without one, or without git. */
function checkedOut(): string | undefined {
  const { stdout } = spawnSync('git', ['--git-dir', path.join(root, '.git'), 'rev-parse', 'HEAD'], {
    encoding: 'utf8',
  });
  return hash.exec(stdout?.trim())?.[1];
}

/** What the build of the image wrote. Undefined if it cannot be read. */
function builtFrom(): string | undefined {
  try {
    return readFileSync(path.join(root, 'revision'), 'utf8').trim().replace(hash, '$1');
  } catch {
    return undefined;
  }
}

/**
 * The version, such as 1.0.0, and as `revision` the first 7 characters of the commit, which is undefined if it is unknown. Where the image's
 * build wrote no commit, git takes 7 ms: call it only to tell the release.
 */
export function readRelease() {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
  return { version, revision: builtFrom() || checkedOut() };
}

/** Such as "1.0.0 (abc1234)". */
export function releaseText(): string {
  const { version, revision } = readRelease();
  return revision ? `${version} (${revision})` : version;
}
