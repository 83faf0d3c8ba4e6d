-- Release 1.0.0 (schema version 3) and later run on this schema.

-- The requests of each API key by day: docs/decisions/key-usage.md. Only adds.

CREATE TABLE api_key_usage (
  key_id           INTEGER NOT NULL REFERENCES api_key (id) ON DELETE CASCADE,
  day              INTEGER NOT NULL, -- days since 1970-01-01, in UTC
  succeeded        INTEGER NOT NULL, -- 2xx and 304
  client_errors    INTEGER NOT NULL, -- 4xx except 429
  rate_limited     INTEGER NOT NULL, -- 429
  server_errors    INTEGER NOT NULL, -- 5xx
  deprecated_calls INTEGER NOT NULL, -- of these requests, those to deprecated operations
  error_code       TEXT,             -- of the day's last error response
  error_at         INTEGER,
  PRIMARY KEY (key_id, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX api_key_usage_day ON api_key_usage (day);
