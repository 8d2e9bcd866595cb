#!/bin/sh
# Runs CMD, at most COUNT times in each PERIOD among all hosts:
#   ./limited.sh COUNT PERIOD NAME CMD...
# Exits with CMD's code, or with 75: the period has no run left.
set -u
usage="usage: $0 COUNT PERIOD NAME CMD..."
count=${1:?$usage} period=${2:?$usage} name=${3:?$usage}
shift 3
taken=109 # a code that CMD does not use

i=1
while [ "$i" -le "$count" ]; do
  redlock run -q -n -E "$taken" --once-per "$period" "$name:$i" -- "$@"
  code=$?
  [ "$code" -eq "$taken" ] || exit "$code"
  i=$((i + 1))
done
echo "$name: all $count runs of this period are taken" >&2
exit 75
