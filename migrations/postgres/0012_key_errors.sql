-- Release 1.1.0 (schema version 10) and later run on this schema.

-- The last error responses to each API key: docs/decisions/key-usage.md. Only adds.

CREATE TABLE api_key_error (
  key_id     bigint NOT NULL REFERENCES api_key (id) ON DELETE CASCADE,
  at         bigint NOT NULL,
  operation  text   NOT NULL, -- such as GET /v1/pets/{petId}
  code       text   NOT NULL,
  request_id text   NOT NULL,
  PRIMARY KEY (key_id, at, request_id)
);
