# In a guest that is one of two hosts: its two tasks of a run, by hand. $1: the build folder, $2: ps or worker. Both
# hosts go through the same runs; what one has to tell the other lies in $OUT of both, a folder that they share.
build=$(readlink -f "$1") job=$2 shared=$OUT
set -- "$build/cmd/verbena"
. "$(dirname "$0")/guest.sh"

cp "$shared"/{images.idx,labels.idx,job.secret} .
chmod 600 job.secret
small_job
cat >cluster.json <<EOF
{"cluster": {"ps": ["192.168.77.1:7000", "192.168.77.1:7001"],
             "worker": ["192.168.77.2:7000", "192.168.77.2:7001"]}}
EOF

# run NAME OPTIONS...: both tasks of this host; NAME.$job.log has what they said and their codes.
run() {
    local name=$1 pids= p
    shift
    for i in 0 1; do
        "$verbena" server --cluster cluster.json --job "$job" --task $i --secret-file job.secret --json "$@" \
            job.yaml >"out$i" 2>"err$i" &
        pids="$pids $!"
    done
    [ "$name" != kill ] || [ "$job" != worker ] || kill_one $pids
    for p in $pids; do
        code=0
        wait "$p" || code=$?
        echo "code $code" >>codes
    done
    cat out0 out1 err0 err1 codes >"$shared/$name.$job.log"
    rm -f codes
}

# The second worker dies in the middle; the time is left behind.
kill_one() {
    wait_for 60 'the first data epoch' grep -q epoch out0
    kill -9 "$2"
    date +%s%N >"$shared/killed"
    wait_for 10 'the other worker to name it' grep -q 'lost /job:worker/task:1' err0
    date +%s%N >"$shared/named"
}

if [ "$job" = ps ]; then
    "$verbena" train job.yaml --json --ps 2 --workers 2 --transport map >"$shared/map.log"
fi
run plain --require-rdma
if [ "$job" = worker ]; then
    # from now on no memory may be locked on this host
    chmod 755 "$dir"
    chown -R 65534 .
    real=$verbena verbena=$dir/unlocked
    cat >unlocked <<END
#!/bin/bash
ulimit -l 64
exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all $real "\$@"
END
    chmod 755 unlocked
fi
run fallback
run refused --require-rdma
[ "$job" = ps ] || verbena=$real
sed -i 's/^epochs: .*/epochs: 100000/' job.yaml
run kill --require-rdma
