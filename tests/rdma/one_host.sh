# In a guest: everything over rdma on one host. $1: the build folder, $2: the address of the RDMA device.
build=$(readlink -f "$1") address=$2
set -- "$build/cmd/verbena" "$address"
. "$(dirname "$0")/guest.sh"
export VB_TEST_RDMA=$address

crc() { grep -o '"params_crc32c":"[0-9a-f]*"' "$1"; }

devices='--net-devices eth0'
# train OPTIONS...: out.log, err.log; its code
train() {
    timeout 60 "$verbena" train job.yaml --json --ps 2 --workers 2 $devices "$@" >out.log 2>err.log
}

same_bits() {
    train --transport map && cp out.log map.log
    train --transport rdma || { cat err.log; return 1; }
    crc out.log && [ "$(crc out.log)" = "$(crc map.log)" ]
}

says_what_it_is() {
    cat out.log # of the run over rdma just before
    [ "$(grep -c '"way":"rdma"' out.log)" = 4 ]
    [ "$(grep -c '"device":"rxe0' out.log)" = 4 ]
    [ "$(grep -c '"gid":"::ffff:192.168.77.1"' out.log)" = 4 ]
    [ "$(grep -c '"mtu":\(1024\|4096\|2048\|512\)' out.log)" = 4 ]
}

# Task 1 of a job is killed; the others say so within 2 s.
kill_is_named() {
    local victim begun
    small_job && sed -i 's/^epochs: .*/epochs: 100000/' job.yaml
    "$verbena" train job.yaml --json --ps 2 --workers 2 --net-devices eth0 --transport rdma >out.log 2>err.log &
    launcher=$!
    wait_for 60 'the first data epoch' grep -q epoch out.log
    for p in $(ours); do
        tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- "--job $1 --task 1 " && victim=$p
    done
    kill -9 "$victim"
    begun=$(date +%s%N)
    wait_for 10 'three that name it' eval '[ "$(grep -c "lost.*/job:'"$1"'/task:1" err.log)" -ge 3 ]'
    echo "named by all after $((($(date +%s%N) - begun) / 1000000)) ms"
    [ $((($(date +%s%N) - begun) / 1000000)) -lt 2000 ]
    code=0
    wait $launcher || code=$?
    cat err.log
    [ $code = 3 ] && none_left
}

# Without RDMA --transport rdma ends with 6 and says why: $1.
ends_with() {
    small_job
    code=0
    train --transport rdma || code=$?
    cat err.log
    [ $code = 6 ] && grep -q "$1" err.log
}

small_memlock() {
    chmod 755 "$dir" && chmod 644 ./*
    small_job
    code=0
    (ulimit -l 64 && exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all \
        "$verbena" train "$dir/job.yaml" --json --transport rdma --net-devices eth0 >out.log 2>err.log) || code=$?
    cat err.log
    [ $code = 6 ] && grep -q 'locked' err.log && grep -q '64 KiB' err.log
}

# What is measured there says nothing about speed; that it can be is what counts.
can_be_measured() {
    for bench in 'link-lat --bytes 64' 'link-bw --bytes 65536' wake idle 'copies --bytes 65536'; do
        timeout 100 "$verbena" perf $bench --transport rdma --host "$address" --rounds 1 --json >perf.log 2>&1 ||
            { cat perf.log; return 1; }
        cat perf.log
        grep -q '"transport": "rdma"' perf.log
    done
    grep -q . perf.log
}

# Not RDMA, but a machine where this may be set.
large_pages() {
    echo 16 >/proc/sys/vm/nr_hugepages
    grep 'HugePages_Free: *16' /proc/meminfo
    "$build/tests/transport/test_map" -j1
    echo 0 >/proc/sys/vm/nr_hugepages
}

passes 'regions have large pages where there are any' large_pages
passes 'conformance: messages' "$build/tests/transport/conform_tp" -j1
passes 'conformance: set-up' "$build/tests/transport/conform_setup" -j1
passes 'ports that wait, send and are busy' timeout 100 "$build/tests/transport/stress_ucx" 30
small_job
passes '20 steps give the same bits as over map' same_bits
passes 'a link says device, GID and MTU' says_what_it_is
passes 'verbs, UCX and a link can be measured' can_be_measured
passes 'a killed ps is named within 2 s' kill_is_named ps
passes 'too little locked memory is said' small_memlock
ip link set eth0 down
devices=
passes 'a port that is down is said' ends_with down
devices='--net-devices eth0'
ip link set eth0 up
mv /dev/infiniband /dev/hidden
passes 'a hidden /dev/infiniband is said' ends_with infiniband
mv /dev/hidden /dev/infiniband
rdma link delete rxe0
passes 'no device is said' ends_with 'no RDMA device'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
