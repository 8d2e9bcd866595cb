-- A table whose rows refuse old fencing tokens: each row keeps the largest token that has
-- written it. For SQLite (3.35 and later) and PostgreSQL. :name, :fence and :value are the
-- driver's parameters. In psql they are :'name', :'fence' and :'value'.

-- SQLite needs the CHECK: without it, it stores a value that is not a number, and compares it
-- as larger than every number.
CREATE TABLE IF NOT EXISTS fenced_register (
  name  TEXT PRIMARY KEY,
  fence BIGINT NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991),
  value TEXT NOT NULL
);

-- Compares and stores in one statement. It returns one row: written; or no row: refused, a
-- later holder has written. PostgreSQL waits for a transaction that is writing the row, then
-- compares with the new row. Above READ COMMITTED it may fail instead; then try again.
INSERT INTO fenced_register (name, fence, value)
VALUES (:name, :fence, :value)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, value = excluded.value
WHERE fenced_register.fence <= excluded.fence
RETURNING fence;

-- If the row always exists, for example with one more column in a table of your own, every SQL
-- database can do this. One changed row: written. None: refused.
--
--    UPDATE fenced_register SET fence = :fence, value = :value
--    WHERE name = :name AND fence <= :fence;
--
-- A job that writes more than this row runs this statement first, in the same transaction, and
-- rolls back if it is refused.
