-- Release 1.0.0 (schema version 1) and later run on this schema.

-- Forms that have made a key: sent again, they make no other. Not a column of api_key: running servers select all of its columns. Only adds.

CREATE TABLE form_token (
  key_id bigint PRIMARY KEY REFERENCES api_key (id) ON DELETE CASCADE,
  hash   bytea NOT NULL UNIQUE CHECK (length(hash) = 32) -- SHA-256 of the account and the form's token
);

-- Finds the key that a new one replaces.
CREATE INDEX rotated_key_successor_id ON rotated_key (successor_id);
