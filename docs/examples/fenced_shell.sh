#!/bin/sh
# A job that writes to a store which refuses old fencing tokens (contrib/fence):
#   redlock run --fence KEY -- fenced_shell.sh redis SOCKET RECORD VALUE
#   redlock run --fence KEY -- fenced_shell.sh sqlite FILE RECORD VALUE
#   redlock run --fence KEY -- fenced_shell.sh postgresql CONNECTION RECORD VALUE
# Prepare SQLite and PostgreSQL once: run contrib/fence/sqlite.sql or postgresql.sql, and
#   CREATE TABLE record (name TEXT PRIMARY KEY, value TEXT NOT NULL);
# Exits with 0 if the value was written, 1 if it was refused, 2 if the result is unknown.
set -u

contrib=$(dirname "$0")/../../contrib/fence
[ -e "$contrib" ] || contrib=$(dirname "$0")/../../redlock-tools/examples/fence # Debian
fence=${REDLOCK_FENCE:?is not set: this runs under redlock run --fence}
usage="usage: $0 redis|sqlite|postgresql WHERE RECORD VALUE"
store=${1:?$usage} where=${2:?$usage} record=${3:?$usage} value=${4?$usage}

# Encodes the text in hex for SQLite, so that a quote in the text cannot end it.
sql() {
  printf "CAST(x'%s' AS TEXT)" "$(printf %s "$1" | od -An -v -tx1 | tr -d ' \n')"
}

code=0
case $store in
redis)
  answer=$(redis-cli -s "$where" --eval "$contrib/redis.lua" \
    "$record" , "$fence" "$value" 2>&1) || code=$?
  written=1 refused=0
  ;;
sqlite)
  answer=$(sqlite3 -batch -bail "$where" 2>&1 <<END
.timeout 10000
.parameter set :name "$(sql "$record")"
.parameter set :fence "$(sql "$fence")"
.parameter set :value "$(sql "$value")"
BEGIN IMMEDIATE;
INSERT INTO redlock_fence VALUES (:name, :fence);
INSERT INTO record VALUES (:name, :value)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value;
COMMIT;
END
  ) || code=$?
  written='' refused='*redlock: an older fencing token*'
  ;;
postgresql)
  answer=$(psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=verbose \
    -v name="$record" -v fence="$fence" -v value="$value" "$where" 2>&1 >/dev/null <<'END'
BEGIN;
SELECT redlock.fence(:'name', :'fence');
INSERT INTO record VALUES (:'name', :'value')
  ON CONFLICT (name) DO UPDATE SET value = excluded.value;
COMMIT;
END
  ) || code=$?
  written='' refused='* RL001: *'
  ;;
*)
  echo "$usage" >&2
  exit 2
  ;;
esac

# shellcheck disable=SC2254 # $refused is a pattern
case $code:$answer in
"0:$written") ;;
*:$refused)
  echo "$record: refused: a later holder of the lock has written" >&2
  exit 1
  ;;
*)
  echo "$record: $answer" >&2
  exit 2
  ;;
esac
