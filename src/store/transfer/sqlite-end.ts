/** An SQLite file as the source or the target of a copy. */
import { setImmediate } from 'node:timers/promises';
import { checkpoint, openConnection, openReader } from '../sqlite/connection.ts';
import { openExisting, prepareStore } from '../sqlite/store-file.ts';
import type { OpenOptions } from '../store.ts';
import { type End, keyTypes, pageOf, type Table, textOf } from './tables.ts';

/** The WAL grows by a few MiB in between. */
const commitsBetweenCheckpoints = 16;

/** Opens an existing store, or with `create` also a missing one, after migrating it to this release's schema. Throws OpenError. */
export function openSqliteEnd(file: string, create: boolean, options: OpenOptions): End {
  if (!create) openExisting(file).close();
  prepareStore(file, options);
  const connection = create ? openConnection(file) : openReader(file);
  let commits = 0;

  const prepare = (text: string) => connection.prepare<unknown[], unknown[]>(text);
  /** SQLite knows $1 only as a name. */
  const named = (values: unknown[]) => Object.fromEntries(values.map((value, index) => [index + 1, value]));

  return {
    label: file,

    async run(text, values = []) {
      const statement = prepare(text);
      const given = values.length > 0 ? [named(values)] : [];
      if (statement.reader)
        return statement
          .raw()
          .all(...given)
          .map((row) => row.map(textOf));
      statement.run(...given);
      return [];
    },

    async transaction(kind, work) {
      connection.exec(kind === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN');
      try {
        const result = await work();
        connection.exec('COMMIT');
        if (kind === 'write' && ++commits % commitsBetweenCheckpoints === 0) checkpoint(connection);
        return result;
      } catch (error) {
        // SQLite itself has rolled back after some errors, such as a full disk.
        if (connection.inTransaction) connection.exec('ROLLBACK');
        throw error;
      }
    },

    async *pages(table, after) {
      const [first, next] = [prepare(pageOf(table, false)).raw(), prepare(pageOf(table, true)).raw()];
      const types = keyTypes(table);
      for (let last = after; ; ) {
        const rows = last ? next.all(named(types.map((type, index) => bound(type, last?.[index])))) : first.all();
        const page = rows.map((row) => row.map(textOf));
        last = page.at(-1);
        if (last === undefined) return;
        yield page;
        // Lets the event loop handle the other end's answers.
        await setImmediate();
      }
    },

    async insert({ name, columns }: Table, rows) {
      const types = Object.values(columns);
      const names = Object.keys(columns);
      const statement = prepare(`INSERT INTO ${name} (${names}) VALUES (${names.map(() => '?')})`);
      for (const row of rows) statement.run(...types.map((type, index) => bound(type, row[index])));
    },

    async hasTable(name) {
      return prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(name) !== undefined;
    },

    async lastId(table) {
      return String(prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').pluck().get(table) ?? 0);
    },

    async setLastId(table, id) {
      prepare('DELETE FROM sqlite_sequence WHERE name = ?').run(table);
      prepare('INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)').run(table, BigInt(id));
    },

    close: () => connection.close(),
  };
}

function bound(type: string, text: string | null | undefined): bigint | Buffer | string | null {
  if (text === null || text === undefined) return null;
  if (type === 'bigint') return BigInt(text);
  return type === 'bytea' ? Buffer.from(text.slice(2), 'hex') : text;
}
