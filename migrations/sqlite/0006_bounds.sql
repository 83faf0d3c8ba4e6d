-- Release 1.0.0 (schema version 3) and later run on this schema.

-- What limits need to know, and indexes for the rows that they bound. Only adds.

-- SHA-256 of the network that the account was created from; null: an operator added or invited it.
ALTER TABLE account ADD COLUMN network BLOB;

-- A key is rotated once.
CREATE TABLE rotated_key (
  key_id       INTEGER PRIMARY KEY REFERENCES api_key (id) ON DELETE CASCADE,
  successor_id INTEGER NOT NULL
) STRICT;

-- One row for each attempt that is counted, and for each subject of it. Replaces the table attempt: rows of their own need no locks.
CREATE TABLE counted_attempt (
  id         INTEGER PRIMARY KEY,
  subject    BLOB    NOT NULL CHECK (length(subject) = 32), -- SHA-256 of what is counted, such as an account's name
  at         INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX counted_attempt_subject ON counted_attempt (subject, expires_at);
CREATE INDEX counted_attempt_expires_at ON counted_attempt (expires_at);

CREATE INDEX message_account_id ON message (account_id, created_at);
CREATE INDEX message_created_at ON message (created_at);
