#!/bin/sh
# Applies the migrations that a database lacks, in the order of their numbers:
#   redlock run -w 10m migrate:shop -- ./migrate.sh BASE FOLDER
# FOLDER has files such as 001-items.sql: numbers of the same width, from 1. Exits with 0 if
# all of them are applied.
set -eu
: "${REDLOCK_KEY:?is not set: start this by redlock run}"
base=${1:?usage: $0 BASE FOLDER} folder=${2:?usage: $0 BASE FOLDER}

sql() {
  { printf '.timeout 10000\n' && cat; } | sqlite3 -batch -bail "$base"
}

# 1 if the version $1 is applied, otherwise 0.
applied() {
  echo "SELECT count(*) FROM schema_version WHERE version = $1;" | sql
}

sql << EOF_SQL
CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY);
EOF_SQL

for file in "$folder"/[0-9]*.sql; do
  [ -e "$file" ] || {
    echo "$folder has no migration" >&2
    exit 1
  }
  name=${file##*/}
  version=$(echo "$name" | sed 's/^0*//; s/[^0-9].*//')
  : "${version:?of $name: numbers begin at 1}"
  known=$(applied "$version")
  [ "$known" -eq 0 ] || continue
  # The number is a primary key: a second transaction with the same one is rolled back.
  {
    echo "BEGIN IMMEDIATE; INSERT INTO schema_version VALUES ($version);"
    cat "$file"
    echo "COMMIT;"
  } | sql && [ "$(applied "$version")" -eq 1 ] || { # 0: the file left its transaction open
    echo "$name: rolled back" >&2
    exit 1
  }
  echo "applied $name"
done
echo "the schema has version $(echo 'SELECT max(version) FROM schema_version;' | sql)"
