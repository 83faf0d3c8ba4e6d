/** What is imported, as a file that can be read again and again: first to know it, then to check it, then to add it. */
import { createHash } from 'node:crypto';
import {
  createReadStream,
  createWriteStream,
  fstatSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

/** A descriptor of the file; of a copy where it can be read only once. */
export async function openSource(name: string): Promise<number> {
  if (name !== '-' && statSync(name).isFile()) return openSync(name, 'r');
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-'));
  const file = openSync(path.join(folder, 'import'), 'wx+', 0o600);
  // Without a name it is gone when the process is, however that ends.
  rmSync(folder, { recursive: true });
  const input = name === '-' ? process.stdin : createReadStream(name);
  await pipeline(input, createWriteStream('', { fd: file, autoClose: false }));
  return file;
}

/** SHA-256 of how it is read and of all its bytes. */
export function hashOf(file: number, reading: string): Buffer {
  const hash = createHash('sha256').update(`${reading}\n`);
  const buffer = Buffer.allocUnsafe(1024 * 1024);
  let position = 0;
  for (let count = -1; count !== 0; position += count) {
    count = readSync(file, buffer, 0, buffer.length, position);
    hash.update(buffer.subarray(0, count));
  }
  return hash.digest();
}

/** Changes when somebody writes to the file. */
export function versionOf(file: number): string {
  const { size, mtimeNs } = fstatSync(file, { bigint: true });
  return `${size} ${mtimeNs}`;
}
