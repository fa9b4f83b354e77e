# lib.sh - what the tests of the command share. $1 is the verbena binary.
set -euo pipefail

verbena=$(readlink -f "$1")
dir=$(mktemp -d)
trap 'end_all; rm -rf "$dir"' EXIT
cd "$dir"

fail() {
    echo "FAILED: $*" >&2
    for f in "$dir"/*.log; do
        [ -s "$f" ] && sed "s|^|${f##*/}: |" "$f" >&2
    done
    exit 1
}

# Every process of this test, by its working folder.
ours() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd" 2>/dev/null)" = "$dir" ] && [ "${p#/proc/}" != $$ ] &&
            [ "$(readlink "$p/exe" 2>/dev/null)" = "$verbena" ] && echo "${p#/proc/}"
    done
    return 0
}

end_all() {
    for p in $(ours); do
        kill -9 "$p" 2>/dev/null || true
    done
}

# be32 N: a big-endian 32-bit number as bytes.
be32() {
    printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) \
        $(($1 >> 8 & 255)) $(($1 & 255)))"
}

# make_data N: images.idx (N x 28 x 28) and labels.idx (N, all below 10); noise, but of a fixed kind.
make_data() {
    { printf '\0\0\x08\x03'; be32 "$1"; be32 28; be32 28
      noise_bytes $(($1 * 784)); } >images.idx
    { printf '\0\0\x08\x01'; be32 "$1"
      yes '0123456789' | tr -d '\n' | tr '0-9' '\0-\11' | head -c "$1" || true; } >labels.idx
}

# So many bytes that look random and are the same each time.
noise_bytes() {
    yes 'the order of samples is a keyed permutation of all of them' | gzip -c | head -c 65536 >noise || true
    local n=$1
    while [ "$n" -gt 0 ]; do
        seq "$n" | sha512sum | head -c 128
        head -c $((n > 65536 ? 65536 : n)) noise
        n=$((n - 65536))
    done | head -c "$1" || true
}

# make_job [LINES...]: job.yaml on that data, with more lines.
make_job() {
    cat >job.yaml <<EOF
model: [dense: 256, relu, dense: 128, relu, dense: 10, softmax_cross_entropy]
data:
  format: idx
  train: { images: images.idx, labels: labels.idx }
  divide_by: 255
optimizer: { name: sgd, rate: 0.1 }
batch: 100
EOF
    printf '%s\n' "$@" >>job.yaml
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
    local left=$(($1 * 20)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "waited in vain for $what"
        sleep 0.05
    done
}

# exit_of PID SECONDS: its exit code in $code; it must end in time.
exit_of() {
    wait_for "$2" "the end of process $1" eval "! kill -0 $1"
    code=0
    wait "$1" || code=$?
}

none_left() {
    wait_for 5 "all processes to end" eval '[ -z "$(ours)" ]'
}
