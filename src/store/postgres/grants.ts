/** The rights of the role that serves, on a database where another role owns the tables. */
import pg from 'pg';
import { OpenError } from '../store.ts';
import type { Sql } from './sql.ts';

/**
 * By table. `import` is missing: servers never use it. SELECT … FOR UPDATE needs UPDATE on `pet_id`, `one_time_link`, `counted_attempt` and
 * `message`. Of `message`, servers do not read the text.
 */
const rights: Record<string, string> = {
  migration: 'SELECT',
  additive_migration: 'SELECT',
  timeline: 'SELECT, INSERT',
  pet: 'SELECT, INSERT',
  pet_id: 'SELECT, UPDATE',
  pet_revision: 'SELECT',
  message: 'SELECT (id, account_id, created_at), INSERT, UPDATE (created_at), DELETE',
  idempotency: 'SELECT, INSERT, UPDATE, DELETE',
  counted_attempt: 'SELECT, INSERT, UPDATE (expires_at), DELETE',
  account: 'SELECT, INSERT, UPDATE (password_hash), DELETE',
  api_key: 'SELECT, INSERT, UPDATE (expires_at, revoked_at, last_used_at, deprecated_calls), DELETE',
  api_key_usage:
    'SELECT, INSERT, UPDATE (succeeded, client_errors, rate_limited, server_errors, deprecated_calls, error_code, error_at), DELETE',
  rotated_key: 'SELECT, INSERT',
  form_token: 'SELECT, INSERT',
  session: 'SELECT, INSERT, UPDATE (used_at), DELETE',
  one_time_link: 'SELECT, INSERT, UPDATE (expires_at), DELETE',
  account_event: 'SELECT, INSERT, DELETE',
};

/** What a later migration creates can be used at once; its release then grants what is needed. */
const rightsOnLaterTables = 'SELECT, INSERT, UPDATE, DELETE';

/** Throws OpenError unless the grants would have the effect that the operator wants. */
async function checkRole(sql: Sql, role: string): Promise<string> {
  const [found] = await sql`
    SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = ${role}) AS known, quote_ident(current_schema()) AS schema,
      tableowner = ${role} AS owns, pg_has_role(tableowner, 'USAGE') AS allowed, quote_ident(tableowner) AS owner
    FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = 'migration'`;
  if (!found?.known) throw new OpenError(`has no role ${role}, which DATABASE_SERVER_ROLE names: create it first.`);
  // It would lose rights on its own tables.
  if (found.owns)
    throw new OpenError(`has ${role} as the owner of its tables: DATABASE_SERVER_ROLE must name another role.`);
  // PostgreSQL may only warn.
  if (!found.allowed)
    throw new OpenError(`has tables of the role ${found.owner}: run animal-store migrate as that role.`);
  return found.schema;
}

/**
 * Gives `role` the rights of a server on the tables of this release, and no others, in the transaction of `sql`: running servers never see a
 * state in between. Rejects with OpenError if the role does not exist or owns the tables.
 */
export async function grantTo(sql: Sql, role: string): Promise<void> {
  const schema = await checkRole(sql, role);
  const grantee = pg.escapeIdentifier(role);
  await sql.unsafe(`REVOKE ALL ON ALL TABLES IN SCHEMA ${schema} FROM ${grantee}`);
  for (const [table, given] of Object.entries(rights)) await sql.unsafe(`GRANT ${given} ON ${table} TO ${grantee}`);
  await sql.unsafe(`ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema} GRANT ${rightsOnLaterTables} ON TABLES TO ${grantee}`);
}
