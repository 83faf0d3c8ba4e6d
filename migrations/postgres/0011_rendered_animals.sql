-- Release 1.1.0 (schema version 10) and later run on this schema.

-- Each animal as its JSON, as every operation returns it: docs/decisions/rows-as-json.md. Only adds.

-- Null in rows that are older than this column: a value for each would lock the table while it is rewritten. Reads render those.
ALTER TABLE pet ADD COLUMN json text COLLATE "C";

-- to_json escapes what JSON.stringify escapes.
CREATE FUNCTION pet_json(id bigint, name text, category_id bigint, status text) RETURNS text
LANGUAGE sql STABLE
AS $$
  SELECT format('{"id":%s,"name":%s,"categoryId":%s,"status":"%s"}', id, to_json(name), category_id, status)
$$;

CREATE FUNCTION render_pet() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  NEW.json := pet_json(NEW.id, NEW.name, NEW.category_id, NEW.status);
  RETURN NEW;
END
$$;

-- Not a generated column: adding one rewrites the table, and to_json is not immutable.
CREATE TRIGGER pet_rendered BEFORE INSERT OR UPDATE ON pet FOR EACH ROW EXECUTE FUNCTION render_pet();
