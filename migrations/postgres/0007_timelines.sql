-- Release 1.0.0 (schema version 1) and later run on this schema.

-- When each timeline of the cluster was first seen by a server: docs/decisions/postgres.md. Only adds.

CREATE TABLE timeline (
  id            integer     PRIMARY KEY,
  first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
