/** The SHA-256 of a backup in a file beside it, in the format of sha256sum. It finds changes to bytes that SQLite itself does not check. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { makeFile } from '../files.ts';

/** The name of the checksum file of a backup. */
export const checksumFile = (file: string) => `${file}.sha256`;

/** Writes the checksum of `copy`, which will be named `file`, to the new file `checksum`. It is on disk when this resolves. */
export async function writeChecksum(copy: string, file: string, checksum: string): Promise<void> {
  const line = lineOf(await hashOf(copy), path.basename(file));
  await makeFile(checksum, 0o600, async (descriptor) => fs.writeFileSync(descriptor, line));
}

/** Whether a file has the checksum that is beside it; undefined if there is none. Rejects if either cannot be read. */
export async function matchesChecksum(file: string): Promise<boolean | undefined> {
  const checksum = checksumFile(file);
  const found = fs.statSync(checksum, { throwIfNoEntry: false });
  if (!found) return undefined;
  // The first line, whatever name it states: a backup may be renamed together with its checksum.
  const text = found.isFile() ? fs.readFileSync(checksum, 'latin1') : '';
  const [, stated] = /^\\?([0-9a-f]{64}) [ *]/i.exec(text) ?? [];
  return stated?.toLowerCase() === (await hashOf(file));
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of fs.createReadStream(file)) hash.update(chunk);
  return hash.digest('hex');
}

/** GNU sha256sum begins a line with a backslash if its name has escapes (coreutils manual, "cksum output modes"). */
function lineOf(digest: string, name: string): string {
  const escaped = name.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\r', '\\r');
  return `${escaped === name ? '' : '\\'}${digest}  ${escaped}\n`;
}
