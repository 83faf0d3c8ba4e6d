-- Release 3.0.1 (schema version 12) and later run on this schema.

-- How long idempotency keys are kept, the end of the ids, and the scope of keys. An overload: earlier releases call theirs. Only adds.

-- As in 0006. A key is honoured for remembered_ms, and deleted kept_ms after it was used, as of the earliest of the times. An outcome may also be
-- insufficient_scope: the API key has lost pets:write; or exhausted: no id is left. That animal is not added.
CREATE FUNCTION add_pets(
  names text[], category_ids bigint[], statuses text[], account_ids bigint[], keys text[], times bigint[], remembered_ms bigint,
  key_ids bigint[], kept_ms bigint
) RETURNS TABLE (outcome text, id bigint)
LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
#variable_conflict use_column
DECLARE
  base bigint;
  -- As the constraint of pet.id has it.
  last CONSTANT bigint := 9007199254740991;
BEGIN
  SELECT last_id INTO STRICT base FROM pet_id FOR UPDATE;
  -- In a statement of its own: it sees what was committed before it began, which is after the lock.
  SELECT least(greatest(base, max(id)), last) INTO base FROM pet;

  IF array_remove(keys, NULL) <> '{}' THEN
    DELETE FROM idempotency WHERE (account_id, operation, key) IN (
      SELECT account_id, operation, key FROM idempotency
      WHERE created_at <= (SELECT min(time) FROM unnest(times) AS time) - kept_ms ORDER BY created_at LIMIT 10 * cardinality(keys)
    );
  END IF;

  RETURN QUERY
  WITH given AS (
    SELECT * FROM unnest(names, category_ids, statuses, account_ids, keys, times, key_ids)
      WITH ORDINALITY AS row (name, category_id, status, account_id, key, created_at, key_id, place)
  ), refused AS (
    SELECT place, CASE
      WHEN api_key.id IS NULL THEN 'invalid_api_key'
      WHEN revoked_at IS NOT NULL THEN 'revoked_api_key'
      WHEN expires_at <= given.created_at THEN 'expired_api_key'
      ELSE 'insufficient_scope' END AS outcome
    FROM given LEFT JOIN api_key ON api_key.id = key_id
    WHERE key_id IS NOT NULL AND (
      api_key.id IS NULL OR revoked_at IS NOT NULL OR expires_at <= given.created_at
      OR 'pets:write' <> ALL (string_to_array(scopes, ' '))
    )
  ), accepted AS (
    SELECT given.* FROM given WHERE NOT EXISTS (SELECT FROM refused WHERE refused.place = given.place)
  ), known AS (
    SELECT place, pet.id,
      pet.name = accepted.name AND pet.category_id = accepted.category_id AND pet.status = accepted.status AS same
    FROM accepted
    JOIN idempotency AS first ON first.account_id = accepted.account_id AND first.operation = 'createPet'
      AND first.key = accepted.key AND first.created_at > accepted.created_at - remembered_ms
    JOIN pet ON pet.id = first.pet_id
  ), numbered AS (
    SELECT accepted.*, base + row_number() OVER (ORDER BY place) AS id FROM accepted
    WHERE NOT EXISTS (SELECT FROM known WHERE known.place = accepted.place)
  ), new AS (
    SELECT * FROM numbered WHERE id <= last
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
    UNION ALL
    SELECT place, outcome, NULL FROM refused
    UNION ALL
    SELECT place, 'exhausted', NULL FROM numbered WHERE id > last
  )
  SELECT outcome, id FROM answer ORDER BY place;
EXCEPTION
  -- With another isolation level than READ COMMITTED, the snapshot is older than the lock. Servers send such a call again.
  WHEN unique_violation THEN
    RAISE EXCEPTION 'another call has given these ids' USING ERRCODE = 'serialization_failure';
END
$$;
