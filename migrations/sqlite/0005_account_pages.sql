-- Release 1.0.0 (schema version 3) and later run on this schema.

-- What the account pages need: passwords, sessions, one-time links, failed attempts, and events of the command line. Only adds.

ALTER TABLE account ADD COLUMN password_hash TEXT; -- argon2id in the PHC string format; null: nobody can sign in

-- Finds the active keys of an account among any number of ended ones.
CREATE INDEX api_key_active ON api_key (account_id, coalesce(expires_at, 9223372036854775807)) WHERE revoked_at IS NULL;

CREATE TABLE session (
  hash       BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32), -- SHA-256 of the cookie's token
  account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  used_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_account_id ON session (account_id);
CREATE INDEX session_used_at ON session (used_at);

CREATE TABLE one_time_link (
  hash       BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32), -- SHA-256 of the link's token
  purpose    TEXT    NOT NULL CHECK (purpose IN ('invitation', 'reset')),
  account_id INTEGER REFERENCES account (id) ON DELETE CASCADE, -- null: an invitation to create an account
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX one_time_link_account_id ON one_time_link (account_id);
CREATE INDEX one_time_link_expires_at ON one_time_link (expires_at);

CREATE TABLE attempt (
  subject BLOB    NOT NULL PRIMARY KEY CHECK (length(subject) = 32), -- SHA-256 of what is counted, such as an account's name
  times   TEXT    NOT NULL, -- a JSON array, oldest first
  last_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX attempt_last_at ON attempt (last_at);

CREATE TABLE account_event (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  event      TEXT    NOT NULL,
  account_id INTEGER,
  key_id     INTEGER,
  at         INTEGER NOT NULL
) STRICT;
