# --json: one object a line, the documented members, done last; without: lines for people.
. "$(dirname "$0")/lib.sh"

make_data 500
make_job 'epochs: 3'
sed -i 's/  divide_by/  test: { images: images.idx, labels: labels.idx }\n  divide_by/' job.yaml

"$verbena" train job.yaml --json >out.log 2>err.log || fail "exit $?"
[ "$(grep -c '^{.*}$' out.log)" = "$(wc -l <out.log)" ] || fail 'a line is no object'
[ "$(grep -c '^{"event":"epoch","epoch":[123],.*"loss":[0-9.]*,"test_accuracy":[0-9.]*,"seconds":[0-9.]*' out.log)" = 3 ] ||
    fail 'the epochs'
[ "$(grep -c '"event":"link"' out.log)" -ge 1 ] || fail 'the links'
last=$(tail -n 1 out.log)
for member in '"event":"done"' '"steps":15' '"samples":1500' '"seconds":[0-9.]*' '"samples_per_s":[0-9.]*' \
    '"test_accuracy":[0-9.]*' '"best_test_accuracy":[0-9.]*' '"params_crc32c":"[0-9a-f]\{8\}"'; do
    echo "$last" | grep -q "$member" || fail "no $member at the end: $last"
done
"$verbena" train job.yaml >out.log 2>err.log || fail "exit $?"
[ "$(grep -c '^epoch' out.log)" = 3 ] || fail 'a line per data epoch'
for word in accuracy samples/s pushed pulled 'map'; do
    grep -q "$word" out.log || fail "no $word at the end"
done
echo 'events as documented'
