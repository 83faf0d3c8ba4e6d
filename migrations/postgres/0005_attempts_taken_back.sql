-- Release 1.0.0 (schema version 1) and later run on this schema.

-- Takes back an attempt by its time. forget_attempts takes the newest one: with attempts that overlap, an older one then stayed in its place,
-- left the window too early, and so allowed more failures than the limit. Only adds.

-- Takes back one attempt of the time at_ms of each subject, or all. every: one for each subject.
CREATE FUNCTION forget_attempts(subjects bytea[], every boolean[], at_ms bigint) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
BEGIN
  PERFORM FROM attempt WHERE subject = ANY (subjects) ORDER BY subject FOR UPDATE;
  UPDATE attempt SET times =
    CASE WHEN whole THEN '{}' ELSE times[:array_position(times, at_ms) - 1] || times[array_position(times, at_ms) + 1:] END
  FROM unnest(subjects, every) AS given (subject, whole)
  WHERE attempt.subject = given.subject AND (whole OR at_ms = ANY (times));
  DELETE FROM attempt WHERE subject = ANY (subjects) AND times = '{}';
  UPDATE attempt SET last_at = times[cardinality(times)] WHERE subject = ANY (subjects);
END
$$;
