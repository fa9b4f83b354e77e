# A task killed in the middle: every other one ends within 5 s with exit 3 and names it; nothing is left.
. "$(dirname "$0")/lib.sh"

make_data 2000
make_job 'epochs: 100000'

# find JOB I: the process of that task.
find() {
    for p in $(ours); do
        tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- "server .*--job $1 --task $2 " && echo "$p"
    done
    return 0
}

# epochs_done N: has the run come so far?
epochs_done() {
    [ "$(grep -c '"event":"epoch"' out.log)" -ge "$1" ]
}

for way in map tcp; do
    for victim in 'worker 1' 'worker 0' 'ps 1' 'ps 0'; do
        set -- $victim
        rm -f out.log
        "$verbena" train job.yaml --json --ps 2 --workers 2 --transport $way >out.log 2>err.log &
        launcher=$!
        wait_for 30 'the first data epochs' epochs_done 2
        pid=$(find "$1" "$2")
        [ -n "$pid" ] || fail "no process of $victim"
        kill -9 "$pid"
        exit_of $launcher 6
        [ "$code" = 3 ] || fail "$victim killed over $way: exit $code"
        named=$(grep -c "lost.*/job:$1/task:$2" err.log || true)
        [ "$named" -ge 3 ] || fail "$victim killed over $way: named by $named of the 3 others"
        grep -v "/job:$1/task:$2" err.log | grep -q 'lost /job' && fail "another task was called lost"
        none_left
    done
done
echo 'every loss was named by all others'
