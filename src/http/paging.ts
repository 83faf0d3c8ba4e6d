/** Keyset paging: the cursor that names a position, and the Link header that leads from page to page. */
import type { PetStatus } from '../pets.ts';
import { kind } from '../schema.ts';

/** Opaque to clients; to us, the id of the last animal seen. */
export const Cursor = kind<bigint>(
  'Cursor',
  (value) => typeof value === 'bigint',
  'be taken unchanged from the Link header of a list answer',
  {
    type: 'string',
    minLength: 1,
    pattern: '^[A-Za-z0-9_-]+$',
    description: 'Position in the list. Opaque: take it, unchanged, from the Link header of the page before.',
  },
);

const position = /^after:([1-9]\d{0,15})$/;

function writeCursor(after: bigint): string {
  return Buffer.from(`after:${after}`).toString('base64url');
}

/** The id in a cursor, or undefined where `cursor` is not exactly what `writeCursor` writes. */
export function readCursor(cursor: string): bigint | undefined {
  const id = position.exec(Buffer.from(cursor, 'base64url').toString('latin1'))?.[1];
  if (id === undefined) return undefined;
  const after = BigInt(id);
  return writeCursor(after) === cursor ? after : undefined;
}

interface Walk {
  limit: number;
  status?: PetStatus | undefined;
}

/** The Link header of a page (RFC 8288): rel="first" always, rel="next" where an animal follows the one with the id `next`. */
export function pageLinks(base: string, { limit, status }: Walk, next: bigint | undefined): string {
  const first = `${base}/pets?limit=${limit}${status ? `&status=${status}` : ''}`;
  const links = [`<${first}>; rel="first"`];
  if (next !== undefined) links.unshift(`<${first}&cursor=${writeCursor(next)}>; rel="next"`);
  return links.join(', ');
}
