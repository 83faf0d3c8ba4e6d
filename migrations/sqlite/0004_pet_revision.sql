-- Release 1.0.0 (schema version 3) and later run on this schema.

-- Tells readers when an animal that they have read may read otherwise. Added animals do not count: their ids are above all others.

CREATE TABLE pet_revision (
  revision INTEGER NOT NULL
) STRICT;

INSERT INTO pet_revision VALUES (0);

CREATE TRIGGER pet_updated AFTER UPDATE ON pet BEGIN
  UPDATE pet_revision SET revision = revision + 1;
END;

CREATE TRIGGER pet_deleted AFTER DELETE ON pet BEGIN
  UPDATE pet_revision SET revision = revision + 1;
END;

-- REPLACE deletes the row before without the trigger for it (https://sqlite.org/lang_conflict.html).
CREATE TRIGGER pet_replaced BEFORE INSERT ON pet WHEN EXISTS (SELECT 1 FROM pet WHERE id = NEW.id) BEGIN
  UPDATE pet_revision SET revision = revision + 1;
END;

CREATE TRIGGER pet_inserted_below AFTER INSERT ON pet WHEN NEW.id < (SELECT max(id) FROM pet) BEGIN
  UPDATE pet_revision SET revision = revision + 1;
END;
