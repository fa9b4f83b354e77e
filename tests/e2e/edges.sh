# Odd sizes and ends: more ps than chunks, several lanes, more chunks than a ring holds, a diverged run, one task
# told to end.
. "$(dirname "$0")/lib.sh"

make_data 300
make_job 'epochs: 2' 'virtual_workers: 4'

crc() {
    timeout 60 "$verbena" train job.yaml --json "$@" >out.log 2>err.log || fail "train $*: exit $?"
    grep -o '"params_crc32c":"[0-9a-f]\{8\}"' out.log || fail "train $*: no checksum"
}

same() {
    local got
    got=$(crc "$@")
    [ "$got" = "$want" ] || fail "train $*: $got, not $want"
}

want=$(crc --workers 1 --ps 1 --threads 2) # one count of BLAS threads, or the bits differ
same --workers 4 --ps 2 --threads 2 --transport tcp
want=$(crc --workers 1 --ps 1)
same --workers 2 --ps 2 --chunk-kib 1 --transport map
same --workers 2 --ps 1 --chunk-kib 1 --transport tcp # a ring holds 1024 messages; must not stand still
grep -q 'no parameters' err.log && fail 'it stood still'
want=$(crc --workers 1 --ps 1 --batch 1 --virtual-workers 1)
[ "$want" != '' ] || fail 'one sample a step'

# infinity ends the run, in one line with its place, or is skipped; it is no number of JSON, and a person sees it
code=0
timeout 60 "$verbena" train job.yaml --json --optimizer.rate 1e6 --epochs 5 >out.log 2>err.log || code=$?
[ $code = 1 ] && grep -q 'gradient of dense[0-9]*/[a-z]* from /job:worker/task:[01] has a NaN or infinity in step [0-9]' err.log ||
    fail "a gradient that is no number: exit $code"
timeout 60 "$verbena" train job.yaml --json --optimizer.rate 1e6 --epochs 5 --on-nan skip >out.log 2>err.log || fail "exit $?"
grep -q 'gradients with a NaN or infinity were skipped' err.log || fail 'skipped gradients are not counted'
grep -q '"event":"epoch","epoch":5,.*"loss":null' out.log || fail 'a loss that is no number'
grep -q 'diverged' err.log || fail 'nobody says that it diverged'

sed -i 's/dense: 256, relu, dense: 128, relu, dense: 10/dense: 10/; s/^batch: .*/batch: 100/' job.yaml
want=$(crc --workers 1 --ps 1)
same --workers 4 --ps 8
same --workers 2 --ps 8 --transport tcp

# one task ends on request: so does the run, in order
make_job 'epochs: 100000'
rm -f out.log
"$verbena" train job.yaml --json --ps 1 --workers 2 >out.log 2>err.log &
launcher=$!
wait_for 30 'the first data epoch' grep -q '"event":"epoch"' out.log
for p in $(ours); do
    tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- "server --job worker --task 1 " && kill -TERM "$p"
done
exit_of $launcher 6
[ "$code" = 143 ] || fail "a worker told to end: exit $code, not 143"
grep -q 'lost' err.log && fail 'a task that ended in order was called lost'
none_left
echo 'the edges hold'
