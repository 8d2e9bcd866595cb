#!/usr/bin/env bash
# A compiler warning stops ./dev test --werror and no other verb, however build/ was configured
# before. Runs a copy of ./dev on a project of one program, which has a warning.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() { echo "failed: $*" >&2; exit 1; }
passes() { "$@" >log 2>&1 || { cat log >&2; fail "$*"; }; }
warning_stops() {
  ! "$@" >log 2>&1 || fail "$* ignores a warning"
  grep -q 'Werror' log || { cat log >&2; fail "$* fails, but not by a warning"; }
}
counts() { [ "$(tail -n 1 log)" = "$1" ] || { cat log >&2; fail "the last line is not $1"; }; }

mkdir bin test
cp "$root/dev" .
cp "$root/test/count.py" test
printf '#!/bin/sh\necho installed\n' >bin/dpkg-query # no package is to be installed
chmod +x bin/dpkg-query
export PATH=$folder/bin:$PATH
cat >meson.build <<'TEXT'
project('one', 'c', default_options: 'warning_level=3')
test('one', executable('one', 'one.c'), suite: 'unit')
TEXT
echo 'int main(void) { int unused; return 0; }' >one.c

passes ./dev build
warning_stops ./dev test --werror one
warning_stops ./dev test --werror --all one
passes ./dev build
passes ./dev test one
counts '1 passed, 0 failed'
rm -rf build/gcc
CC=gcc passes meson setup build/gcc -Dwerror=true
passes ./dev test one
echo 'int main(void) { return 0; }' >one.c
passes ./dev test --werror one
counts '1 passed, 0 failed'
