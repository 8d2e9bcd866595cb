-- Fenced writes for SQLite. Run this file once: sqlite3 FILE <sqlite.sql
--
-- Each transaction that writes to the resource first inserts its name and $REDLOCK_FENCE:
--   BEGIN IMMEDIATE;
--   INSERT INTO redlock_fence VALUES ('report', 1764064805123456);
--   UPDATE ...;
--   COMMIT;
--
-- The INSERT fails (SQLITE_CONSTRAINT_TRIGGER) if the resource has seen a larger token: a
-- later holder of the lock has written. After an error of the INSERT the program must
-- ROLLBACK: SQLite keeps the transaction open and would execute the UPDATE. `sqlite3 -bail`
-- stops at the first error, and the transaction is rolled back.
--
-- Why it is correct: a SQLite database has one writer at a time. BEGIN IMMEDIATE makes this
-- transaction the writer until it ends, so no other token is stored between the comparison
-- and the COMMIT.

-- The largest token that each resource has seen. Keep a row for as long as the data that it
-- protects. CHECK: SQLite would store a token that is not a number, and compare it as larger
-- than every number. ON CONFLICT IGNORE: the trigger has updated the row that exists.
CREATE TABLE IF NOT EXISTS redlock_fence (
  resource TEXT NOT NULL PRIMARY KEY ON CONFLICT IGNORE,
  token INTEGER NOT NULL CHECK (typeof(token) = 'integer'
                                AND token BETWEEN 1 AND 9007199254740991)
);

CREATE TRIGGER IF NOT EXISTS redlock_fence_compare BEFORE INSERT ON redlock_fence
BEGIN
  SELECT RAISE(ABORT, 'redlock: an older fencing token: nothing is written')
  FROM redlock_fence WHERE resource = NEW.resource AND token > NEW.token;
  UPDATE redlock_fence SET token = NEW.token WHERE resource = NEW.resource;
END;
