# What the scripts that run in a guest share. $1: the build folder.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"

# A model and a batch that emulation can stand: 20 steps.
small_job() {
    [ -e images.idx ] || make_data 200
    cat >job.yaml <<EOF
model: [dense: 64, relu, dense: 10, softmax_cross_entropy]
data:
  format: idx
  train: { images: images.idx, labels: labels.idx }
  divide_by: 255
optimizer: { name: sgd, rate: 0.1 }
batch: 20
epochs: 2
chunk_kib: 64
start_timeout: 60
EOF
    printf '%s\n' "$@" >>job.yaml
}

# passes NAME COMMAND...: one named result.
passed=0 failed=0
passes() {
    local name=$1 start=$SECONDS
    shift
    if "$@" >"$dir/step.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $name ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL  $name"
        tail -n 40 "$dir/step.log" | sed 's/^/      /'
    fi
}
