-- Fenced writes for PostgreSQL. Run this file once, as a user who may create a schema:
--   psql -1 -v ON_ERROR_STOP=1 -f postgresql.sql
--   GRANT USAGE ON SCHEMA redlock TO the_user_that_writes;
--
-- Each transaction that writes to the resource calls redlock.fence() first:
--   BEGIN;
--   SELECT redlock.fence('report', 1764064805123456);  -- the resource, $REDLOCK_FENCE
--   UPDATE ...;
--   COMMIT;
--
-- redlock.fence() raises an exception with SQLSTATE RL001 if the resource has seen a larger
-- token: a later holder of the lock has written. PostgreSQL then executes nothing more in this
-- transaction, and COMMIT rolls it back. A writer that rolls back to a savepoint or catches
-- the exception must not write.

CREATE SCHEMA IF NOT EXISTS redlock;

-- The largest token that each resource has seen. Keep a row for as long as the data that it
-- protects.
CREATE TABLE IF NOT EXISTS redlock.fences (
  resource text PRIMARY KEY,
  token bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991)
);

-- Why it is correct: INSERT ... ON CONFLICT locks the row of the resource until the
-- transaction ends, so of the transactions that passed the check only one at a time is open.
-- Another one waits in INSERT, and then compares with the token that the first one committed.
-- If the first one is rolled back, its token does not count, and its writes are undone.
--
-- READ COMMITTED compares with the newest committed row, whenever the transaction began. At
-- REPEATABLE READ and SERIALIZABLE a row that changed since the transaction's snapshot is an
-- error instead (SQLSTATE 40001): roll back, and run the whole transaction again with the same
-- token.
--
-- SECURITY DEFINER: a writer can raise a token by this function, and cannot change the table.
CREATE OR REPLACE FUNCTION redlock.fence(resource text, token bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO redlock.fences (resource, token) VALUES (fence.resource, fence.token)
  ON CONFLICT (resource) DO UPDATE SET token = excluded.token
  WHERE fences.token <= excluded.token;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'redlock: an older fencing token: nothing is written'
      USING ERRCODE = 'RL001',
            DETAIL = format('%s has seen a larger token than %s.', fence.resource,
                            fence.token),
            HINT = 'A later holder of the lock has written. Stop; do not try again.';
  END IF;
END $$;
