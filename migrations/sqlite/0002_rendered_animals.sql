-- A row carries its animal as the JSON that every operation answers with: to render it for each answer took most of a list's time.

CREATE TABLE rendered_pet (
  -- AUTOINCREMENT: an id is never given twice, not even after its row is gone. Below 2^53, so that every client can read it.
  id          INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
  name        TEXT    NOT NULL CHECK (name <> ''),
  category_id INTEGER NOT NULL,
  status      TEXT    NOT NULL CHECK (status IN ('available', 'pending', 'sold')),
  json        TEXT    NOT NULL GENERATED ALWAYS AS
    (json_object('id', id, 'name', name, 'categoryId', category_id, 'status', status)) STORED
) STRICT;

INSERT INTO rendered_pet (id, name, category_id, status) SELECT id, name, category_id, status FROM pet;

-- The highest id ever given may be above those that are left.
DELETE FROM sqlite_sequence WHERE name = 'rendered_pet';
UPDATE sqlite_sequence SET name = 'rendered_pet' WHERE name = 'pet';

DROP TABLE pet;
ALTER TABLE rendered_pet RENAME TO pet;
CREATE INDEX pet_status_id ON pet (status, id);
