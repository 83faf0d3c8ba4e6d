-- The store's first shape. STRICT: a column holds its declared type or the write fails.

CREATE TABLE migration (
  version    INTEGER PRIMARY KEY,
  name       TEXT    NOT NULL,
  applied_at INTEGER NOT NULL -- all times: milliseconds since 1970-01-01 UTC
) STRICT;

CREATE TABLE pet (
  -- AUTOINCREMENT: an id is never given twice, not even after its row is gone. Below 2^53, so that every client can read it.
  id          INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
  name        TEXT    NOT NULL CHECK (name <> ''),
  category_id INTEGER NOT NULL,
  status      TEXT    NOT NULL CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;

CREATE INDEX pet_status_id ON pet (status, id);

CREATE TABLE account (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT    NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE api_key (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  account_id       INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  name             TEXT    NOT NULL,
  hint             TEXT    NOT NULL,
  hash             BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32), -- SHA-256 of the key
  scopes           TEXT    NOT NULL, -- separated by one space, as in RFC 6749, section 3.3
  created_at       INTEGER NOT NULL,
  lifetime_ms      INTEGER, -- as it was created, for its successor: an end that a rotation set is not part of it
  expires_at       INTEGER,
  revoked_at       INTEGER,
  last_used_at     INTEGER,
  deprecated_calls INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX api_key_account_id ON api_key (account_id);

-- No foreign keys: rows do not stay for long, and an account removed meanwhile must not fail another's write.
CREATE TABLE idempotency (
  account_id INTEGER NOT NULL,
  operation  TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  pet_id     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, operation, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_created_at ON idempotency (created_at);

CREATE TABLE message (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id INTEGER NOT NULL,
  message    TEXT    NOT NULL,
  status     TEXT    NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
