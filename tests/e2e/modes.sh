# The modes of steps, with real tasks: what is read is never staler than the bound, ssp:0 is sync, a worker that is
# stopped for a moment holds others up or does not, as its mode says, and every run says how stale and who waited.
. "$(dirname "$0")/lib.sh"

make_data 1000

# run NAME OPTIONS...: to out.log, its done line in $last
run() {
    timeout 120 "$verbena" train job.yaml --json "${@:2}" >out.log 2>err.log || fail "$1: exit $?"
    last=$(tail -n 1 out.log)
    [ "$(grep -c '"event":"waits"' out.log)" = "$(grep -o -- '--workers [0-9]*' <<<"$*" | cut -d' ' -f2)" ] ||
        fail "$1: a waits event of every worker"
}

crc() { grep -o '"params_crc32c":"[0-9a-f]*"' <<<"$last"; }

# The furthest behind that any worker has read.
stalest() {
    /usr/bin/python3 -c 'import json
lines = [json.loads(line) for line in open("out.log")]
print(max(len(l["staleness"]) - 1 for l in lines if l["event"] == "waits"))'
}

make_job 'epochs: 3'
run sync --workers 2 --ps 2
sync=$(crc)
[ "$(stalest)" = 0 ] || fail 'sync reads stale parameters'
run ssp:0 --workers 2 --ps 2 --mode ssp:0
[ "$(crc)" = "$sync" ] || fail 'ssp:0 is not sync'
for transport in map tcp; do
    for s in 1 3; do
        run "ssp:$s" --workers 4 --ps 2 --mode ssp:$s --transport $transport
        [ "$(stalest)" -le $s ] || fail "ssp:$s over $transport has read $(stalest) steps behind"
        grep -q '"steps":30,' <<<"$last" || fail "ssp:$s over $transport: steps"
    done
    run ssp:0-4 --workers 4 --ps 2 --mode ssp:0-4 --transport $transport --epochs 10
    [ "$(stalest)" -ge 1 ] && [ "$(stalest)" -le 4 ] || fail "ssp:0-4 over $transport has read $(stalest) steps behind"
    run async --workers 4 --ps 2 --mode async --transport $transport
    run sync+1 --workers 4 --ps 2 --mode sync+1 --transport $transport
    [ "$(stalest)" = 0 ] || fail 'sync+1 reads stale parameters'
done
# one worker alone is never behind, so all modes do the same
run one --workers 1 --ps 1
one=$(crc)
for mode in ssp:2 async; do
    run $mode --workers 1 --ps 1 --mode $mode
    [ "$(crc)" = "$one" ] || fail "one worker in $mode is not the same as in sync"
done

make_data 5000
# steps: how far the run is, from the last progress line
steps() { grep -o '"step":[0-9]*' out.log | tail -n 1 | cut -d: -f2; }
# go_on MODE: starts a long run and stops worker 1 in its middle
go_on() {
    make_job 'epochs: 100000' # 250 steps each: nobody comes to the end of what it may be ahead
    sed -i 's/^batch: .*/batch: 20/' job.yaml
    "$verbena" train job.yaml --json --progress --workers 3 --ps 1 --mode "$1" >out.log 2>err.log &
    launcher=$!
    wait_for 60 'progress' grep -q '"step":' out.log
    for p in $(ours); do
        tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- '--job worker --task 1 ' && victim=$p
    done
    kill -STOP "$victim"
    sleep 0.3 # what was on its way
    before=$(steps)
}
# over: the run goes on when worker 1 does, and ends when told to
over() {
    kill -CONT "$victim"
    before=$(steps)
    wait_for 30 'steps after the pause' eval '[ "$(steps)" -gt $((before + 10)) ]'
    kill -TERM $launcher
    exit_of $launcher 20
    [ "$code" = 143 ] || fail "exit $code"
    none_left
}

for mode in async ssp:1000000 sync+1; do
    go_on $mode
    wait_for 30 "steps in $mode while a worker is stopped" eval '[ "$(steps)" -gt $((before + 20)) ]'
    over
done
for mode in sync ssp:2; do
    go_on $mode
    wait_for 30 "$mode to stand still without a worker" eval 'at=$(steps); sleep 1; [ "$(steps)" = "$at" ]'
    over
done

for mode in ssp sync+2 ssp:3-1 asynchronous; do
    code=0
    "$verbena" train job.yaml --workers 2 --mode $mode >out.log 2>err.log || code=$?
    [ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] && grep -q "mode: '$mode'" err.log || fail "--mode $mode: exit $code"
done
echo 'every mode does what it says'
