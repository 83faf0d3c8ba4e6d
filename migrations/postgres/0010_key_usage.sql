-- Release 1.0.0 (schema version 1) and later run on this schema.

-- The requests of each API key by day: docs/decisions/key-usage.md. Only adds.

CREATE TABLE api_key_usage (
  key_id           bigint NOT NULL REFERENCES api_key (id) ON DELETE CASCADE,
  day              bigint NOT NULL, -- days since 1970-01-01, in UTC
  succeeded        bigint NOT NULL, -- 2xx and 304
  client_errors    bigint NOT NULL, -- 4xx except 429
  rate_limited     bigint NOT NULL, -- 429
  server_errors    bigint NOT NULL, -- 5xx
  deprecated_calls bigint NOT NULL, -- of these requests, those to deprecated operations
  error_code       text,            -- of the day's last error response
  error_at         bigint,
  PRIMARY KEY (key_id, day)
);

CREATE INDEX api_key_usage_day ON api_key_usage (day);
