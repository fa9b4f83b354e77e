# Classes of variables, each with a mode, an optimizer and a codec of its own.
. "$(dirname "$0")/lib.sh"

make_data 1000

# run NAME OPTIONS...: to out.log, its done line in $last
run() {
    timeout 120 "$verbena" train job.yaml --json "${@:2}" >out.log 2>err.log || fail "$1: exit $?"
    last=$(tail -n 1 out.log)
}
crc() { grep -o '"params_crc32c":"[0-9a-f]*"' <<<"$last"; }
# value EXPRESSION: of the waits events w and the done event d
value() {
    /usr/bin/python3 -c 'import json, sys
lines = [json.loads(line) for line in open("out.log")]
w, d = [l for l in lines if l["event"] == "waits"], lines[-1]
print(eval(sys.argv[1]))' "$1"
}

make_job 'epochs: 2'
run plain --workers 2 --ps 2
plain=$(crc)
run momentum --workers 2 --ps 2 --optimizer.name momentum --optimizer.rate 0.02
momentum=$(crc)

# only the layout is another: the same bits, any number of ps and lanes, either way
make_job 'epochs: 2' 'classes:' '  - {variables: "*/bias, nothing"}' '  - {variables: "dense3/*", name: head}'
for layout in '1 1 map' '2 1 map' '2 2 tcp' '3 1 tcp'; do
    read -r ps threads way <<<"$layout"
    run "$layout" --workers 2 --ps "$ps" --threads "$threads" --transport "$way"
    [ "$threads" = 2 ] || [ "$(crc)" = "$plain" ] || fail "classes change the bits: $layout"
    [ "$(value '[c["class"] for c in w[0]["classes"]]')" = "['others', '*/bias, nothing', 'head']" ] || fail 'names'
done

# what a class says is for its variables alone; what it does not say is the job's
make_job 'epochs: 2' 'classes:' '  - {variables: "*", optimizer: {name: momentum, rate: 0.02}}'
run all --workers 2 --ps 2
[ "$(crc)" = "$momentum" ] || fail 'a class of all variables is not the job with its settings'
make_job 'epochs: 2' 'classes:' '  - {variables: "*/bias", optimizer: {name: momentum, rate: 0.02}}'
run bias --workers 2 --ps 2
[ "$(crc)" != "$momentum" ] && [ "$(crc)" != "$plain" ] || fail 'the optimizer of a class'
bias=$(crc)
run bias --workers 1 --virtual-workers 2 --ps 3 --transport tcp
[ "$(crc)" = "$bias" ] || fail 'the optimizer of a class: other bits over tcp'

# modes: what is in sync is never stale, what is async alone is; a refresh at the end reads both
make_job 'epochs: 4' 'mode: async' 'classes:' '  - {variables: "dense1/*", mode: ssp:2}'
for way in map tcp; do
    run "modes over $way" --workers 3 --ps 2 --transport $way --jitter exp --compute 2
    [ "$(value '[c["mode"] for c in w[0]["classes"]]')" = "['async', 'ssp:2']" ] || fail "modes over $way"
    [ "$(value 'max(len(l["classes"][1]["staleness"]) for l in w) <= 3')" = True ] || fail "ssp:2 over $way: staleness"
done
make_job 'epochs: 4' 'mode: ssp:3' 'classes:' '  - {variables: "dense1/*", mode: sync, compression: {push: int8}}'
for way in map tcp; do
    run "sync among ssp over $way" --workers 3 --ps 2 --transport $way
    [ "$(value 'max(len(l["classes"][1]["staleness"]) for l in w)')" = 1 ] || fail "sync over $way: staleness"
    [ "$(value '1.5 < d["push_ratio"] < 4')" = True ] || fail "push_ratio over $way"
done

# steps that all classes make together
make_job 'epochs: 2' 'mode: sync+1' 'classes:' '  - {variables: "*/bias", optimizer: {rate: 0.01}}'
for way in map tcp; do
    run "sync+1 over $way" --workers 3 --ps 2 --transport $way
done
make_job 'epochs: 2' 'classes:' '  - {variables: "*/weight", optimizer: {name: lamb, rate: 0.01, clip_norm: 0}}'
sed -i 's/^optimizer: .*/optimizer: { name: sgd, rate: 0.1, clip_norm: 0.5 }/' job.yaml
want=
for layout in '1 1 map' '2 1 map' '3 1 tcp' '2 1 tcp'; do
    read -r ps threads way <<<"$layout"
    run "norms: $layout" --workers 2 --ps "$ps" --threads "$threads" --transport "$way"
    [ "$(crc)" = "${want:=$(crc)}" ] || fail "norms of two classes: other bits with $layout"
done

# bad TEXT LINES...: refused with one line that has TEXT
bad() {
    local code=0
    make_job "${@:2}"
    "$verbena" train job.yaml --workers 2 >out.log 2>err.log || code=$?
    [ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] && grep -qF "$1" err.log || fail "$1: exit $code"
}
bad 'job.yaml:8: classes: an item is a map' 'classes: [bias]'
bad 'job.yaml:8: classes: variables is missing' 'classes: [{mode: async}]'
bad "job.yaml:8: unknown key 'moed'; did you mean 'mode'?" 'classes: [{variables: a, moed: async}]'
bad "job.yaml:8: unknown key 'batch'" 'classes: [{variables: a, batch: 1}]'
bad 'job.yaml:8: variables of class bais: no variable is left that is called so; there are dense1/weight, ' \
    'classes: [{variables: bais}]'
bad 'job.yaml:8: mode of class a: ' 'classes: [{variables: "*", name: a, mode: fast}]'
bad 'job.yaml:8: mode of class *: backup workers' 'classes: [{variables: "*", mode: sync+1}]'
bad 'job.yaml:8: optimizer.clip_norm of class *: the norm is one of all' \
    'classes: [{variables: "*", optimizer: {clip_norm: 1}}]'
bad 'job.yaml:8: optimizer.beta1 of class *: is only for' 'classes: [{variables: "*", optimizer: {beta1: 0.5}}]'
echo 'classes of variables keep to what they say'
