/** Checks a database for corruption without changing it, and reports its versions and row counts. */
import pg from 'pg';
import { ApiError, messageOf } from '../../core/errors.ts';
import { latestOf, readMigrations } from '../migrations.ts';
import { jsonFaultsOf, maxIds } from '../pets.ts';
import { OpenError, type OpenOptions } from '../store.ts';
import { endsConnection } from './errors.ts';
import { openAlone } from './open.ts';
import type { Sql } from './sql.ts';
import { readTarget } from './url.ts';

export interface DatabaseReport {
  /** The URL without user, password and parameters; empty if it is not a valid one. */
  database: string;
  /** Size of the store's tables and indexes; null if the database cannot be opened. */
  bytes: number | null;
  postgresVersion: string | null;
  schemaVersion: number | null;
  /** The schema version of this release. */
  latestSchemaVersion: number;
  /** `on`: PostgreSQL finds changed bytes in any page that it reads from disk. */
  dataChecksums: string | null;
  /** Whether the extension amcheck compared the indexes with the tables. Otherwise only the numbers of entries were compared. */
  amcheck: boolean;
  /** Table → rows. */
  rows: Record<string, number>;
  /** One sentence each; empty if the store is sound. */
  problems: string[];
}

const tables = [
  ...[
    'account',
    'account_event',
    'additive_migration',
    'api_key',
    'api_key_usage',
    'attempt',
    'counted_attempt',
    'form_token',
    'idempotency',
    'import',
    'message',
  ],
  ...['migration', 'one_time_link', 'pet', 'pet_id', 'pet_revision', 'rotated_key', 'session', 'timeline'],
];

/** Tables whose ids a sequence gives. */
const withSequence = ['account', 'account_event', 'api_key', 'counted_attempt'];

/** Never rejects: every error becomes one of the report's problems. */
export async function checkDatabase(databaseUrl: string, options: OpenOptions): Promise<DatabaseReport> {
  const report: DatabaseReport = {
    database: '',
    bytes: null,
    postgresVersion: null,
    schemaVersion: null,
    latestSchemaVersion: latestOf(readMigrations('postgres')),
    dataChecksums: null,
    amcheck: false,
    rows: {},
    problems: [],
  };
  try {
    report.database = readTarget(databaseUrl).label;
    const { sql, destroy } = await openAlone(databaseUrl, { ...options, migrate: false });
    try {
      await checkAll(sql, report);
    } finally {
      destroy();
    }
  } catch (error) {
    const reason = messageOf(error instanceof ApiError ? error.cause : error);
    report.problems.push(
      error instanceof OpenError ? reason : `${report.database} cannot be checked to its end: ${reason}.`,
    );
  }
  return report;
}

async function checkAll(sql: Sql, report: DatabaseReport): Promise<void> {
  await sql.unsafe('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  // The limits of the role are meant for servers. The planner must read the rows, and not conclude from a constraint that there are none.
  await sql.unsafe(
    `SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '5s'; SET LOCAL constraint_exclusion = off`,
  );
  const amcheck = await readFacts(sql, report);
  for (const table of tables) {
    await useIndexes(sql, false);
    if (await attempt(sql, report, `Table ${table} cannot be read`, () => countRows(sql, report, table))) {
      await attempt(sql, report, `The constraints of ${table} cannot be checked`, () =>
        checkConstraints(sql, report, table),
      );
      if (table === 'pet')
        await attempt(sql, report, 'The JSON of animals cannot be checked', () => checkJson(sql, report));
      await checkIndexes(sql, report, table, amcheck);
    }
  }
  await useIndexes(sql, false);
  await attempt(sql, report, 'The last ids cannot be checked', () => checkIds(sql, report));
}

/** Runs one check. Returns false, and adds a problem, if the database reports an error. The transaction and its snapshot stay usable. */
async function attempt(
  sql: Sql,
  { problems }: DatabaseReport,
  failure: string,
  check: () => Promise<void>,
): Promise<boolean> {
  await sql.unsafe('SAVEPOINT check_begins');
  try {
    await check();
    return true;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || endsConnection(error)) throw error;
    await sql.unsafe('ROLLBACK TO check_begins');
    problems.push(`${failure}: ${error.message.replaceAll('\n', ' ')}.`);
    return false;
  }
}

/** Makes the planner read either the tables themselves, or their indexes in order. */
async function useIndexes(sql: Sql, use: boolean): Promise<void> {
  const settings = {
    ...{ enable_seqscan: !use, enable_sort: !use, enable_incremental_sort: !use },
    ...{ enable_indexscan: use, enable_indexonlyscan: use, enable_bitmapscan: false },
  };
  await sql.unsafe(
    Object.entries(settings)
      .map(([name, value]) => `SET LOCAL ${name} = ${value}`)
      .join(';'),
  );
}

/** Resolves to the function of amcheck, if this role may use it. */
async function readFacts(sql: Sql, report: DatabaseReport): Promise<string | undefined> {
  const [facts] = await sql`
    SELECT current_setting('server_version') AS version, current_setting('data_checksums') AS checksums,
      greatest((SELECT max(version) FROM migration), (SELECT max(version) FROM additive_migration)) AS schema_version,
      (SELECT sum(pg_total_relation_size(to_regclass(name))) FROM unnest(${tables}::text[]) AS name) AS bytes`;
  const [amcheck] = await sql`
    SELECT quote_ident(nspname) || '.bt_index_check' AS function
    FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
      JOIN pg_proc ON pronamespace = extnamespace AND proname = 'bt_index_check' AND pronargs = 2
    WHERE extname = 'amcheck' AND has_function_privilege(pg_proc.oid, 'EXECUTE')`;
  report.postgresVersion = facts?.version;
  report.schemaVersion = Number(facts?.schema_version);
  report.dataChecksums = facts?.checksums;
  report.amcheck = amcheck !== undefined;
  report.bytes = Number(facts?.bytes);
  return amcheck?.function;
}

/** Reads every row, and every byte of its texts: convert_to checks that they are UTF-8. */
async function countRows(sql: Sql, { rows }: DatabaseReport, table: string): Promise<void> {
  const [found] = await sql.unsafe(
    `SELECT count(*) AS rows, count(convert_to((${table}.*)::text, 'UTF8')) AS read FROM ${table}`,
  );
  rows[table] = Number(found?.rows);
}

/** Checks that the rows meet each constraint: a damaged file can hold rows that PostgreSQL would have refused. */
async function checkConstraints(sql: Sql, { problems }: DatabaseReport, table: string): Promise<void> {
  const columnsOf = (numbers: string, relation: string, alias: string) => `
    (SELECT string_agg(format('${alias}.%I', attname), ', ' ORDER BY place)
     FROM unnest(${numbers}) WITH ORDINALITY AS key (number, place)
     JOIN pg_attribute ON attrelid = ${relation} AND attnum = number)`;
  const constraints = await sql.unsafe(
    `SELECT conname AS name, contype AS type, pg_get_expr(conbin, conrelid) AS expression, confrelid::regclass::text AS parent,
       ${columnsOf('conkey', 'conrelid', 'child')} AS columns, ${columnsOf('confkey', 'confrelid', 'parent')} AS keys
     FROM pg_constraint WHERE conrelid = $1::regclass AND contype IN ('c', 'f', 'p', 'u') ORDER BY name`,
    [table],
  );
  for (const { name, type, expression, parent, columns, keys } of constraints) {
    const where: Record<string, string> = {
      c: `WHERE NOT (${expression})`,
      f: `WHERE (${columns}) IS NOT NULL AND NOT EXISTS (SELECT FROM ${parent} AS parent WHERE (${keys}) = (${columns}))`,
    };
    // The surplus rows of each value that must be unique.
    const count = where[type] ? 'count(*)' : `count(*) - count(DISTINCT (${columns}))`;
    const [broken] = await sql.unsafe(`SELECT ${count} AS rows FROM ${table} AS child ${where[type] ?? ''}`);
    if (broken?.rows !== '0')
      problems.push(`The constraint ${name} of ${table} does not hold for ${broken?.rows} rows.`);
  }
}

/** Compares each index with its table: the number of entries, and with amcheck each entry with its row. */
async function checkIndexes(
  sql: Sql,
  report: DatabaseReport,
  table: string,
  amcheck: string | undefined,
): Promise<void> {
  const indexes = await sql.unsafe(
    `SELECT indexrelid::regclass::text AS name, indisvalid AS valid, pg_get_expr(indpred, indrelid) AS predicate,
       (SELECT string_agg(pg_get_indexdef(indexrelid, place, true), ', ' ORDER BY place)
        FROM generate_series(1, indnkeyatts::integer) AS place) AS columns
     FROM pg_index WHERE indrelid = $1::regclass ORDER BY name`,
    [table],
  );
  for (const { name, valid, predicate, columns } of indexes) {
    if (!valid) report.problems.push(`Index ${name} is not valid: REINDEX it.`);
    const where = predicate === null ? '' : `WHERE ${predicate}`;
    await attempt(sql, report, `Index ${name} is damaged`, async () => {
      await useIndexes(sql, false);
      const [rows] = await sql.unsafe(`SELECT count(*) AS count FROM ${table} ${where}`);
      await useIndexes(sql, true);
      const [entries] = await sql.unsafe(
        `SELECT count(*) AS count FROM (SELECT 1 FROM ${table} ${where} ORDER BY ${columns}) AS entry`,
      );
      if (entries?.count !== rows?.count)
        report.problems.push(`Index ${name} has ${entries?.count} entries for ${rows?.count} rows of ${table}.`);
    });
    if (amcheck === undefined) continue;
    await attempt(sql, report, `Index ${name} does not fit ${table}`, async () => {
      await sql.unsafe(`SELECT ${amcheck}($1::regclass, true)`, [name]);
    });
  }
}

/** What operations return of an animal must be what its other columns hold. */
async function checkJson(sql: Sql, { problems }: DatabaseReport): Promise<void> {
  const [found] = await sql.unsafe(
    `SELECT count(*) AS rows, coalesce((array_agg(id::text ORDER BY id))[:${maxIds}], '{}') AS ids
     FROM pet WHERE json <> pet_json(id, name, category_id, status)`,
  );
  problems.push(...jsonFaultsOf(found?.ids, Number(found?.rows)));
}

/** An id must not be given twice. */
async function checkIds(sql: Sql, { rows, problems }: DatabaseReport): Promise<void> {
  if (rows.pet_revision !== 1)
    problems.push(`pet_revision has ${rows.pet_revision} rows instead of 1, so no response is cached.`);
  if (rows.pet_id !== 1) problems.push(`pet_id has ${rows.pet_id} rows instead of 1, so no animal can be added.`);
  for (const table of withSequence) {
    const [found] = await sql.unsafe(
      `SELECT max(id) AS highest, coalesce(pg_sequence_last_value(pg_get_serial_sequence('${table}', 'id')::regclass), 0) AS last
       FROM ${table}`,
    );
    if (BigInt(found?.highest ?? 0) > BigInt(found?.last))
      problems.push(`The next id of ${table} follows ${found?.last}, but ${found?.highest} is given already.`);
  }
}
