#!/bin/bash
# The command from outside: exit codes, and one line on the right stream. Usage: command.sh VERBENA EXAMPLE
set -eu
verbena=$1
example=$2
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
failed=0
unset "${!VB_@}" TF_CONFIG

# expect CODE STREAM TEXT COMMAND...: its exit code, and TEXT somewhere in its stdout (1) or stderr (2)
expect()
{
    local code=$1 stream=$2 text=$3 got=0
    shift 3
    timeout 20 "$@" >"$dir/1" 2>"$dir/2" </dev/null || got=$?
    if [ "$got" != "$code" ] || ! grep -qF -- "$text" "$dir/$stream"; then
        printf 'FAILED: %s\n  exit code %s, wanted %s and "%s" on stream %s, got:\n' "$*" "$got" \
            "$code" "$text" "$stream"
        sed 's/^/  /' "$dir/1" "$dir/2"
        failed=1
    fi
}

# refuse TEXT COMMAND...: exit code 2, nothing on stdout and one line with TEXT on stderr
refuse()
{
    expect 2 2 "$@"
    if [ -s "$dir/1" ] || [ "$(wc -l <"$dir/2")" != 1 ]; then
        shift
        echo "FAILED: more than one line: $*"
        failed=1
    fi
}

expect 2 2 'Usage: verbena COMMAND' "$verbena"
expect 0 1 'Usage: verbena COMMAND' "$verbena" --help
expect 0 1 'verbena 0.' "$verbena" --version
expect 0 1 'verbena 0.' "$verbena" train --version
expect 0 1 'VB_BATCH)' "$verbena" train --help
expect 0 1 'VB_LATENCY_US)' "$verbena" sim --help
expect 0 1 'VB_BATCH)' "$verbena" help server
expect 0 1 '.TH VERBENA\-train 1' "$verbena" help --man train
expect 0 1 'complete -o default -F _verbena verbena' "$verbena" help --completion bash
refuse "did you mean 'train'?" "$verbena" trian
refuse '--bathc: unknown option; did you mean --batch?' "$verbena" train --bathc=1 "$example"
refuse 'verbena train: JOB.yaml is missing' "$verbena" train
refuse '--batch=0: must be 1 or more' "$verbena" train --batch=0 "$example"
refuse 'VB_BATCH=0: must be 1 or more' env VB_BATCH=0 "$verbena" train "$example"
refuse "$dir/none.yaml: No such file" "$verbena" train "$dir/none.yaml"
printf 'batch: 1\n\nbathc: 2\n' >"$dir/job.yaml"
refuse "$dir/job.yaml:3: unknown key 'bathc'; did you mean 'batch'?" "$verbena" train "$dir/job.yaml"

printf 'chunk_kib: 64\ncredit: 2\n' >"$dir/tune.yaml"
refuse "$dir/tune.yaml:2: unknown key 'credit'; did you mean 'credit_kib'?" "$verbena" train "$example" --tune "$dir/tune.yaml"
refuse "$dir/none.yaml: No such file" "$verbena" train "$example" --tune "$dir/none.yaml"
refuse '--rate-mbit=0: must be 1 or more' "$verbena" perf tune --rate-mbit 0

cluster='{"ps":["127.0.0.1:1"],"worker":["127.0.0.1:2"]}'
refuse 'which cluster?' "$verbena" server "$example"
refuse 'which task is this?' "$verbena" server --cluster "$cluster" "$example"
refuse '--task=1: the cluster has 1 worker' "$verbena" server --cluster "$cluster" --job worker --task 1 "$example"
server=("$verbena" server --cluster "$cluster" --job ps --task 0)
refuse 'head -c 32 /dev/urandom | base64 > job.secret' "${server[@]}" "$example"
echo 0123456789abcdef0123 >"$dir/secret"
chmod 644 "$dir/secret"
refuse "run: chmod 600 $dir/secret" "${server[@]}" --secret-file "$dir/secret" "$example"
echo short >"$dir/secret"
chmod 600 "$dir/secret"
refuse 'too short' "${server[@]}" --secret-file "$dir/secret" "$example"
refuse 'VB_LISTEN_FD=0: is not a listening socket' env VB_LISTEN_FD=0 "${server[@]}" --no-auth "$example"
refuse 'VB_CLUSTER: ' env VB_CLUSTER='{}' "$verbena" server --job ps --task 0 "$example"
refuse 'TF_CONFIG: ' env TF_CONFIG='{' "$verbena" server --job ps --task 0 "$example"

exit $failed
