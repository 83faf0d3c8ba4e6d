-- Release 1.0.0 (schema version 1) and later run on this schema.

-- Tells servers whether what they have cached still holds: docs/decisions/postgres.md. Only adds.

-- One row. Changes when an animal is changed, removed, or added below the highest id. Additions of requests do not update it: they would leave a
-- version of it each, and with an open snapshot read them all.
CREATE TABLE pet_revision (revision bigint NOT NULL);
INSERT INTO pet_revision VALUES (0);
-- A second row, as from a restored dump of data, would fail every read.
CREATE UNIQUE INDEX pet_revision_one ON pet_revision ((revision IS NOT NULL));

CREATE FUNCTION revise_pets() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  UPDATE pet_revision SET revision = revision + 1;
  RETURN NULL;
END
$$;

CREATE TRIGGER pet_changed AFTER UPDATE OR DELETE OR TRUNCATE ON pet FOR EACH STATEMENT EXECUTE FUNCTION revise_pets();

-- Above all others, unless there are more from the lowest one on than were added. LIMIT: an import may be far below.
CREATE FUNCTION revise_unless_last() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  IF (SELECT count(*) FROM added) < (
    SELECT count(*) FROM (
      SELECT FROM pet WHERE id >= (SELECT min(id) FROM added) ORDER BY id LIMIT (SELECT count(*) + 1 FROM added)
    ) AS last
  ) THEN
    UPDATE pet_revision SET revision = revision + 1;
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER pet_inserted AFTER INSERT ON pet REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION revise_unless_last();
