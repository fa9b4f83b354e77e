#!/bin/bash
# Builds verbena against the UCX of a newer Debian and runs what touches the transport there: a folder with
# that Debian (800 MB, build-trixie), this tree copied into it, chroot. Needs root, debootstrap and a mirror; where one
# of them is missing it says so and ends with 77.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=trixie
root=$PWD/build-$release
packages=gcc,libc6-dev,meson,ninja-build,pkg-config,python3,libcriterion-dev,libibverbs-dev,librdmacm-dev,$(
    . scripts/setup.sh
    IFS=,
    echo "${packages_build[*]}"
)
mirror=$(awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^http/) { print $i; exit } }
    $1 == "URIs:" { print $2; exit }' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true)

skip()
{
    echo "skipped: $*" >&2
    exit 77
}

[ "$(id -u)" = 0 ] || skip "only root can make a chroot"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
if [ ! -e "$root/.done" ]; then
    rm -rf "$root"
    mkdir -p build-check
    debootstrap --variant=minbase --include="$packages" $release "$root" ${mirror:+"$mirror"} >"build-check/$release.log" 2>&1 ||
        skip "no $release can be had, see build-check/$release.log"
    touch "$root/.done"
fi
rm -rf "$root/tree"
mkdir "$root/tree"
git ls-files -z | tar -c --null -T - | tar -x -C "$root/tree"

# mounts of this script's own, gone with it
exec unshare --mount bash -euc '
    root=$1
    for dir in proc sys dev; do mount --rbind /$dir "$root/$dir"; done
    exec chroot "$root" bash -euc "
        cd /tree
        echo UCX \$(pkg-config --modversion ucx)
        meson setup build --werror >/dev/null
        ninja -C build
        meson test -C build --print-errorlogs --num-processes 1 conform_tp conform_setup test_ucx test_ucx_hostile test_ucx_pieces stress_ucx worker_steady
    "' sh "$root"
