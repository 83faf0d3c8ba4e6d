-- Release 1.0.0 (schema version 3) and later run on this schema.

-- The last error responses to each API key: docs/decisions/key-usage.md. Only adds.

CREATE TABLE api_key_error (
  key_id     INTEGER NOT NULL REFERENCES api_key (id) ON DELETE CASCADE,
  at         INTEGER NOT NULL,
  operation  TEXT    NOT NULL, -- such as GET /v1/pets/{petId}
  code       TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  PRIMARY KEY (key_id, at, request_id)
) STRICT, WITHOUT ROWID;
