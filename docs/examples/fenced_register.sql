-- A table whose rows refuse whoever comes too late: each keeps the largest fencing token that
-- has written it. For SQLite (3.35 and later) and PostgreSQL; :name, :fence and :value are
-- parameters, as drivers know them. In psql they are :'name', :'fence' and :'value'.

-- The CHECK is for SQLite as well: it would store what is no number, and count it as larger
-- than any.
CREATE TABLE IF NOT EXISTS fenced_register (
  name  TEXT PRIMARY KEY,
  fence BIGINT NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991),
  value TEXT NOT NULL
);

-- Compares and stores in one statement. A row comes back: written. None: refused, a later
-- holder has written. PostgreSQL waits for whoever is writing the row, and compares with what
-- that one left; above READ COMMITTED it may fail instead, and is tried again.
INSERT INTO fenced_register (name, fence, value)
VALUES (:name, :fence, :value)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, value = excluded.value
WHERE fenced_register.fence <= excluded.fence
RETURNING fence;

-- Where the row is always there, as in a table of your own with a column more, any SQL
-- database can do it; one changed row: written, none: refused.
--
--    UPDATE fenced_register SET fence = :fence, value = :value
--    WHERE name = :name AND fence <= :fence;
--
-- A job that writes more than this row does this first, in the same transaction, and rolls
-- back if it is refused.
