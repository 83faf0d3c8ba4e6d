/** The stores of plain Fastify: one statement for each call, as in the documentation of better-sqlite3 and pg. */
import Database from 'better-sqlite3';
import pg from 'pg';

interface Pet {
  id: number;
  name: string;
  categoryId: number;
  status: string;
}

interface PlainStore {
  hasKey(hash: Buffer): boolean | Promise<boolean>;
  list(after: number, limit: number, status: string | undefined): Pet[] | Promise<Pet[]>;
  find(id: number): Pet | undefined | Promise<Pet | undefined>;
  add(name: string, categoryId: number, status: string): Pet | Promise<Pet>;
}

export function openSqlite(file: string): PlainStore {
  const database = new Database(file);
  database.pragma('journal_mode = WAL');
  // better-sqlite3 is compiled to use NORMAL in WAL mode by default.
  database.pragma('synchronous = FULL');
  const columns = 'id, name, category_id AS categoryId, status';
  const findKey = database.prepare<[Buffer, number]>(
    'SELECT 1 FROM api_key WHERE hash = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)',
  );
  const list = database.prepare<[number, number], Pet>(`SELECT ${columns} FROM pet WHERE id > ? ORDER BY id LIMIT ?`);
  const listByStatus = database.prepare<[string, number, number], Pet>(
    `SELECT ${columns} FROM pet WHERE status = ? AND id > ? ORDER BY id LIMIT ?`,
  );
  const find = database.prepare<[number], Pet>(`SELECT ${columns} FROM pet WHERE id = ?`);
  // A statement outside BEGIN and COMMIT is its own transaction.
  const insert = database.prepare<[string, number, string], Pet>(
    `INSERT INTO pet (name, category_id, status) VALUES (?, ?, ?) RETURNING ${columns}`,
  );
  return {
    hasKey: (hash) => findKey.get(hash, Date.now()) !== undefined,
    list: (after, limit, status) =>
      status === undefined ? list.all(after, limit) : listByStatus.all(status, after, limit),
    find: (id) => find.get(id),
    add: (name, categoryId, status) => insert.get(name, categoryId, status) as Pet,
  };
}

/** A pool of 10, which is the default of `pg`, as of the animal store. The ids come from a sequence, and no trigger of the animal store runs. */
export function openPostgres(databaseUrl: string): PlainStore {
  // Integers as numbers, as JSON.stringify needs them.
  pg.types.setTypeParser(pg.types.builtins.INT8, Number);
  const pool = new pg.Pool({ connectionString: databaseUrl });
  const columns = 'id, name, category_id AS "categoryId", status';
  async function query(name: string, text: string, values: unknown[]): Promise<Pet[]> {
    const { rows } = await pool.query<Pet>({ name, text, values });
    return rows;
  }
  const created = pool.query(
    `CREATE SEQUENCE plain_id; SELECT setval('plain_id', (SELECT max(id) FROM pet)); ALTER TABLE pet DISABLE TRIGGER USER`,
  );
  return {
    async hasKey(hash) {
      const text =
        'SELECT 1 FROM api_key WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)';
      return (await query('key', text, [hash, Date.now()])).length > 0;
    },
    list: (after, limit, status) =>
      status === undefined
        ? query('list', `SELECT ${columns} FROM pet WHERE id > $1 ORDER BY id LIMIT $2`, [after, limit])
        : query(
            'list by status',
            `SELECT ${columns} FROM pet WHERE status = $1 AND id > $2 ORDER BY status, id LIMIT $3`,
            [status, after, limit],
          ),
    find: async (id) => (await query('find', `SELECT ${columns} FROM pet WHERE id = $1`, [id]))[0],
    async add(name, categoryId, status) {
      await created;
      const text = `INSERT INTO pet (id, name, category_id, status) VALUES (nextval('plain_id'), $1, $2, $3) RETURNING ${columns}`;
      return (await query('add', text, [name, categoryId, status]))[0] as Pet;
    },
  };
}
