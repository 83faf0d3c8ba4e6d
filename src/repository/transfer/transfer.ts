/** Copies a store from SQLite to PostgreSQL and verifies the copy. An interrupted copy can be resumed. */

import { createConnector, type Connection as PostgresConnection } from '../postgres/connection.ts';
import { prepareDatabase } from '../postgres/open.ts';
import { type Sql, textArray } from '../postgres/sql.ts';
import { readTarget, type Target } from '../postgres/url.ts';
import { type Connection, openExisting, openReader, prepareStore } from '../sqlite/connection.ts';
import { CopyError, OpenError, type OpenOptions } from '../store.ts';
import {
  createSum,
  notCopied,
  others,
  pets,
  postgresPages,
  type Row,
  type Sum,
  sqlitePages,
  type Table,
} from './tables.ts';

/** `count`: pets copied so far, if `done` and `total` measure something else. */
type Show = (done: number, total: number, count?: number) => void;

interface CopyOptions extends OpenOptions {
  /** Runs `work` and displays its progress. */
  watch: <Result>(what: string, work: (show: Show) => Promise<Result>) => Promise<Result>;
}

/** Table → rows. */
type Counts = Record<string, number>;

/**
 * Copies the store in `file` to the database, which must be empty or hold an earlier copy of the same store that has not been written to
 * since; then only new pets are copied. Resolves to the row counts after every row has been read back and compared. Rejects with CopyError.
 */
export async function copyToPostgres(file: string, databaseUrl: string, options: CopyOptions): Promise<Counts> {
  try {
    openExisting(file).close();
    prepareStore(file, options);
    const target = readTarget(databaseUrl);
    const connect = () => createConnector(target)(() => undefined);
    await prepareDatabase(target, connect, options);
    return await copyOver(file, target, await connect(), options);
  } catch (error) {
    if (error instanceof OpenError) throw new CopyError(error.message, { cause: error });
    throw error;
  }
}

async function copyOver(
  file: string,
  { label }: Target,
  { sql, destroy }: PostgresConnection,
  options: CopyOptions,
): Promise<Counts> {
  const source = openReader(file);
  try {
    return await copy(source, sql, label, options);
  } catch (error) {
    if (error instanceof CopyError) throw error;
    throw new CopyError(`The copy to ${label} was interrupted: ${(error as Error).message}.`, { cause: error });
  } finally {
    destroy();
    source.close();
  }
}

async function copy(source: Connection, target: Sql, label: string, options: CopyOptions): Promise<Counts> {
  await refuseWritten(target, label);
  const copyAll = () => options.watch('Copying', (show) => copyPets(source, target, show));
  await copyAll();
  // From here on, read one snapshot of the source, so that it can be compared. Pets added meanwhile are left for the next run.
  source.exec('BEGIN');
  try {
    await copyAll();
    const counts = await copyOthers(source, target);
    const pet = await options.watch('Comparing', (show) => comparePets(source, target, show));
    return { ...counts, pet };
  } finally {
    source.exec('ROLLBACK');
  }
}

/** Throws CopyError if anything other than this copy has written to the target: that data must not be overwritten or mixed in. */
async function refuseWritten(target: Sql, label: string): Promise<void> {
  const [found] = await target`SELECT to_regclass('copied') IS NOT NULL AS before`;
  const state = await stateOf(target);
  if (!found?.before) {
    const [row] = await target`SELECT EXISTS (SELECT FROM pet) AS filled`;
    if (row?.filled || state.last_id !== '0' || state.digest !== emptyDigest || state.used)
      throw new CopyError(`${label} already holds a store.`);
    // One statement, so that the table never exists without its row.
    await target`CREATE TABLE copied AS SELECT 0::bigint AS last_id, ${emptyDigest}::text AS digest`;
    return;
  }
  const [mark] = await target`SELECT last_id, digest FROM copied`;
  if (mark?.last_id !== state.last_id || mark.digest !== state.digest || state.used) {
    throw new CopyError(`${label} was written to after the last copy: a server has run on it.`);
  }
}

/**
 * Changes with every write to the store: the last pet id assigned, a digest of the other tables that are copied, and whether there are rows
 * in those that are not.
 */
async function stateOf(target: Sql): Promise<{ last_id: string; digest: string; used: boolean }> {
  const digests = [];
  for (const table of others) digests.push((await sumOf(target, table)).digest());
  const [row] = await target`SELECT greatest(last_id, (SELECT max(id) FROM pet)) AS last_id FROM pet_id`;
  const anyRows = notCopied.map((table) => `EXISTS (SELECT FROM ${table})`).join(' OR ');
  const [found] = await target.unsafe(`SELECT ${anyRows} AS used`);
  return { last_id: row?.last_id, digest: digests.join(), used: found?.used };
}

const emptyDigest = others.map(() => createSum().digest()).join();

async function sumOf(target: Sql, table: Table, onPage?: (rows: number) => void): Promise<Sum> {
  const sum = createSum();
  for await (const page of postgresPages(target, table)) {
    sum.add(page);
    onPage?.(sum.rows);
  }
  return sum;
}

async function insert(target: Sql, { name, columns }: Table, page: Row[]): Promise<void> {
  const names = Object.keys(columns);
  const arrays = Object.values(columns).map((type, index) => `$${index + 1}::${type}[]`);
  const values = names.map((_, index) => textArray(page.map((row) => row[index])));
  await target.unsafe(`INSERT INTO ${name} (${names.join(', ')}) SELECT * FROM unnest(${arrays.join(', ')})`, values);
}

/** Continues after the last pet already copied. Each page is one transaction, so an interrupted copy contains only complete pages. */
async function copyPets(source: Connection, target: Sql, show: Show): Promise<void> {
  const [last] = await target`SELECT max(id) AS id FROM pet`;
  const total = Number(source.prepare('SELECT max(id) FROM pet').pluck().get() ?? 0);
  let count = 0;
  for (const page of sqlitePages(source, pets, last?.id === null ? undefined : [last?.id])) {
    const [id] = page.at(-1) as [string];
    await target.begin(async (transaction) => {
      await insert(transaction as unknown as Sql, pets, page);
      await markCopied(transaction as unknown as Sql, id);
    });
    count += page.length;
    show(Number(id), total, count);
  }
}

async function markCopied(target: Sql, lastId: string, digest?: string): Promise<void> {
  await target`UPDATE pet_id SET last_id = ${lastId}`;
  await target`UPDATE copied SET last_id = ${lastId}, digest = coalesce(${digest ?? null}, digest)`;
}

/** The highest id ever assigned, even if its row has been deleted. */
function lastGiven(source: Connection, table: string): string {
  return String(source.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').pluck().get(table) ?? 0);
}

async function copyOthers(source: Connection, target: Sql): Promise<Counts> {
  const counts: Counts = {};
  const digests: string[] = [];
  await target.begin(async (transaction) => {
    const sql = transaction as unknown as Sql;
    for (const { name } of others) await sql.unsafe(`DELETE FROM ${name}`);
    for (const table of others) {
      const sum = createSum();
      for (const page of sqlitePages(source, table)) {
        await insert(sql, table, page);
        sum.add(page);
      }
      digests.push(await compare(sql, table, sum));
      counts[table.name] = sum.rows;
    }
    for (const name of ['account', 'api_key']) {
      const last = lastGiven(source, name);
      await sql`SELECT setval(pg_get_serial_sequence(${name}, 'id'), greatest(${last}::bigint, 1), ${last}::bigint > 0)`;
    }
    await markCopied(sql, lastGiven(source, 'pet'), digests.join());
  });
  return counts;
}

/** Resolves to the digest that both tables share. Rejects with CopyError if they differ. */
async function compare(target: Sql, table: Table, expected: Sum, onPage?: (rows: number) => void): Promise<string> {
  const found = await sumOf(target, table, onPage);
  const digest = found.digest();
  if (digest === expected.digest()) return digest;
  throw new CopyError(
    `${table.name} differs in the copy, which holds ${found.rows} rows instead of ${expected.rows}: do not use it.`,
  );
}

/** Resolves to the number of pets. */
async function comparePets(source: Connection, target: Sql, show: Show): Promise<number> {
  const sum = createSum();
  for (const page of sqlitePages(source, pets)) sum.add(page);
  await compare(target, pets, sum, (rows) => show(rows, sum.rows));
  return sum.rows;
}
