#!/usr/bin/env bash
# test/debian/sources reads both formats of apt's sources.
set -euo pipefail
sources=$(realpath "$(dirname "$0")/sources")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >a.sources <<'TEXT'
# The first stanza
Types: deb deb-src
URIs: http://one.example/debian/
 http://two.example/debian
Suites: bookworm bookworm-updates
# a comment inside
Components: contrib
 main
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no


Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main

types: deb
uris: http://inline.example/debian
suites: bookworm-security
components: main
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEYCQ
TEXT
cat >b.list <<'TEXT'
# deb http://comment.example/debian bookworm main
deb [ arch=amd64 signed-by=/k.gpg ] http://line.example/debian bookworm main contrib # main
deb-src http://line.example/debian bookworm main
  deb	http://tab.example/debian	bookworm-security	main
deb http://other.example/debian bookworm stable # main
TEXT
printf 'Types: deb\nURIs: http://last.example/debian\nSuites: trixie\nComponents: main' >c.sources

diff - <("$sources" a.sources b.list c.sources) <<'TEXT'
http://one.example/debian/ bookworm /usr/share/keyrings/debian.gpg
http://one.example/debian/ bookworm-updates /usr/share/keyrings/debian.gpg
http://two.example/debian bookworm /usr/share/keyrings/debian.gpg
http://two.example/debian bookworm-updates /usr/share/keyrings/debian.gpg
http://inline.example/debian bookworm-security -
http://line.example/debian bookworm /k.gpg
http://tab.example/debian bookworm-security -
http://last.example/debian trixie -
TEXT
