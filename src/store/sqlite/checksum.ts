/** The SHA-256 of a backup in a file beside it, in the format of sha256sum. It finds changes to bytes that SQLite itself does not check. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { makeFile } from '../files.ts';

/** Whether a file has the content that its checksum file states; `missing`: there is no checksum file. */
export type ChecksumResult = 'matches' | 'differs' | 'unreadable' | 'missing';

/** The name of the checksum file of a backup. */
export const checksumFile = (file: string) => `${file}.sha256`;

const chunkBytes = 1024 * 1024;

/** Writes the checksum of an open file, which will be named `name`, to the file `to`. It is on disk when this resolves. */
export async function writeChecksum(descriptor: number, name: string, to: string): Promise<void> {
  const line = lineOf(hashOf(descriptor), path.basename(name));
  await makeFile(to, 0o600, async (checksum) => fs.writeFileSync(checksum, line));
}

/** Compares a file with the checksum beside it. Throws if either cannot be read. */
export function compareChecksum(file: string): ChecksumResult {
  const checksum = checksumFile(file);
  if (!fs.existsSync(checksum)) return 'missing';
  if (isFolder(checksum)) return 'unreadable';
  // The first line, whatever name it states: a backup may be renamed together with its checksum.
  const [, stated] = /^\\?([0-9a-f]{64}) [ *]/i.exec(fs.readFileSync(checksum, 'latin1')) ?? [];
  if (stated === undefined) return 'unreadable';
  const descriptor = fs.openSync(file, 'r');
  try {
    return stated.toLowerCase() === hashOf(descriptor) ? 'matches' : 'differs';
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Why a file is not accepted, in one sentence; undefined if it matches its checksum or has none. */
export function checksumProblem(file: string, result: ChecksumResult): string | undefined {
  const checksum = checksumFile(file);
  if (result === 'differs')
    return `${file} does not match its checksum in ${checksum}: it was damaged or changed after the backup.`;
  if (result === 'unreadable')
    return `${checksum} ${isFolder(checksum) ? 'is a folder' : 'does not begin with a SHA-256 checksum'}.`;
  return undefined;
}

const isFolder = (file: string) => fs.statSync(file).isDirectory();

function hashOf(descriptor: number): string {
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(chunkBytes);
  let position = 0;
  for (let count = -1; count !== 0; position += count) {
    count = fs.readSync(descriptor, chunk, 0, chunkBytes, position);
    hash.update(chunk.subarray(0, count));
  }
  return hash.digest('hex');
}

/** GNU sha256sum begins a line with a backslash if its name has escapes (coreutils manual, "cksum output modes"). */
function lineOf(digest: string, name: string): string {
  const escaped = name.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\r', '\\r');
  return `${escaped === name ? '' : '\\'}${digest}  ${escaped}\n`;
}
