/** A PostgreSQL database as the source or the target of a copy. */
import { openAlone } from '../postgres/open.ts';
import { arrayOf } from '../postgres/sql.ts';
import type { OpenOptions } from '../store.ts';
import { type End, pageOf, type Row, textOf } from './tables.ts';

/** Opens a database, which must have this release's schema unless `create` allows to migrate it. Rejects with OpenError. */
export async function openPostgresEnd(databaseUrl: string, create: boolean, options: OpenOptions): Promise<End> {
  const { sql, label, destroy } = await openAlone(databaseUrl, { ...options, migrate: create });

  async function run(statement: string, values?: (string | null)[]): Promise<Row[]> {
    const rows = await sql.unsafe(statement, values);
    return rows.map((row) => Object.values(row).map(textOf));
  }

  /** The one value that a statement returns. */
  async function only(statement: string, values?: string[]): Promise<string | null> {
    const [[value = null] = []] = await run(statement, values);
    return value;
  }

  return {
    label,
    run,

    async transaction(kind, work) {
      await run(kind === 'write' ? 'BEGIN' : 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      try {
        // It is idle while the other end is written or compared, which may take long. No server waits for its locks.
        if (kind === 'snapshot') await run('SET LOCAL idle_in_transaction_session_timeout = 0');
        const result = await work();
        await run('COMMIT');
        return result;
      } catch (error) {
        // The connection may be lost, and the transaction with it.
        await run('ROLLBACK').catch(() => undefined);
        throw error;
      }
    },

    async *pages(table, after) {
      for (let last = after; ; ) {
        const page = await run(pageOf(table, last !== undefined), last?.slice(0, table.keys));
        last = page.at(-1);
        if (last === undefined) return;
        yield page;
      }
    },

    async insert({ name, columns }, rows) {
      const names = Object.keys(columns);
      const arrays = Object.values(columns).map((type, index) => `$${index + 1}::${type}[]`);
      const values = names.map((_, index) => arrayOf(rows.map((row) => row[index])));
      await run(`INSERT INTO ${name} (${names}) SELECT * FROM unnest(${arrays})`, values);
    },

    hasTable: async (name) => (await only('SELECT to_regclass($1)', [name])) !== null,

    async lastId(table) {
      const given =
        table === 'pet'
          ? '(SELECT last_id FROM pet_id)'
          : `pg_sequence_last_value(pg_get_serial_sequence('${table}', 'id')::regclass)`;
      return String(await only(`SELECT greatest(${given}, (SELECT max(id) FROM ${table}), 0)`));
    },

    async setLastId(table, id) {
      if (table === 'pet') await run('UPDATE pet_id SET last_id = $1', [id]);
      else {
        const sequence = `pg_get_serial_sequence('${table}', 'id')`;
        await run(`SELECT setval(${sequence}, greatest($1::bigint, 1), $1::bigint > 0)`, [id]);
      }
    },

    close: destroy,
  };
}
