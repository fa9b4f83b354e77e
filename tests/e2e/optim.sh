# Every optimizer and schedule, from the job to the parameters: it learns, gives the same bits for any number of ps
# and either way, and another setting gives others.
. "$(dirname "$0")/lib.sh"

make_data 500
make_job 'epochs: 8'
sed -i 's/^optimizer: .*//' job.yaml

# run OPTIONS...: $crc, and the first and last loss
run() {
    timeout 60 "$verbena" train job.yaml --json "$@" >out.log 2>err.log || fail "$*: exit $?"
    crc=$(grep -o '"params_crc32c":"[0-9a-f]*"' out.log)
    read -r first last <<<"$(grep -o '"loss":[0-9.e+-]*' out.log | cut -d: -f2 | sed -n '1p;$p' | tr '\n' ' ')"
}

seen=
# learns OPTIONS...
learns() {
    run --workers 2 --virtual-workers 2 --ps 1 "$@"
    awk "BEGIN { exit !($last < $first) }" || fail "$*: the loss was $first and is $last"
    one=$crc
    case $seen in *"$crc"*) fail "$*: the same as another" ;; esac
    seen="$seen $crc"
    run --workers 1 --virtual-workers 2 --ps 3 --transport tcp "$@"
    [ "$crc" = "$one" ] || fail "$*: other bits with 3 ps over tcp"
}

learns --optimizer.name sgd --optimizer.rate 0.1
learns --optimizer.name momentum --optimizer.rate 0.02
learns --optimizer.name nesterov --optimizer.rate 0.02
learns --optimizer.name adagrad --optimizer.rate 0.01
learns --optimizer.name rmsprop --optimizer.rate 0.0005
learns --optimizer.name adam --optimizer.rate 0.001
learns --optimizer.name adamw --optimizer.rate 0.001 --optimizer.weight-decay 0.1
learns --optimizer.name ftrl --optimizer.rate 0.1 --optimizer.l1 0.0001 --optimizer.l2 0.001
learns --optimizer.name sgd --optimizer.rate 0.1 --optimizer.weight-decay 0.01
learns --optimizer.name sgd --optimizer.rate 0.1 --optimizer.clip-value 0.001
learns --optimizer.name sgd --optimizer.rate 0.1 --optimizer.schedule step --optimizer.every 10 --optimizer.gamma 0.5
learns --optimizer.name sgd --optimizer.rate 0.1 --optimizer.schedule cosine --optimizer.every 40 --optimizer.floor 0.1
learns --optimizer.name sgd --optimizer.rate 0.1 --optimizer.schedule inverse_sqrt --optimizer.warmup 10
learns --optimizer.name sgd --optimizer.rate 0.1 --optimizer.clip-norm 0.5
learns --optimizer.name adam --optimizer.rate 0.001 --optimizer.clip-norm 0.1
learns --optimizer.name lamb --optimizer.rate 0.01
learns --optimizer.name lamb --optimizer.rate 0.01 --optimizer.weight-decay 0.1 --optimizer.clip-value 0.01
# at the workers: the same bits as at the ps, for every optimizer that may be there, either way
at_workers() {
    for o in "$@"; do
        run --workers 2 --virtual-workers 2 --ps 2 --optimizer.rate 0.01 --epochs 3 --optimizer.name $o
        one=$crc
        for way in map tcp; do
            run --workers 2 --virtual-workers 2 --ps 2 --optimizer.rate 0.01 --epochs 3 --optimizer.name $o \
                --optimizer.where worker --transport $way
            [ "$crc" = "$one" ] || fail "$o at the workers over $way: other bits"
        done
    done
}
at_workers sgd 'momentum --optimizer.weight-decay 0.01' nesterov adagrad rmsprop 'adam --optimizer.clip-value 0.001' \
    'adamw --optimizer.weight-decay 0.1 --optimizer.schedule cosine' ftrl 'sgd --optimizer.clip-norm 0.5'
for bad in '--mode async' '--optimizer.name lamb' '--compression.pull fp16'; do
    code=0
    "$verbena" train job.yaml --workers 2 --optimizer.where worker $bad >out.log 2>err.log || code=$?
    [ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] || fail "at the workers with $bad: exit $code"
done
# a step's norms are bounded: more variables than that are refused
layers=$(printf 'dense: 2, %.0s' $(seq 160))
sed "s/^model: .*/model: [${layers}dense: 10, softmax_cross_entropy]/" job.yaml >deep.yaml
code=0
"$verbena" train deep.yaml --optimizer.name lamb >out.log 2>err.log || code=$?
[ $code = 2 ] && grep -q 'lamb takes at most 320 variables, here are 322' err.log || fail "lamb of 322 variables: exit $code"
"$verbena" train deep.yaml --optimizer.name adamw --epochs 1 >out.log 2>err.log || fail 'adamw of 322 variables'
# norms are those of all shards: any number of ps, lanes and chunks, either way
for o in 'sgd --optimizer.clip-norm 0.5' 'lamb'; do
    for threads in 1 2; do
        want=
        for layout in '1 map' '2 map' '3 map' '1 tcp' '2 tcp' '3 tcp'; do
            run --optimizer.name $o --optimizer.rate 0.01 --epochs 3 --workers 2 --virtual-workers 4 \
                --threads $threads --ps ${layout% *} --transport ${layout#* }
            [ "$crc" = "${want:=$crc}" ] || fail "$o: other bits with $layout and $threads lanes"
        done
        run --optimizer.name $o --optimizer.rate 0.01 --epochs 3 --workers 2 --virtual-workers 4 \
            --threads $threads --ps 2 --chunk-kib 12
        [ "$crc" = "$want" ] || fail "$o: other bits with small chunks and $threads lanes"
    done
    run --optimizer.name $o --optimizer.rate 0.01 --workers 3 --virtual-workers 3 --ps 2 --mode sync+1
    awk "BEGIN { exit !($last < $first) }" || fail "$o with a backup worker: the loss was $first and is $last"
done
# a bound that nothing reaches changes nothing
run --optimizer.name sgd --optimizer.rate 0.1
want=$crc
run --optimizer.name sgd --optimizer.rate 0.1 --ps 2 --optimizer.clip-norm 1e6
[ "$crc" = "$want" ] || fail 'clipping by a norm that nothing reaches'
# refused PATTERN OPTIONS...
refused() {
    local pattern=$1
    shift
    code=0
    "$verbena" train job.yaml "$@" >out.log 2>err.log || code=$?
    [ $code = 2 ] && [ "$(wc -l <err.log)" = 1 ] && grep -q -- "$pattern" err.log || fail "$*: exit $code"
}
refused 'clip.norm: needs all gradients of a step at once.*clip_value' --optimizer.clip-norm 1 --workers 2 --mode ssp:2
refused 'lamb needs all gradients of a step at once.*adamw' --optimizer.name lamb --workers 2 --mode async
refused 'clip.norm: not with lamb' --optimizer.name lamb --optimizer.clip-norm 1
# a gradient that is no number ends the run before its norm is made, or is skipped
for o in 'sgd --optimizer.clip-norm 1e30' lamb; do
    code=0
    timeout 60 "$verbena" train job.yaml --workers 2 --ps 2 --optimizer.name $o --optimizer.rate 1e6 \
        --data.mean 1e30 >out.log 2>err.log || code=$?
    [ $code = 1 ] && grep -q 'gradient of dense[0-9]*/[a-z]* from /job:worker/task:[01] has a NaN or infinity in step [0-9]' err.log ||
        fail "$o: a gradient that is no number: exit $code"
    timeout 60 "$verbena" train job.yaml --workers 2 --ps 2 --optimizer.name $o --optimizer.rate 1e6 \
        --data.mean 1e30 --on-nan skip >out.log 2>err.log || fail "$o: skip: exit $?"
    grep -q 'gradients with a NaN or infinity were skipped' err.log || fail "$o: skipped gradients are not counted"
done
# each push is a step of the optimizer, but the schedule counts those of all workers together
for mode in ssp:2 async; do
    run --workers 4 --ps 2 --mode $mode --optimizer.name adam --optimizer.rate 0.001 --optimizer.warmup 5
    awk "BEGIN { exit !($last < $first) }" || fail "adam in $mode: the loss was $first and is $last"
done
for extra in '' '--async.rate-over-staleness' '--async.compensation 1'; do
    run --workers 4 --ps 2 --mode async --optimizer.name sgd --optimizer.rate 0.1 $extra
    awk "BEGIN { exit !($last < $first) }" || fail "async $extra: the loss was $first and is $last"
done
# one worker is never behind: neither changes a bit
run --workers 1 --ps 2 --mode async --optimizer.name sgd --optimizer.rate 0.1
one=$crc
run --workers 1 --ps 2 --mode async --optimizer.name sgd --optimizer.rate 0.1 --async.rate-over-staleness --async.compensation 1
[ "$crc" = "$one" ] || fail 'what is not behind was changed'
echo 'every optimizer learns'
