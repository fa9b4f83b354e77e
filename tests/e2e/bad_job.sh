# A wrong job file or option: one line with the place and what to do, exit 2, before any task starts.
. "$(dirname "$0")/lib.sh"

make_data 300

# refused PATTERN [OPTIONS...]: job.yaml as it is
refused() {
    local pattern=$1
    shift
    if "$verbena" train job.yaml "$@" >out.log 2>err.log; then fail "taken: $pattern"; else code=$?; fi
    [ $code = 2 ] || fail "exit $code for: $pattern"
    [ ! -s out.log ] && [ "$(wc -l <err.log)" = 1 ] || fail "not one line on stderr for: $pattern"
    grep -q -- "$pattern" err.log || fail "no '$pattern' in the line"
}

make_job 'bathc: 5'
refused 'job.yaml:8:.*bathc.*batch'
make_job 'epochs: many'
refused 'job.yaml:8:.*epochs'
make_job 'epochs: 0'
refused 'job.yaml:8:.*1 or more'
make_job 'virtual_workers: 3'
refused 'virtual.workers' --workers 2
make_job
sed -i 's/images.idx/nowhere.idx/' job.yaml
refused 'job.yaml:4:.*nowhere.idx'
make_job
sed -i 's/dense: 10, soft/dense: 5, soft/' job.yaml
refused 'label 9'
make_job
sed -i 's/, softmax_cross_entropy//' job.yaml
refused 'job.yaml:1:.*softmax_cross_entropy'
make_job
sed -i 's/relu, dense: 128/rleu, dense: 128/' job.yaml
refused 'job.yaml:1:.*rleu.*relu'
make_job
head -c 1000 images.idx >short.idx
sed -i 's/images.idx/short.idx/' job.yaml
refused 'short.idx'
make_job
refused '--bathc' --bathc 5
refused '--epochs' --epochs nine
refused 'nine' --mode nine
rm job.yaml
refused 'job.yaml'
if "$verbena" trian >out.log 2>err.log; then fail trian; else code=$?; fi
[ $code = 2 ] && grep -q train err.log || fail 'no suggestion for a wrong command'
"$verbena" --help >out.log || fail help
"$verbena" train --help >out.log || fail 'train --help'
for o in ps workers epochs seed virtual-workers transport threads mode json; do
    grep -q -- "--$o" out.log || fail "train --help does not know --$o"
done
[ -z "$(ours)" ] || fail 'a task was started'
echo 'every mistake has its line'
