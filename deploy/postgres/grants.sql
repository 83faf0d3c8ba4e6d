-- Gives a role the rights that the servers of this release and of 3.0.1 need on the tables, and no others, in one transaction. Run it with psql as
-- the role that owns the tables, or as a superuser, after `animal-store migrate`: docs/operations.md, Roles on PostgreSQL.
\set ON_ERROR_STOP on
BEGIN;

SELECT set_config('animal_store.role', :'role', true) \gset
DO $$
DECLARE
  role name := current_setting('animal_store.role');
  owner name := (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('migration'));
BEGIN
  IF owner IS NULL THEN
    RAISE EXCEPTION 'there is no store: run animal-store migrate first';
  ELSIF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
    RAISE EXCEPTION 'there is no role %: create it first', role;
  ELSIF role = owner THEN
    RAISE EXCEPTION '% owns the tables: name another role', role;
  -- PostgreSQL would only warn.
  ELSIF NOT pg_has_role(owner, 'USAGE') THEN
    RAISE EXCEPTION 'the tables belong to %: run this as that role', owner;
  END IF;
END
$$;
SELECT nspname AS schema, pg_get_userbyid(relowner) AS owner FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = to_regclass('migration') \gset

GRANT USAGE ON SCHEMA :"schema" TO :"role";
REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM :"role";

GRANT SELECT ON migration, additive_migration, pet_revision TO :"role";
GRANT SELECT, INSERT ON pet, rotated_key, form_token TO :"role";
-- SELECT … FOR UPDATE needs UPDATE on pet_id, one_time_link and message.
GRANT SELECT, UPDATE ON pet_id TO :"role";
-- Not the text.
GRANT SELECT (id, account_id, created_at), INSERT, UPDATE (created_at), DELETE ON message TO :"role";
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency TO :"role";
GRANT SELECT, INSERT, UPDATE (expires_at), DELETE ON one_time_link TO :"role";
GRANT SELECT, INSERT, UPDATE (password_hash), DELETE ON account TO :"role";
GRANT SELECT, INSERT, UPDATE (name, scopes, lifetime_ms, expires_at, revoked_at, last_used_at, deprecated_calls), DELETE ON api_key TO :"role";
GRANT SELECT, INSERT, UPDATE (succeeded, client_errors, rate_limited, server_errors, deprecated_calls, error_code, error_at), DELETE
  ON api_key_usage TO :"role";
GRANT SELECT, INSERT, DELETE ON api_key_error TO :"role";
GRANT SELECT, INSERT, UPDATE (used_at), DELETE ON session TO :"role";
GRANT SELECT, INSERT, UPDATE (expires_at), DELETE ON counted_attempt TO :"role";

-- What a later migration creates can be used at once.
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"schema" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"role";

COMMIT;
