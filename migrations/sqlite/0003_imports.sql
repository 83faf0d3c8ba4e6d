-- Release 1.0.0 (schema version 3) and later run on this schema.

-- How far each import has come: written with the animals of each batch, so that one that was cut short goes on after its last.

CREATE TABLE import (
  hash     BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32), -- SHA-256 of the content and of how it is read
  lines    INTEGER NOT NULL,
  animals  INTEGER NOT NULL,
  began_at INTEGER NOT NULL,
  ended_at INTEGER -- null until its last line
) STRICT;
