/** The lines of a file of any size, in little memory. Only a line feed ends one: a JSON text may hold every other line break. */
import { readSync } from 'node:fs';

export interface Line {
  /** From 1. */
  number: number;
  /** Without its line feed, and valid until the next line is read; undefined where it is longer than `maxLineBytes`. */
  bytes: Buffer | undefined;
  /** Bytes of the file up to and with it. */
  end: number;
}

/** Twice what a request's body may hold. */
export const maxLineBytes = 128 * 1024;

const chunkBytes = 256 * 1024;

const nothing = Buffer.alloc(0);

/** `file`: a descriptor that can be read from any place. */
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
    // What is too long stays so when the rest is left out.
    if (begun.length <= maxLineBytes) begun = Buffer.concat([begun, chunk.subarray(start)]);
    position += chunk.length;
  }
  if (begun.length > 0) yield line(begun, position);
}
