#!/bin/sh
# Moves money in one transaction, which ends before the lock does:
#   redlock run -w 10s --fence accounts -- ./transfer.sh BASE FROM TO AMOUNT
# Exits with 0: committed; anything else: rolled back.
set -eu
fence=${REDLOCK_FENCE:?is not set: start this by redlock run --fence}
usage="usage: $0 BASE FROM TO AMOUNT"
base=${1:?$usage} from=${2:?$usage} to=${3:?$usage} amount=${4:?$usage}

case "$fence$from$to$amount" in
*[!a-z0-9]*)
  echo "names are of a-z and 0-9" >&2
  exit 64
  ;;
esac

# -bail ends at the first error, and the end without a COMMIT rolls back.
sqlite3 -batch -bail "$base" << EOF_SQL
.timeout 5000
PRAGMA foreign_keys = ON;
BEGIN IMMEDIATE;
INSERT INTO redlock_fence VALUES ('accounts', $fence);
INSERT INTO transfer VALUES ('$from', '$to', $amount);
UPDATE account SET balance = balance - $amount WHERE name = '$from';
UPDATE account SET balance = balance + $amount WHERE name = '$to';
COMMIT;
EOF_SQL
