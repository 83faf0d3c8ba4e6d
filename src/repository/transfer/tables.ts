/** The tables that are copied from SQLite to PostgreSQL, and reading their rows as the same text from both. */
import { createHash, type Hash } from 'node:crypto';
import type { Sql } from '../postgres/sql.ts';
import type { Connection } from '../sqlite/connection.ts';

export interface Table {
  name: string;
  /** Name and PostgreSQL type of each column, primary key first. Rows are read in primary key order. */
  columns: Record<string, 'bigint' | 'text' | 'bytea'>;
  /** Number of primary key columns. */
  keys: number;
}

/** Every value as text; bytes in PostgreSQL's hex format. */
export type Row = (string | null)[];

/** Rows are only added, never changed, so a resumed copy skips the rows already copied. */
export const pets: Table = {
  name: 'pet',
  columns: { id: 'bigint', name: 'text', category_id: 'bigint', status: 'text' },
  keys: 1,
};

/** Tables that are small, or whose rows change or are deleted. They are copied in full each time. */
export const others: Table[] = [
  {
    name: 'account',
    columns: { id: 'bigint', name: 'text', created_at: 'bigint', password_hash: 'text' },
    keys: 1,
  },
  {
    name: 'api_key',
    columns: {
      ...{ id: 'bigint', account_id: 'bigint', name: 'text', hint: 'text', hash: 'bytea', scopes: 'text' },
      ...{ created_at: 'bigint', lifetime_ms: 'bigint', expires_at: 'bigint', revoked_at: 'bigint' },
      ...{ last_used_at: 'bigint', deprecated_calls: 'bigint' },
    },
    keys: 1,
  },
  {
    name: 'idempotency',
    columns: { account_id: 'bigint', operation: 'text', key: 'text', pet_id: 'bigint', created_at: 'bigint' },
    keys: 3,
  },
  {
    name: 'message',
    columns: { id: 'text', account_id: 'bigint', message: 'text', status: 'text', created_at: 'bigint' },
    keys: 1,
  },
];

/** Short-lived rows are not copied: after a copy people sign in again, and unused links must be made again. */
export const notCopied = ['session', 'one_time_link', 'attempt', 'account_event'];

const batchRows = 2000;

const textOf = (value: unknown) => {
  if (value === null) return null;
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : String(value);
};

const columnsOf = ({ columns }: Table) => Object.keys(columns).join(', ');
const keysOf = ({ columns, keys }: Table) => Object.keys(columns).slice(0, keys).join(', ');

/** The WHERE clause of the next page: rows after the last row's primary key. */
function condition({ columns, keys }: Table, place: (index: number, type: string) => string): string {
  const types = Object.values(columns).slice(0, keys);
  return `WHERE (${Object.keys(columns).slice(0, keys)}) > (${types.map((type, index) => place(index, type))})`;
}

function pageOf(table: Table, where: string): string {
  return `SELECT ${columnsOf(table)} FROM ${table.name} ${where} ORDER BY ${keysOf(table)} LIMIT ${batchRows}`;
}

/** Reads a SQLite table page by page, starting after the row `after`. */
export function* sqlitePages(source: Connection, table: Table, after?: Row): Generator<Row[]> {
  const place = (_: number, type: string) => (type === 'bigint' ? 'CAST(? AS INTEGER)' : '?');
  const next = source.prepare<unknown[], unknown[]>(pageOf(table, condition(table, place))).raw();
  const first = source.prepare<unknown[], unknown[]>(pageOf(table, '')).raw();
  for (let last = after; ; ) {
    const rows = last ? next.all(...last.slice(0, table.keys)) : first.all();
    if (rows.length === 0) return;
    const page = rows.map((row) => row.map(textOf));
    yield page;
    last = page.at(-1) as Row;
  }
}

/** Reads a PostgreSQL table page by page. */
export async function* postgresPages(target: Sql, table: Table): AsyncGenerator<Row[]> {
  const place = (index: number) => `$${index + 1}`;
  for (let last: Row | undefined; ; ) {
    const where = last ? condition(table, place) : '';
    const rows = await target.unsafe(pageOf(table, where), last?.slice(0, table.keys));
    if (rows.length === 0) return;
    const page = rows.map((row) => Object.values(row).map(textOf));
    yield page;
    last = page.at(-1) as Row;
  }
}

/** A nullable column that a later release adds at the end does not change the digest of a copy that an earlier one made. */
function withoutLastNulls(row: Row): Row {
  return row.slice(0, row.findLastIndex((value) => value !== null) + 1);
}

export interface Sum {
  rows: number;
  add: (page: Row[]) => void;
  /** SHA-256 of all rows in order, in hexadecimal. */
  digest: () => string;
}

export function createSum(): Sum {
  const hash: Hash = createHash('sha256');
  return {
    rows: 0,
    add(page) {
      this.rows += page.length;
      hash.update(page.map((row) => `${JSON.stringify(withoutLastNulls(row))}\n`).join(''));
    },
    digest: () => hash.digest('hex'),
  };
}
