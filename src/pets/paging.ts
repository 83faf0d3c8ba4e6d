/** Keyset pagination: the cursor, which encodes a position in the list, and the Link header with the URL of the next page. */
import type { PetQuery } from '../core/pets.ts';
import { kind } from '../core/schema.ts';

const position = /^after:([1-9]\d{0,15})$/;

function writeCursor(after: bigint): string {
  return Buffer.from(`after:${after}`).toString('base64url');
}

/** The id in a cursor; undefined if `cursor` is not exactly what `writeCursor` returns for that id. */
function readCursor(cursor: string): bigint | undefined {
  const bytes = Buffer.from(cursor, 'base64url');
  const id = position.exec(bytes.toString('latin1'))?.[1];
  return id !== undefined && bytes.toString('base64url') === cursor ? BigInt(id) : undefined;
}

/** Opaque to clients. It encodes the id of the last pet on the previous page. */
export const Cursor = kind<bigint>(
  'Cursor',
  (value) => typeof value === 'bigint',
  'be copied unchanged from the Link header of a list response',
  {
    type: 'string',
    minLength: 1,
    pattern: '^[A-Za-z0-9_-]+$',
    description: 'Position in the list. Opaque: copy it unchanged from the Link header of the previous page.',
  },
  { read: (text) => readCursor(text) ?? text, code: 'invalid_cursor' },
);

/** The Link header of a page (RFC 8288): rel="first" always; rel="next" if more pets follow the one with the id `next`. */
export function pageLinks(base: string, { limit, status }: PetQuery, next: bigint | undefined): string {
  const first = `${base}/pets?limit=${limit}${status ? `&status=${status}` : ''}`;
  const links = `<${first}>; rel="first"`;
  return next === undefined ? links : `<${first}&cursor=${writeCursor(next)}>; rel="next", ${links}`;
}
