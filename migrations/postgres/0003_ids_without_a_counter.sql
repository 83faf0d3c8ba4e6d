-- Release 1.0.0 (schema version 1) and later run on this schema.

-- Additions no longer write to pet_id: a row that every commit updates grows by a version per commit while a snapshot, such as a dump's, is
-- open, and each addition reads them all. The lock of that row still makes ids visible in their order. The last id is now the highest of pet,
-- or last_id, if animals have been deleted since.

-- Waits for calls of the function below that have begun, so that none of them goes on with a last_id that is out of date.
SELECT FROM pet_id FOR UPDATE;

-- Ids are not given twice. Before the deletion, because its rows then still tell.
CREATE FUNCTION keep_last_id() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  UPDATE pet_id SET last_id = greatest(last_id, (SELECT max(id) FROM pet));
  RETURN NULL;
END
$$;

CREATE TRIGGER keep_last_id BEFORE DELETE OR TRUNCATE ON pet FOR EACH STATEMENT EXECUTE FUNCTION keep_last_id();

-- As in 0001, but for the last id.
CREATE OR REPLACE FUNCTION add_pets(
  names text[], category_ids bigint[], statuses text[], account_ids bigint[], keys text[], times bigint[], remembered_ms bigint
) RETURNS TABLE (outcome text, id bigint)
LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
#variable_conflict use_column
DECLARE
  base bigint;
BEGIN
  SELECT last_id INTO STRICT base FROM pet_id FOR UPDATE;
  -- In a statement of its own: it sees what was committed before it began, which is after the lock.
  SELECT greatest(base, max(id)) INTO base FROM pet;

  IF array_remove(keys, NULL) <> '{}' THEN
    DELETE FROM idempotency WHERE (account_id, operation, key) IN (
      SELECT account_id, operation, key FROM idempotency
      WHERE created_at <= times[1] - remembered_ms ORDER BY created_at LIMIT 10 * cardinality(keys)
    );
  END IF;

  RETURN QUERY
  WITH given AS (
    SELECT * FROM unnest(names, category_ids, statuses, account_ids, keys, times)
      WITH ORDINALITY AS row (name, category_id, status, account_id, key, created_at, place)
  ), known AS (
    SELECT place, pet.id,
      pet.name = given.name AND pet.category_id = given.category_id AND pet.status = given.status AS same
    FROM given
    JOIN idempotency AS first ON first.account_id = given.account_id AND first.operation = 'createPet'
      AND first.key = given.key AND first.created_at > given.created_at - remembered_ms
    JOIN pet ON pet.id = first.pet_id
  ), new AS (
    SELECT given.*, base + row_number() OVER (ORDER BY place) AS id FROM given
    WHERE NOT EXISTS (SELECT FROM known WHERE known.place = given.place)
  ), added AS (
    INSERT INTO pet (id, name, category_id, status) SELECT id, name, category_id, status FROM new
  ), remembered AS (
    INSERT INTO idempotency (account_id, operation, key, pet_id, created_at)
    SELECT account_id, 'createPet', key, id, created_at FROM new WHERE key IS NOT NULL
    ON CONFLICT (account_id, operation, key) DO UPDATE SET pet_id = excluded.pet_id, created_at = excluded.created_at
  ), answer AS (
    SELECT place, 'added' AS outcome, id FROM new
    UNION ALL
    SELECT place, CASE WHEN same THEN 'replayed' ELSE 'reused' END, id FROM known
  )
  SELECT outcome, id FROM answer ORDER BY place;
EXCEPTION
  -- With another isolation level than READ COMMITTED, the snapshot is older than the lock. Servers send such a call again.
  WHEN unique_violation THEN
    RAISE EXCEPTION 'another call has given these ids' USING ERRCODE = 'serialization_failure';
END
$$;
