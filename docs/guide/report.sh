#!/bin/sh
# Writes the report of one period:
#   redlock run --once-per 1d report -- ./report.sh FOLDER
set -eu
: "${REDLOCK_KEY:?is not set: start this by redlock run --once-per}"
folder=${1:?usage: $0 FOLDER}
period=${REDLOCK_KEY#*@}

# The rename makes the report appear as a whole, also if this runs twice.
new=$(mktemp "$folder/.new.XXXXXX")
trap 'rm -f "$new"' EXIT
trap 'exit 143' HUP INT TERM # otherwise dash does not run the trap of EXIT
echo "report of period $period" > "$new"
chmod 644 "$new" # mktemp lets only its owner read it
mv "$new" "$folder/$period"
