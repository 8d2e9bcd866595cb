#!/bin/bash -eu
# Builds each target of test/fuzz into $OUT, with its corpus and options, as OSS-Fuzz wants them.
# Its image sets the variables; `./dev check fuzz --oss-fuzz` does without the image.
tree=$SRC/libredlock
build=$WORK/build

# The image that runs the targets has no libraries but those of the compiler. plain: the options
# of compiler and optimisation are those of $CFLAGS alone.
rm -rf "$build"
meson setup "$build" "$tree" --buildtype=plain -Ddefault_library=static -Dprefer_static=true \
  -Db_lundef=false -Dman=disabled -Dman_html=disabled "-Dfuzzing_engine=$LIB_FUZZING_ENGINE"
ninja -C "$build" fuzz_targets

for corpus in "$tree"/test/fuzz/corpus/*; do
  name=${corpus##*/}
  cp "$build/test/fuzz/fuzz-$name" "$OUT/$name"
  (cd "$corpus" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" ./*)
done
cp "$tree"/test/fuzz/*.options "$OUT"
