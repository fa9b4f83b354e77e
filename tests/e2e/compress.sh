# Encoded pushes, from the job to the report: with every codec it learns, as many bytes are sent as the codec says,
# and either way gives the same bits.
. "$(dirname "$0")/lib.sh"

make_data 1000
make_job 'epochs: 6'

# run OPTIONS...: $crc, the first and last loss, bytes pushed and ratio
run() {
    timeout 60 "$verbena" train job.yaml --json --workers 2 --ps 2 "$@" >out.log 2>err.log || fail "$*: exit $?"
    crc=$(grep -o '"params_crc32c":"[0-9a-f]*"' out.log)
    pushed=$(grep -o '"pushed_bytes":[0-9]*' out.log | cut -d: -f2)
    pulled=$(grep -o '"pulled_bytes":[0-9]*' out.log | cut -d: -f2)
    ratio=$(grep -o '"push_ratio":[0-9.]*' out.log | cut -d: -f2)
    read -r first last <<<"$(grep -o '"loss":[0-9.e+-]*' out.log | cut -d: -f2 | sed -n '1p;$p' | tr '\n' ' ')"
}

run
whole=$pushed all=$pulled
# codec NAME RATIO OPTIONS...
codec() {
    run --compression.push "$1" --transport map "${@:3}"
    awk "BEGIN { exit !($last < $first) }" || fail "$1: the loss was $first and is $last"
    awk "BEGIN { r = $whole / $pushed; exit !(r > 0.97 * $2 && r < 1.03 * $2 && r > 0.999 * $ratio && r < 1.001 * $ratio) }" ||
        fail "$1: $whole bytes became $pushed, ratio $ratio"
    one=$crc
    run --compression.push "$1" --transport tcp "${@:3}"
    [ "$crc" = "$one" ] || fail "$1: other bits over tcp"
}

codec fp16 2
codec bf16 2
codec int8 3.94
codec onebit 28.4
codec topk 10 --compression.share 0.05
codec randomk 20 --compression.share 0.05
# pull NAME RATIO OPTIONS...: parameters; the first ones travel whole
pull() {
    run --compression.pull "$1" --transport map "${@:3}"
    awk "BEGIN { exit !($last < $first) }" || fail "pull $1: the loss was $first and is $last"
    awk "BEGIN { r = $all / $pulled; exit !(r > 0.5 * $2 && r < 1.03 * $2) }" ||
        fail "pull $1: $all bytes became $pulled"
    one=$crc
    run --compression.pull "$1" --transport tcp "${@:3}"
    [ "$crc" = "$one" ] || fail "pull $1: other bits over tcp"
    run --compression.pull "$1" --compression.push "$1" --ps 3 "${@:3}"
    awk "BEGIN { exit !($last < $first) }" || fail "$1 both ways: the loss was $first and is $last"
}
pull fp16 2
pull bf16 2
pull int8 3.94
pull onebit 28.4
pull topk 10 --compression.share 0.05
pull randomk 20 --compression.share 0.05
# many lanes: what is encoded leaves from one region
run --compression.pull int8 --compression.push int8 --threads 16 --chunk-kib 4 --transport tcp
for mode in ssp:2 async ssp:0-3; do
    for way in map tcp; do
        run --compression.pull int8 --compression.push fp16 --mode $mode --transport $way --workers 3
        awk "BEGIN { exit !($last < $first) }" || fail "int8 pulls in $mode: the loss was $first and is $last"
    done
done
for mode in ssp:2 async sync+1; do
    run --compression.push int8 --mode $mode
    awk "BEGIN { exit !($last < $first) }" || fail "int8 in $mode: the loss was $first and is $last"
done
run --compression.push int8 --optimizer.clip-norm 1

"$verbena" train job.yaml --compression.push int8 >out.log 2>err.log || fail 'without --json'
grep -q '^pushed .* (3.94 times less than the gradients), pulled' out.log || fail 'no ratio for people'
"$verbena" train job.yaml --compression.pull fp16 >out.log 2>err.log || fail 'without --json'
grep -q '^pushed .*, pulled .* (2 times less than the parameters)' out.log || fail 'no ratio of pulls for people'
code=0
"$verbena" train job.yaml --compression.pull int8 --workers 3 --mode sync+1 >out.log 2>err.log || code=$?
[ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] && grep -q 'compression.pull.*left behind' err.log || fail "sync+1: exit $code"
# tasks that do not agree: refused, with the reason
make_job 'epochs: 1' 'start_timeout: 20'
head -c 32 /dev/zero | tr '\0' a >job.secret && chmod 600 job.secret
printf '{"ps": ["127.0.0.1:%s"], "worker": ["127.0.0.1:%s"]}' $((20000 + $$ % 10000)) $((30000 + $$ % 10000)) >cluster.json
"$verbena" server job.yaml --cluster cluster.json --secret-file job.secret --job ps --task 0 --start-timeout 5 >ps.log 2>&1 &
code=0
"$verbena" server job.yaml --cluster cluster.json --secret-file job.secret --job worker --task 0 --compression.pull int8 >out.log 2>err.log ||
    code=$?
[ $code = 5 ] || fail "another codec: exit $code"
wait $! || true
grep -q 'another job file or options' ps.log || fail 'another codec: no reason'
code=0
"$verbena" train job.yaml --compression.push int8 --on-nan skip >out.log 2>err.log || code=$?
[ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] && grep -q 'on.nan.*compression.push' err.log || fail "skip: exit $code"
echo 'every codec learns'
