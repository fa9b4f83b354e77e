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
    ratio=$(grep -o '"push_ratio":[0-9.]*' out.log | cut -d: -f2)
    read -r first last <<<"$(grep -o '"loss":[0-9.e+-]*' out.log | cut -d: -f2 | sed -n '1p;$p' | tr '\n' ' ')"
}

run
whole=$pushed
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
for mode in ssp:2 async sync+1; do
    run --compression.push int8 --mode $mode
    awk "BEGIN { exit !($last < $first) }" || fail "int8 in $mode: the loss was $first and is $last"
done
run --compression.push int8 --optimizer.clip-norm 1

"$verbena" train job.yaml --compression.push int8 >out.log 2>err.log || fail 'without --json'
grep -q '^pushed .* (3.94 times less than the gradients), pulled' out.log || fail 'no ratio for people'
code=0
"$verbena" train job.yaml --compression.push int8 --on-nan skip >out.log 2>err.log || code=$?
[ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] && grep -q 'on.nan.*compression.push' err.log || fail "skip: exit $code"
echo 'every codec learns'
