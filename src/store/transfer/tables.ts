/** What a copy needs of a store; the tables that it copies, the text of their rows, and the digests that compare them. */
import { createHash, type Hash } from 'node:crypto';

type ColumnType = 'bigint' | 'text' | 'bytea';

export interface Table {
  name: string;
  /** Name and PostgreSQL type of each column, primary key first. Rows are read in primary key order. */
  columns: Record<string, ColumnType>;
  /** Number of primary key columns. */
  keys: number;
}

/** Every value as text; bytes in PostgreSQL's hex format. */
export type Row = (string | null)[];

/** One end of a copy: what a copy needs of a store, whichever database holds it. Each method rejects with the error of its driver. */
export interface End {
  /** Names the store in messages. */
  label: string;
  /** Runs a statement that both databases understand, with parameters $1, $2, … Resolves to the rows. */
  run(statement: string, values?: string[]): Promise<Row[]>;
  /** Runs `work` in a transaction. `snapshot`: it reads one state of the store and changes nothing. */
  transaction<Result>(kind: 'write' | 'snapshot', work: () => Promise<Result>): Promise<Result>;
  /** Reads a table page by page in primary key order, starting after the row `after`. */
  pages(table: Table, after?: Row): AsyncGenerator<Row[]>;
  insert(table: Table, rows: Row[]): Promise<void>;
  hasTable(name: string): Promise<boolean>;
  /** The highest id ever given, even if its row has been deleted; 0 if none was. */
  lastId(table: string): Promise<string>;
  setLastId(table: string, id: string): Promise<void>;
  close(): void;
}

/** Rows are only added, never changed, so a resumed copy skips the rows already copied. */
export const pets: Table = {
  name: 'pet',
  columns: { id: 'bigint', name: 'text', category_id: 'bigint', status: 'text' },
  keys: 1,
};

/**
 * Tables that are small, or whose rows change or are deleted. They are copied in full each time. New tables go at the end: the digests that
 * earlier releases recorded are those of the first ones.
 */
export const others: Table[] = [
  {
    name: 'account',
    columns: { id: 'bigint', name: 'text', created_at: 'bigint', password_hash: 'text', network: 'bytea' },
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
  {
    name: 'import',
    columns: { hash: 'bytea', lines: 'bigint', animals: 'bigint', began_at: 'bigint', ended_at: 'bigint' },
    keys: 1,
  },
  { name: 'rotated_key', columns: { key_id: 'bigint', successor_id: 'bigint' }, keys: 1 },
  { name: 'form_token', columns: { key_id: 'bigint', hash: 'bytea' }, keys: 1 },
  {
    name: 'api_key_usage',
    columns: {
      ...{ key_id: 'bigint', day: 'bigint', succeeded: 'bigint', client_errors: 'bigint', rate_limited: 'bigint' },
      ...{ server_errors: 'bigint', deprecated_calls: 'bigint', error_code: 'text', error_at: 'bigint' },
    },
    keys: 2,
  },
];

/** Short-lived rows are not copied: after a copy people sign in again, and unused links must be made again. */
export const notCopied = ['session', 'one_time_link', 'attempt', 'counted_attempt', 'account_event'];

const pageRows = 2000;

export function textOf(value: unknown): string | null {
  if (value === null) return null;
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : String(value);
}

/** The types of the primary key. */
export function keyTypes({ columns, keys }: Table): ColumnType[] {
  return Object.values(columns).slice(0, keys);
}

/** The statement that reads a page in primary key order. `next`: after the row whose primary key is $1, $2, … */
export function pageOf(table: Table, next: boolean): string {
  const names = Object.keys(table.columns);
  const keys = names.slice(0, table.keys);
  const where = next ? `WHERE (${keys}) > (${keys.map((_, index) => `$${index + 1}`)})` : '';
  return `SELECT ${names} FROM ${table.name} ${where} ORDER BY ${keys} LIMIT ${pageRows}`;
}

/** Without the NULLs at its end, a row keeps its digest when a later release adds a nullable column. */
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
