/** A file to import that can be read repeatedly (hashed, then checked, then added), and its lines. */
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
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

export interface Line {
  /** From 1. */
  number: number;
  /** Without its line feed, and valid until the next line is read; undefined if it is longer than `maxLineBytes`. */
  bytes: Buffer | undefined;
  /** Bytes of the file up to the end of this line. */
  end: number;
}

/** Twice what a request's body may hold. */
export const maxLineBytes = 128 * 1024;

const chunkBytes = 256 * 1024;

const nothing = Buffer.alloc(0);

/** Opens a regular file itself, and a temporary copy of anything that can be read only once, such as a pipe. Returns a descriptor. */
export async function openSource(source: string | Readable): Promise<number> {
  if (typeof source === 'string' && statSync(source).isFile()) return openSync(source, 'r');
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-'));
  const file = openSync(path.join(folder, 'import'), 'wx+', 0o600);
  // Without a name, the copy disappears with the process, however that ends.
  rmSync(folder, { recursive: true });
  const input = typeof source === 'string' ? createReadStream(source) : source;
  await pipeline(input, createWriteStream('', { fd: file, autoClose: false }));
  return file;
}

/** SHA-256 of all bytes and of the way in which they are read. */
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

/** Changes whenever the file is written to. */
export function versionOf(file: number): string {
  const { size, mtimeNs } = fstatSync(file, { bigint: true });
  return `${size} ${mtimeNs}`;
}

/** The lines of a file of any size, in little memory. Only a line feed ends a line: JSON text may contain all other line breaks. */
export function* readLines(file: number): Generator<Line> {
  const buffer = Buffer.allocUnsafe(chunkBytes);
  let number = 0;
  let position = 0;
  let begun = nothing;
  const line = (bytes: Buffer, end: number): Line => {
    number += 1;
    return { number, bytes: bytes.length > maxLineBytes ? undefined : bytes, end };
  };
  for (;;) {
    const chunk = buffer.subarray(0, readSync(file, buffer, 0, chunkBytes, position));
    if (chunk.length === 0) break;
    let start = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      const ending = chunk.subarray(start, end);
      start = end + 1;
      yield line(begun.length === 0 ? ending : Buffer.concat([begun, ending]), position + start);
      begun = nothing;
    }
    // A line that is too long already needs no more of its bytes.
    if (begun.length <= maxLineBytes) begun = Buffer.concat([begun, chunk.subarray(start)]);
    position += chunk.length;
  }
  if (begun.length > 0) yield line(begun, position);
}
