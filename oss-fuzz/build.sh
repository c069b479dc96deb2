#!/bin/bash -eu
# Builds the fuzz targets of the node, with their corpora, into $OUT. OSS-Fuzz sets SRC, OUT, WORK, CC and CFLAGS.
# FUZZ_TARGETS names some of them; all without it. SPDX-License-Identifier: Apache-2.0
cd "$SRC/lull"
# Libraries that the runner's image lacks lie beside the targets.
LDFLAGS="${LDFLAGS:-} -Wl,--disable-new-dtags,-rpath,\$ORIGIN/lib" meson setup "$WORK/build" . \
    --buildtype=plain -Db_lundef=false -Dwerror=false -Dcluster=false -Dlab=false
targets=${FUZZ_TARGETS:-$(ninja -C "$WORK/build" -t targets all | sed -n 's|^tests/fuzz/fuzz_\([a-z]*\):.*|\1|p')}
[ -n "$targets" ] || { echo "build.sh: no targets; does $CC know -fsanitize=fuzzer?" >&2; exit 1; }
ninja -C "$WORK/build" $(printf 'tests/fuzz/fuzz_%s ' $targets)
mkdir -p "$OUT/lib"
for target in $targets; do
    cp "$WORK/build/tests/fuzz/fuzz_$target" "$OUT/"
    (cd "tests/fuzz/corpus/$target" && zip -q -r - .) >"$OUT/fuzz_${target}_seed_corpus.zip"
    ldd "$OUT/fuzz_$target" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | grep -v '/lib\(c\|m\|dl\|rt\|pthread\|resolv\|gcc_s\)\.so' |
        xargs -r cp -L -n -t "$OUT/lib"
done
