#!/bin/bash
# The library as it is installed: headers that stand alone, in C and C++, one pkg-config file, no symbols but vb_*, and the
# example runs. $1: the build folder, $2: the source folder
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
meson install -C "$1" --no-rebuild --quiet --destdir "$dir" >"$dir/install.log" 2>&1 || { cat "$dir/install.log"; exit 1; }
pc=$(find "$dir" -name verbena.pc)
[ -n "$pc" ] || { echo 'no verbena.pc'; exit 1; }
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$dir
lib=$(find "$dir" -name 'libverbena.so' -printf '%h')
flags=$(pkg-config --cflags --libs verbena)
${CC:-cc} -Wall -Wextra -Werror "$2/examples/xor.c" $flags -o "$dir/xor"
LD_LIBRARY_PATH=$lib "$dir/xor" >"$dir/out"
cat "$dir/out"
awk '/xor/ { want = $1 != $3 + 0; if (want ? $4 < 0.9 : $4 > 0.1) exit 1; n++ } END { exit n != 4 }' "$dir/out"
for h in "$dir"/usr/local/include/verbena/*.h; do
    echo "#include <verbena/${h##*/}>" >"$dir/one.c"
    ${CC:-cc} -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags verbena) "$dir/one.c"
done
strange=$(nm -D --defined-only "$lib/libverbena.so" | awk '{ print $3 }' | grep -v '^vb_' || true)
[ -z "$strange" ] || { echo "exported: $strange"; exit 1; }
