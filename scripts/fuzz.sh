#!/bin/bash
# Builds the fuzzers (clang, address and undefined-behaviour sanitizers): fuzz.sh --build
# Runs one for some seconds, beginning with what tests/fuzz/corpus and examples have: fuzz.sh NAME SECONDS
# An input that breaks it is kept as build-fuzz/NAME-*.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
--list)
    for file in tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        echo "${name%.c}"
    done
    ;;
--build)
    [ -f build-fuzz/build.ninja ] || CC=clang meson setup build-fuzz --buildtype=debugoptimized \
        -Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link
    mapfile -t targets < <("$0" --list | sed 's|^|tests/fuzz/fuzz_|')
    ninja -C build-fuzz "${targets[@]}"
    ;;
*)
    name=$1
    corpus=build-fuzz/corpus-$name
    mkdir -p "$corpus"
    for seed in "tests/fuzz/corpus/$name"/*; do
        [ ! -f "$seed" ] || cp "$seed" "$corpus/"
    done
    [ "$name" != job ] || cp examples/*.yaml "$corpus/"
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    "build-fuzz/tests/fuzz/fuzz_$name" -max_total_time="$2" -timeout=10 -max_len=16384 \
        -rss_limit_mb=2048 -artifact_prefix="build-fuzz/$name-" -verbosity=1 "$corpus"
    ;;
esac
