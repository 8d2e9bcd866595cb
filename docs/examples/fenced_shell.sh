#!/bin/sh
# A job that writes to a store which refuses old fencing tokens:
#   redlock run --fence KEY -- fenced_shell.sh redis SOCKET RECORD VALUE
#   redlock run --fence KEY -- fenced_shell.sh sqlite FILE RECORD VALUE
# Exits with 0 if the value was written, 1 if it was refused, 2 if the result is unknown.
set -u

here=$(dirname "$0")
fence=${REDLOCK_FENCE:?is not set: this runs under redlock run --fence}
usage="usage: $0 redis|sqlite WHERE RECORD VALUE"
store=${1:?$usage} where=${2:?$usage} record=${3:?$usage} value=${4?$usage}

# Encodes the text in hex for SQL, so that a quote in the text cannot end it.
sql() {
  printf "CAST(x'%s' AS TEXT)" "$(printf %s "$1" | od -An -v -tx1 | tr -d ' \n')"
}

case $store in
redis)
  answer=$(redis-cli -s "$where" --eval "$here/fenced_register.lua" \
    "$record" , "$fence" "$value")
  written=1 refused=0
  ;;
sqlite)
  answer=$(
    {
      printf '.timeout 10000\n'
      printf '.parameter set %s "%s"\n' \
        :name "$(sql "$record")" :fence "$(sql "$fence")" :value "$(sql "$value")"
      cat "$here/fenced_register.sql"
    } | sqlite3 -batch -bail "$where"
  ) || exit 2
  written=$fence refused=
  ;;
*)
  echo "$usage" >&2
  exit 2
  ;;
esac

case $answer in
"$written") ;;
"$refused")
  echo "$record: refused: a later holder of the lock has written" >&2
  exit 1
  ;;
*)
  echo "$record: $answer" >&2
  exit 2
  ;;
esac
