/** Reads what a schema consists of, and finds what a migration took from it or newly demands of writers. */
import { textRows } from './store.ts';

interface SchemaObject {
  /** Unique, such as `column pet.name`. */
  name: string;
  definition: string;
  /** Whether an older writer of the table could fail because of it. */
  demanding: boolean;
}

export type SchemaObjects = Map<string, Map<string, SchemaObject>>;

/** Objects by table; those without a table are under ''. */
export async function readObjects(databaseUrl: string): Promise<SchemaObjects> {
  const sqlite = databaseUrl.startsWith('sqlite:');
  const rows = await textRows(databaseUrl, sqlite ? sqliteObjects : postgresObjects);
  const objects: SchemaObjects = new Map();
  for (const { owner, name, definition, demanding } of rows as Record<string, string>[]) {
    const ofOwner = objects.get(owner as string) ?? new Map();
    objects.set(owner as string, ofOwner);
    ofOwner.set(name as string, {
      name,
      definition: definition ?? '',
      demanding: /^(1|t|true)$/.test(String(demanding)),
    });
  }
  return objects;
}

/** Without the closing parenthesis of a table, before which ALTER TABLE … ADD COLUMN inserts. The text also has the table's CHECK clauses. */
const sqliteObjects = `
  SELECT tbl_name AS owner, type || ' ' || name AS name,
    CASE type WHEN 'table' THEN rtrim(rtrim(sql, replace(sql, ')', '')), ')') ELSE sql END AS definition,
    type = 'index' AND (sql IS NULL OR sql LIKE 'CREATE UNIQUE %') AS demanding
  FROM sqlite_schema WHERE name NOT LIKE 'sqlite_sequence'
  UNION ALL
  SELECT t.name, 'column ' || t.name || '.' || c.name, json_array(c.type, c."notnull", c.dflt_value, c.pk, c.hidden),
    c."notnull" AND c.dflt_value IS NULL
  FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c WHERE t.type = 'table'`;

const postgresObjects = `
  SELECT table_name AS owner, format('column %s.%s', table_name, column_name) AS name,
    concat_ws(' ', data_type, is_nullable, column_default, is_identity, generation_expression) AS definition,
    is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO' AS demanding
  FROM information_schema.columns WHERE table_schema = 'public'
  UNION ALL
  SELECT conrelid::regclass::text, format('constraint %s of %s', conname, conrelid::regclass), pg_get_constraintdef(oid), true
  FROM pg_constraint WHERE conrelid <> 0 AND connamespace = 'public'::regnamespace
  UNION ALL
  SELECT tablename, 'index ' || indexname, indexdef, indexdef LIKE 'CREATE UNIQUE %' FROM pg_indexes WHERE schemaname = 'public'
  UNION ALL
  SELECT tgrelid::regclass::text, 'trigger ' || tgname, pg_get_triggerdef(oid), false FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL
  SELECT '', 'function ' || oid::regprocedure, pg_get_function_result(oid), false
  FROM pg_proc WHERE pronamespace = 'public'::regnamespace`;

/** What a migration took away, changed, or demands of older writers of a table that existed before. */
export function findLosses(before: SchemaObjects, after: SchemaObjects): string[] {
  const losses: string[] = [];
  for (const [owner, objects] of before) {
    const now = after.get(owner) ?? new Map<string, SchemaObject>();
    for (const { name, definition } of objects.values()) {
      const found = now.get(name);
      if (!found) losses.push(`${name} is gone`);
      else if (name.startsWith('table ') ? !found.definition.startsWith(definition) : found.definition !== definition)
        losses.push(`${name} has changed`);
    }
    for (const { name, demanding } of now.values())
      if (demanding && !objects.has(name)) losses.push(`${name} demands something of older writers`);
  }
  return losses;
}
