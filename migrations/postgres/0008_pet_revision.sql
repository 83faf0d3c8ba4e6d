-- Release 1.0.0 (schema version 1) and later run on this schema.

-- Tells servers whether what they have cached still holds: docs/decisions/postgres.md. Only adds.

-- One row. Changes when an animal is changed, removed, or added below the highest id. Additions of requests do not update it: they would leave a
-- version of it each, and with an open snapshot read them all.
CREATE TABLE pet_revision (revision bigint NOT NULL);
INSERT INTO pet_revision VALUES (0);

CREATE FUNCTION revise_pets() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  UPDATE pet_revision SET revision = revision + 1;
  RETURN NULL;
END
$$;

CREATE TRIGGER pet_changed AFTER UPDATE OR DELETE OR TRUNCATE ON pet FOR EACH STATEMENT EXECUTE FUNCTION revise_pets();

-- Above all others, unless there are more from the lowest one on than were added.
CREATE FUNCTION revise_unless_last() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  IF (SELECT count(*) FROM pet WHERE id >= (SELECT min(id) FROM added)) > (SELECT count(*) FROM added) THEN
    UPDATE pet_revision SET revision = revision + 1;
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER pet_inserted AFTER INSERT ON pet REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION revise_unless_last();
