-- Release 1.0.0 (schema version 1) and later run on this schema.

-- How far each import has come: written with the animals of each batch, so that one that was cut short goes on after its last. Only adds.

CREATE TABLE import (
  hash     bytea  PRIMARY KEY CHECK (length(hash) = 32), -- SHA-256 of the content and of how it is read
  lines    bigint NOT NULL,
  animals  bigint NOT NULL,
  began_at bigint NOT NULL,
  ended_at bigint -- null until its last line
);

-- Adds a batch of an import and moves its mark, in one round trip and one transaction. The arrays are columns; given_ids are null where the
-- store gives the id. Returns the outcome: added; conflict, if whole is true and any id exists; or concurrent, if the mark is not the known one
-- (null: none), because another process runs the same import. After the last two nothing was changed. refused: the places of the rows whose id
-- exists, or is that of an earlier row.
CREATE FUNCTION import_pets(
  source bytea, known_lines bigint, known_ended_at bigint,
  given_ids bigint[], names text[], category_ids bigint[], statuses text[], whole boolean,
  new_lines bigint, animals_before bigint, now_ms bigint, is_last boolean,
  OUT outcome text, OUT refused integer[]
)
LANGUAGE plpgsql
-- A batch may wait longer than a request for servers that add animals.
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  base bigint;
  mark import;
BEGIN
  -- The lock that add_pets takes: ids become visible in their order, and imports take turns.
  SELECT last_id INTO STRICT base FROM pet_id FOR UPDATE;
  -- In statements of their own: they see what was committed before they began, which is after the lock.
  SELECT greatest(base, max(id)) INTO base FROM pet;
  SELECT * INTO mark FROM import WHERE hash = source;
  IF mark.lines IS DISTINCT FROM known_lines OR mark.ended_at IS DISTINCT FROM known_ended_at THEN
    outcome := 'concurrent';
    refused := '{}';
    RETURN;
  END IF;

  refused := ARRAY(
    SELECT place::integer FROM (
      SELECT id, place, row_number() OVER (PARTITION BY id ORDER BY place) AS use
      FROM unnest(given_ids) WITH ORDINALITY AS row (id, place) WHERE id IS NOT NULL
    ) AS kept
    WHERE use > 1 OR EXISTS (SELECT FROM pet WHERE pet.id = kept.id) ORDER BY place
  );
  IF whole AND refused <> '{}' THEN
    outcome := 'conflict';
    RETURN;
  END IF;

  INSERT INTO pet (id, name, category_id, status)
  SELECT coalesce(id, base + row_number() OVER (ORDER BY place)), name, category_id, status
  FROM unnest(given_ids, names, category_ids, statuses)
    WITH ORDINALITY AS row (id, name, category_id, status, place)
  WHERE place <> ALL (refused);

  INSERT INTO import (hash, lines, animals, began_at, ended_at)
  VALUES (
    source, new_lines, animals_before + cardinality(names) - cardinality(refused), now_ms,
    CASE WHEN is_last THEN now_ms END
  )
  ON CONFLICT (hash) DO UPDATE SET lines = excluded.lines, animals = excluded.animals, ended_at = excluded.ended_at;
  outcome := 'added';
EXCEPTION
  -- With another isolation level than READ COMMITTED, the snapshot is older than the lock. The import sends such a call again.
  WHEN unique_violation THEN
    RAISE EXCEPTION 'another call has given these ids' USING ERRCODE = 'serialization_failure';
END
$$;
