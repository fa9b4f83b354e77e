# Tasks that wait sleep: while one worker is stopped, the others are woken by heartbeats and little else, and are
# never seen running. Four tasks on one processor get on with it, and end with the same bits.
. "$(dirname "$0")/lib.sh"

# find JOB I: the process of that task.
find() {
    for p in $(ours); do
        tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- "server .*--job $1 --task $2 " && echo "$p"
    done
    return 0
}

# woken PID: how often its threads have gone to sleep so far
woken() {
    cat /proc/"$1"/task/*/status | awk '/^voluntary_ctxt/ { n += $2 } END { print n }'
}

# running PID...: how many of their threads run now
running() {
    local p
    for p; do cat /proc/"$p"/task/*/stat; done | sed 's/.*) //' | grep -c ^R || true
}

make_data 1000
make_job 'epochs: 100000'
for way in map tcp; do
    "$verbena" train job.yaml --json --ps 2 --workers 2 --transport $way >out.log 2>err.log &
    launcher=$!
    wait_for 30 'the first data epoch' grep -q '"event":"epoch"' out.log
    stopped=$(find worker 1)
    kill -STOP "$stopped"
    others="$(find ps 0) $(find ps 1) $(find worker 0)"
    sleep 1 # what was on its way arrives
    before= seen=0
    for p in $others; do before="$before $(woken "$p")"; done
    for _ in $(seq 40); do
        sleep 0.1
        seen=$((seen + $(running $others)))
    done
    for p in $others; do
        set -- $before
        n=$(($(woken "$p") - $1))
        shift
        before=$*
        # some seconds of one heartbeat each way with each of three peers
        [ "$n" -le 100 ] || fail "$way: $(tr '\0' ' ' </proc/"$p"/cmdline): woken $n times in 4 s"
    done
    [ "$seen" -le 10 ] || fail "$way: seen running $seen times of 40"
    kill -CONT "$stopped"
    kill -TERM $launcher
    exit_of $launcher 10
    none_left
done

make_job 'epochs: 2' 'virtual_workers: 2'
want=$("$verbena" train job.yaml --json | grep -o '"params_crc32c":"[0-9a-f]*"')
for way in map tcp; do
    timeout 120 taskset -c 0 "$verbena" train job.yaml --json --ps 2 --workers 2 --transport $way >out.log 2>err.log ||
        fail "four tasks on one processor over $way: exit $?"
    grep -q "$want" out.log || fail "other bits on one processor over $way"
done
echo 'who waits sleeps'
