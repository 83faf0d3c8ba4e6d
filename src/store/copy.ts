/** Copies an SQLite store into an empty PostgreSQL database, in one transaction there: all of it arrives, or nothing. */
import type Database from 'better-sqlite3';
import { codeOf, messageOf } from '../core/errors.ts';
import { openPools } from './postgres/open.ts';
import type { Connection } from './postgres/sql.ts';
import { readTarget } from './postgres/url.ts';
import { openReader } from './sqlite/connection.ts';
import { openExisting, prepareStore } from './sqlite/store-file.ts';
import { CopyError, OpenError, type OpenOptions } from './store.ts';

/** A row that refers to another one comes after it. */
const copied = [
  'pet',
  'account',
  'api_key',
  'idempotency',
  'message',
  'rotated_key',
  'api_key_usage',
  'api_key_error',
] as const;

/** Rows that do not live long, or that no release from 2.0.0 on reads. */
const notCopied = ['session', 'one_time_link', 'attempt', 'counted_attempt', 'account_event', 'import', 'form_token'];

/** A server reads `migration` first: one that starts meanwhile fails at its lock_timeout, and serves no part of the copy. */
const locked = [...copied, ...notCopied, 'pet_id', 'pet_revision', 'migration'];

/** Long enough for PostgreSQL to end an autovacuum that holds a table. */
const lockTimeoutMs = 5000;

/** https://www.postgresql.org/docs/18/errcodes-appendix.html: lock_not_available, deadlock_detected. */
const inUse = ['55P03', '40P01'];

/** Bounds the memory: a name of an early release may have 64 KiB. */
const pageRows = 1000;

type Table = (typeof copied)[number];
type Row = unknown[];

/** Rows by table. */
type Counts = Record<Table, number>;

/**
 * Copies the store in `file`, which a server may use, to the database at `databaseUrl`. Migrates both first. Resolves to the row counts, after
 * every row has been read back and compared. Rejects with CopyError, and then leaves no rows in the database, unless the error says otherwise.
 */
export async function copyIntoPostgres(file: string, databaseUrl: string, options: OpenOptions): Promise<Counts> {
  try {
    // The source first: without it, the target is not migrated.
    openExisting(file).close();
    prepareStore(file, options);
    const source = openReader(file);
    try {
      // All reads see the state of the first one.
      source.exec('BEGIN');
      return await copyTo(source, databaseUrl, options);
    } finally {
      source.close();
    }
  } catch (error) {
    if (error instanceof OpenError) throw new CopyError(error.message, { cause: error });
    throw error;
  }
}

async function copyTo(source: Database.Database, databaseUrl: string, options: OpenOptions): Promise<Counts> {
  const target = readTarget(databaseUrl);
  const { label } = target;
  const { pools } = await openPools(target, options);
  let copiedAll = false;
  try {
    return await pools.keyed.alone(async (connection) => {
      // Without a lock, for which the servers of another store would have to wait.
      await refuseFilled(connection, label);
      return connection.begin(async () => {
        await lockTables(connection);
        await refuseFilled(connection, label);
        const counts = {} as Counts;
        for (const table of copied) counts[table] = await copyTable(table, source, connection);
        await continueIds(source, connection);
        copiedAll = true;
        return counts;
      });
    });
  } catch (error) {
    if (error instanceof CopyError) throw error;
    throw new CopyError(sentenceOf(error, label, copiedAll), { cause: error });
  } finally {
    await pools.close();
  }
}

function sentenceOf(error: unknown, label: string, copiedAll: boolean): string {
  if (copiedAll)
    return `It is unknown whether ${label} holds the copy: ${messageOf(error)}. If it holds rows, they are complete; otherwise copy again.`;
  if (inUse.includes(codeOf(error))) return `${label} is in use: stop its servers, and what else uses its tables.`;
  return `The copy to ${label} failed, and nothing was copied: ${messageOf(error)}.`;
}

async function refuseFilled(connection: Connection, label: string): Promise<void> {
  const anyRow = [...copied, ...notCopied].map((name) => `SELECT '${name}' AS name WHERE EXISTS (SELECT FROM ${name})`);
  const filled = await connection.unsafe<{ name: string }[]>(anyRow.join(' UNION ALL '));
  if (filled.length === 0) return;
  const names = filled.map(({ name }) => name).join(', ');
  throw new CopyError(`${label} already holds rows (${names}): copy to an empty database.`);
}

/** Removes the time-outs of the transaction, because the copy may take hours, and keeps everybody else out of the tables until its end. */
async function lockTables(connection: Connection): Promise<void> {
  // Not SET: PostgreSQL before 17 has no transaction_timeout.
  await connection`
    SELECT set_config(name, '0', true) FROM pg_settings
    WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`;
  await connection.unsafe(`
    SET LOCAL lock_timeout = ${lockTimeoutMs};
    LOCK TABLE ${locked.join(', ')} IN ACCESS EXCLUSIVE MODE;
    SET LOCAL lock_timeout = 0`);
}

const postgresTypes = { INTEGER: 'bigint', TEXT: 'text', BLOB: 'bytea' };
type Column = { name: string; type: keyof typeof postgresTypes; pk: bigint };

/** Writes the rows, then reads them back and compares them. Resolves to the number of rows. */
async function copyTable(table: Table, source: Database.Database, connection: Connection): Promise<number> {
  // Without the generated column pet.json, which PostgreSQL writes itself.
  const columns = source.prepare<[string], Column>('SELECT name, type, pk FROM pragma_table_info(?)').all(table);
  const names = columns.map(({ name }) => name);
  const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => name);
  const arrays = columns.map(({ type }, index) => `$${index + 1}::${postgresTypes[type]}[]`);
  // Both databases compare texts by their bytes, and so have the same order.
  const select = `SELECT ${names} FROM ${table} ORDER BY ${keys}`;
  const pages = () => pagesOf(source.prepare<[], Row>(select).raw().iterate());

  for (const page of pages()) {
    const values = names.map((_, index) => page.map((row) => row[index]));
    await connection.unsafe(`INSERT INTO ${table} (${names}) SELECT * FROM unnest(${arrays})`, values);
  }
  let rows = 0;
  await connection.unsafe(`DECLARE stored CURSOR FOR ${select}`);
  for (const page of pages()) {
    const stored = await connection.unsafe(`FETCH ${pageRows} FROM stored`);
    if (textOf(stored.map(Object.values)) !== textOf(page))
      throw new CopyError(`${table} differs in the copy after ${rows} rows: nothing was copied.`);
    rows += page.length;
  }
  await connection.unsafe('CLOSE stored');
  return rows;
}

/** The last page has fewer than `pageRows`, so that a row too many in the copy is found beside it. */
function* pagesOf(rows: Iterable<Row>): Generator<Row[]> {
  let page: Row[] = [];
  for (const row of rows) {
    page.push(row);
    if (page.length < pageRows) continue;
    yield page;
    page = [];
  }
  yield page;
}

/** Integers are bigint in SQLite's rows, and mostly numbers in PostgreSQL's. */
function textOf(page: Row[]): string {
  return JSON.stringify(
    page.map((row) => row.map((value) => (['bigint', 'number'].includes(typeof value) ? String(value) : value))),
  );
}

/** No id is given twice, even if its row is gone from the source. */
async function continueIds(source: Database.Database, connection: Connection): Promise<void> {
  const lastIds = source
    .prepare<[], [string, bigint]>(
      "SELECT name, seq FROM sqlite_sequence WHERE name IN ('pet', 'account', 'api_key') AND seq > 0",
    )
    .raw();
  for (const [table, id] of lastIds.all()) {
    if (table === 'pet') await connection`UPDATE pet_id SET last_id = greatest(last_id, ${id})`;
    else
      await connection`
        SELECT setval(sequence, greatest(${id}, pg_sequence_last_value(sequence)))
        FROM (SELECT pg_get_serial_sequence(${table}, 'id')::regclass AS sequence) AS given`;
  }
}
