#!/bin/bash
# `verbena train` with real tasks: how it ends when it, or a task, is told to or has to. Usage: launcher.sh VERBENA
set -eu
verbena=$1
dir=$(mktemp -d)
launcher=
trap '[ -z "$launcher" ] || kill -9 $launcher 2>/dev/null; rm -r "$dir"' EXIT
failed=0
unset "${!VB_@}" TF_CONFIG

# 64 images of 2 pixels with labels 0 and 1
{ printf '\0\0\10\2\0\0\0\100\0\0\0\2'; printf 'ab%.0s' {1..64}; } >"$dir/images"
{ printf '\0\0\10\1\0\0\0\100'; printf '\0\1%.0s' {1..32}; } >"$dir/labels"
cat >"$dir/job.yaml" <<END
data: {train: {images: images, labels: labels}, divide_by: 255}
model: [dense: 2, softmax_cross_entropy]
batch: 8
epochs: 1000000
ps: 2
workers: 2
END

fail()
{
    echo "FAILED: $*"
    sed 's/^/  /' "$dir/err"
    failed=1
}

# Starts a run that goes on for ever and waits until it trains; sets launcher and children (ps 0, ps 1,
# worker 0, worker 1).
start()
{
    local line
    rm -f "$dir/out"
    mkfifo "$dir/out"
    "$verbena" train "$dir/job.yaml" >"$dir/out" 2>"$dir/err" </dev/null &
    launcher=$!
    exec 3<"$dir/out"
    read -r -t 30 line <&3 || fail "nothing was trained"
    read -ra children <"/proc/$launcher/task/$launcher/children" || true # no newline
    cat <&3 >/dev/null &
    exec 3<&-
}

# ends CODE TEXT: the run ends with this code and says TEXT last
ends()
{
    local code=0
    wait $launcher || code=$?
    launcher=
    [ $code = "$1" ] || fail "exit code $code, not $1"
    [[ $(tail -n 1 "$dir/err") == "$2" ]] || fail "the last line is not: $2"
    gone
}

# Waits until no child runs any more; a zombie is init's to bury.
gone()
{
    local child deadline=$((SECONDS + 20))
    for child in "${children[@]}"; do
        while grep -qsE '^State:\s+[^ZX]' "/proc/$child/status"; do
            [ $SECONDS -lt $deadline ] || { fail "process $child is left"; return; }
            sleep 0.02
        done
    done
}

start
[ ${#children[@]} = 4 ] || fail "${#children[@]} children, not 4"
kill -TERM $launcher
ends 143 'ended by SIGTERM'

start
kill -INT $launcher
ends 130 'ended by SIGINT'

start
kill -9 "${children[3]}"
ends 3 'worker 1 was killed by SIGKILL'

start
kill -9 "${children[0]}"
ends 3 'ps 0 was killed by SIGKILL'

start
kill -9 $launcher
wait $launcher 2>/dev/null || true
launcher=
gone

start
for child in "${children[@]}"; do
    if tr '\0' '\n' <"/proc/$child/environ" | grep -q '^VB_SECRET=.'; then
        fail "the secret is left in the environment of process $child"
    fi
done
kill -TERM $launcher
ends 143 'ended by SIGTERM'

exit $failed
