#!/bin/sh
# Archives a folder; locks itself, so that one host at a time does: ./backup.sh FOLDER FILE
set -eu
folder=${1:?usage: $0 FOLDER FILE} file=${2:?usage: $0 FOLDER FILE}

# With flock this was:
#   [ "${FLOCKER:-}" = "$0" ] || exec env FLOCKER="$0" flock -n -E 75 "$0" "$0" "$@"
[ "${REDLOCK_KEY:-}" = backup ] || exec redlock run -n backup -- sh "$0" "$@"

new=$(mktemp "$file.XXXXXX")
trap 'rm -f "$new"' EXIT
trap 'exit 143' HUP INT TERM # otherwise dash does not run the trap of EXIT
tar -C "$folder" -cf "$new" .
mv "$new" "$file"
echo "$file is written"
