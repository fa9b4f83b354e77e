#!/bin/bash
# Two guests joined by a network: two ps on one, two workers on the other. $1: the build folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) build=$(readlink -f "$1")
set -- "$build/cmd/verbena"
. "$here/guest.sh"

mkdir shared
make_data 200
cp images.idx labels.idx shared/
(umask 077 && head -c 32 /dev/urandom | base64 >shared/job.secret)
port=$((RANDOM % 10000 * 2 + 30000)) pids=
for host in 1 2; do
    job=$([ $host = 1 ] && echo ps || echo worker)
    (cd "$here/../.." && exec "$here/vm.sh" -n $host -p $port -o "$dir/shared" -t 280 -- \
        bash "$here/host_tasks.sh" "$build" "$job") >vm$host.log 2>&1 &
    pids="$pids $!"
done
for p in $pids; do
    code=0
    wait "$p" || code=$?
    [ $code != 77 ] || { tail -n 1 vm*.log; exit 77; }
    [ $code = 0 ] || fail "a guest ended with $code"
done
cd shared

crc() { grep -ho '"params_crc32c":"[0-9a-f]*"' "$@"; }
# codes NAME: of all four tasks of that run
codes() { cat "$1".{ps,worker}.log | sed -n 's/^code //p' | sort | tr '\n' ' '; }

trains_alike() {
    [ "$(codes "$1")" = '0 0 0 0 ' ] && crc map.log && [ "$(crc "$1".worker.log)" = "$(crc map.log)" ]
}
plain_is_rdma() {
    cat plain.worker.log
    trains_alike plain && [ "$(grep -c '"way":"rdma","device":"rxe0' plain.worker.log)" = 4 ]
}
fallback_is_tcp() {
    cat fallback.worker.log
    trains_alike fallback && [ "$(grep '"way":"tcp"' fallback.worker.log | grep -c 'locked.*64 KiB')" = 4 ]
}
refused_says_why() {
    cat refused.{ps,worker}.log
    [ "$(codes refused)" = '6 6 6 6 ' ] && grep -q 'locked.*64 KiB' refused.worker.log
}
killed_is_named() {
    cat kill.{ps,worker}.log
    [ "$(codes kill)" = '137 3 3 3 ' ] && [ "$(grep -c 'lost /job:worker/task:1' kill.ps.log)" = 2 ] &&
        echo "named after $((($(cat named) - $(cat killed)) / 1000000)) ms" &&
        [ $((($(cat named) - $(cat killed)) / 1000000)) -lt 2000 ]
}
passes 'two hosts train over rdma, with the bits of one' plain_is_rdma
passes 'a host that may lock no memory falls back to TCP and says why' fallback_is_tcp
passes '--require-rdma refuses that' refused_says_why
passes 'a killed worker is named within 2 s' killed_is_named
echo "$passed passed, $failed failed"
[ $failed = 0 ]
