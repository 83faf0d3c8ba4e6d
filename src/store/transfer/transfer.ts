/** Copies a store to another file or database and verifies the copy. An interrupted copy can be resumed. */
import { messageOf } from '../../core/errors.ts';
import { sqliteFile } from '../open.ts';
import { CopyError, OpenError, type OpenOptions } from '../store.ts';
import { openPostgresEnd } from './postgres-end.ts';
import { openSqliteEnd } from './sqlite-end.ts';
import { createSum, type End, notCopied, others, pets, type Sum, type Table } from './tables.ts';

/** `count`: pets copied so far, if `done` and `total` measure something else. */
type Show = (done: number, total: number, count?: number) => void;

interface CopyOptions extends OpenOptions {
  /** Runs `work` and displays its progress. */
  watch: <Result>(what: string, work: (show: Show) => Promise<Result>) => Promise<Result>;
}

/** Table → rows. */
type Counts = Record<string, number>;

/**
 * Copies the store at the URL `from` to the URL `to`, which must be missing, empty, or an earlier copy of the same store that has not been
 * written to since; then only new pets are copied. Resolves to the row counts after every row of both has been read and compared. Rejects
 * with CopyError.
 */
export async function copyStore(from: string, to: string, options: CopyOptions): Promise<Counts> {
  const ends: End[] = [];
  try {
    // The source first: if it cannot be opened, no target is created.
    const source = await openEnd(from, false, options);
    ends.push(source);
    const target = await openEnd(to, true, options);
    ends.push(target);
    return await copyOver(source, target, options);
  } catch (error) {
    if (error instanceof OpenError) throw new CopyError(error.message, { cause: error });
    throw error;
  } finally {
    for (const end of ends) end.close();
  }
}

async function openEnd(url: string, create: boolean, options: OpenOptions): Promise<End> {
  return url.startsWith('sqlite:')
    ? openSqliteEnd(sqliteFile(url), create, options)
    : openPostgresEnd(url, create, options);
}

async function copyOver(source: End, target: End, options: CopyOptions): Promise<Counts> {
  try {
    return await copy(source, target, options);
  } catch (error) {
    if (error instanceof CopyError) throw error;
    throw new CopyError(`The copy to ${target.label} was interrupted: ${messageOf(error)}.`, { cause: error });
  }
}

async function copy(source: End, target: End, { watch }: CopyOptions): Promise<Counts> {
  await refuseWritten(target);
  const copyAll = () => watch('Copying', (show) => copyPets(source, target, show));
  await copyAll();
  // From here on, read one snapshot of the source, so that it can be compared. Pets added meanwhile are left for the next run.
  return source.transaction('snapshot', async () => {
    await copyAll();
    const counts = await copyOthers(source, target);
    const pet = await watch('Comparing', (show) => comparePets(source, target, show));
    return { ...counts, pet };
  });
}

/** The digest of a table without rows. */
const noRows = createSum().digest();

/** Throws CopyError if anything other than this copy has written to the target: that data must not be overwritten or mixed in. */
async function refuseWritten(target: End): Promise<void> {
  const hasMark = await target.hasTable('copied');
  const [[lastId, digests] = ['0', '']] = hasMark ? await target.run('SELECT last_id, digest FROM copied') : [];
  if (!(await isUnchanged(target, lastId, digests?.split(',')))) {
    throw new CopyError(
      hasMark
        ? `${target.label} was written to after the last copy: a server has run on it.`
        : `${target.label} already holds a store.`,
    );
  }
  if (hasMark) return;
  // One statement, so that the table never exists without its row.
  const none = others.map(() => noRows).join();
  await target.run(`CREATE TABLE copied AS SELECT CAST(0 AS bigint) AS last_id, CAST('${none}' AS text) AS digest`);
}

/**
 * Whether the last pet id and the digests of the other tables are those of the last copy, and there are no rows in tables that are not copied.
 * Any write of a server changes one of these. Tables that the copy's release did not have are empty.
 */
async function isUnchanged(target: End, lastId: string | null | undefined, digests: string[] = []): Promise<boolean> {
  if ((await target.lastId('pet')) !== lastId) return false;
  for (const [index, table] of others.entries()) {
    if ((await sumOf(target, table)).digest() !== (digests[index] || noRows)) return false;
  }
  const anyRow = notCopied.map((table) => `SELECT 1 AS used FROM ${table}`).join(' UNION ALL ');
  return (await target.run(`${anyRow} LIMIT 1`)).length === 0;
}

async function sumOf(end: End, table: Table, onPage?: (rows: number) => void): Promise<Sum> {
  const sum = createSum();
  for await (const page of end.pages(table)) {
    sum.add(page);
    onPage?.(sum.rows);
  }
  return sum;
}

/** Continues after the last pet already copied. Each page is one transaction, so an interrupted copy contains only complete pages. */
async function copyPets(source: End, target: End, show: Show): Promise<void> {
  const [[last = null] = []] = await target.run('SELECT max(id) AS id FROM pet');
  const [[highest] = []] = await source.run('SELECT max(id) AS id FROM pet');
  let count = 0;
  for await (const page of source.pages(pets, last === null ? undefined : [last])) {
    const [id] = page.at(-1) as [string];
    await target.transaction('write', async () => {
      await target.insert(pets, page);
      await markCopied(target, id);
    });
    count += page.length;
    show(Number(id), Number(highest), count);
  }
}

async function markCopied(target: End, lastId: string, digests?: string[]): Promise<void> {
  await target.setLastId('pet', lastId);
  await target.run('UPDATE copied SET last_id = $1', [lastId]);
  if (digests) await target.run('UPDATE copied SET digest = $1', [digests.join()]);
}

async function copyOthers(source: End, target: End): Promise<Counts> {
  const counts: Counts = {};
  const digests: string[] = [];
  await target.transaction('write', async () => {
    for (const { name } of others) await target.run(`DELETE FROM ${name}`);
    for (const table of others) {
      const sum = createSum();
      for await (const page of source.pages(table)) {
        await target.insert(table, page);
        sum.add(page);
      }
      digests.push(compare(table, sum, await sumOf(target, table)));
      counts[table.name] = sum.rows;
    }
    for (const name of ['account', 'api_key']) await target.setLastId(name, await source.lastId(name));
    await markCopied(target, await source.lastId('pet'), digests);
  });
  return counts;
}

/** Returns the digest that both tables share. Throws CopyError if they differ. */
function compare({ name }: Table, expected: Sum, found: Sum): string {
  const digest = found.digest();
  if (digest === expected.digest()) return digest;
  throw new CopyError(
    `${name} differs in the copy, which holds ${found.rows} rows instead of ${expected.rows}: do not use it.`,
  );
}

/** Resolves to the number of pets. */
async function comparePets(source: End, target: End, show: Show): Promise<number> {
  const [[total] = []] = await source.run('SELECT count(*) AS total FROM pet');
  const [expected, found] = await Promise.all([
    sumOf(source, pets),
    sumOf(target, pets, (rows) => show(rows, Number(total))),
  ]);
  compare(pets, expected, found);
  return expected.rows;
}
