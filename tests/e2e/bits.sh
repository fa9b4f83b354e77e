# The same bits from any number of workers and ps, over both ways; others from another seed. The last batch
# is short (2003 samples in batches of 100), and 4 micro-batches do not divide it evenly.
. "$(dirname "$0")/lib.sh"

make_data 2003
make_job 'epochs: 2' 'virtual_workers: 4' 'seed: 5'

crc() {
    "$verbena" train job.yaml --json "$@" >out.log 2>err.log || fail "train $*: exit $?"
    grep -o '"params_crc32c":"[0-9a-f]\{8\}"' out.log || fail "train $*: no checksum"
}

want=$(crc --workers 1 --ps 1 --transport map)
for way in map tcp; do
    for tasks in '1 1' '2 1' '2 2' '4 3'; do
        set -- $tasks
        got=$(crc --workers "$1" --ps "$2" --transport $way)
        [ "$got" = "$want" ] || fail "$1 workers, $2 ps over $way: $got, not $want"
        grep -q "\"way\":\"$way\"" out.log || fail "not over $way"
    done
done
[ "$(crc --workers 2 --ps 2 --threads 2)" != '' ] || fail 'two lanes'
[ "$(crc --workers 2 --ps 1 --seed 6)" != "$want" ] || fail 'another seed gave the same bits'
for optimizer in momentum adam; do
    sed -i "s/name: [a-z]*, rate: [0-9.]*/name: $optimizer, rate: 0.01/" job.yaml
    one=$(crc --workers 1 --ps 1)
    four=$(crc --workers 4 --ps 2)
    [ "$one" = "$four" ] || fail "$optimizer: $one with one worker, $four with four"
done
none_left
echo "same bits for every layout: $want"
