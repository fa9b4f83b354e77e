# Tasks started by hand, as on several hosts: the same bits; a wrong secret, a missing task, no secret.
. "$(dirname "$0")/lib.sh"

make_data 2000
make_job 'epochs: 2' 'start_timeout: 10'
(umask 077; head -c 32 /dev/urandom | base64 >job.secret; head -c 32 /dev/urandom | base64 >wrong.secret)

# Four ports that were free a moment ago, below those that the kernel gives to anybody.
taken() {
    for p in "$@"; do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || return 0
    done
    return 1
}
a=$((RANDOM % 10000 + 20000))
while taken $a $((a + 1)) $((a + 2)) $((a + 3)); do a=$((a + 4)); done
b=$((a + 1)) c=$((a + 2)) d=$((a + 3))
echo "{\"cluster\": {\"ps\": [\"127.0.0.1:$a\", \"127.0.0.1:$b\"], \"worker\": [\"127.0.0.1:$c\", \"127.0.0.1:$d\"]}}" >cluster.json

# task JOB I [OPTIONS...]: in the background; its process in $pid.
task() {
    "$verbena" server --cluster cluster.json --job "$1" --task "$2" "${@:3}" job.yaml >"$1$2.log" 2>"$1$2.err.log" &
    pid=$!
}

want=$("$verbena" train job.yaml --json --ps 2 --workers 2 | grep -o '"params_crc32c":"[0-9a-f]*"')

for way in map tcp; do
    task ps 0 --secret-file job.secret --transport $way
    pids=$pid
    task ps 1 --secret-file job.secret --transport $way
    pids="$pids $pid"
    task worker 1 --secret-file job.secret --transport $way
    pids="$pids $pid"
    # an intruder with another secret is refused, and the run goes on
    if "$verbena" server --cluster cluster.json --job worker --task 0 --secret-file wrong.secret --transport $way \
        job.yaml >intruder.log 2>&1; then fail 'the wrong secret was taken'; else code=$?; fi
    [ $code = 5 ] || fail "the wrong secret: exit $code"
    grep -q secret intruder.log || fail 'the refusal does not say why'
    task worker 0 --secret-file job.secret --transport $way --json
    pids="$pids $pid"
    for p in $pids; do
        exit_of "$p" 30
        [ "$code" = 0 ] || fail "a task ended with $code"
    done
    grep -q "$want" worker0.log || fail "other bits than under the launcher"
done

# a task that never starts
sed -i 's/start_timeout: .*/start_timeout: 2/' job.yaml
task ps 0 --secret-file job.secret
pids=$pid
task ps 1 --secret-file job.secret
pids="$pids $pid"
task worker 0 --secret-file job.secret
pids="$pids $pid"
for p in $pids; do
    exit_of "$p" 10
    [ "$code" = 4 ] || fail "worker 1 never started: exit $code"
done
for f in ps0 ps1 worker0; do
    grep -q '/job:worker/task:1' $f.err.log || fail "$f does not name who is missing"
done

# no secret, a secret that others can read
if "$verbena" server --cluster cluster.json --job ps --task 0 job.yaml >none.log 2>&1; then fail 'no secret'; else code=$?; fi
[ $code = 2 ] && [ "$(wc -l <none.log)" = 1 ] && grep -q '/dev/urandom' none.log || fail "without a secret: exit $code"
chmod 644 job.secret
if "$verbena" server --cluster cluster.json --job ps --task 0 --secret-file job.secret job.yaml >open.log 2>&1
then fail 'an open secret'; else code=$?; fi
[ $code = 2 ] && grep -q 'chmod' open.log || fail "a secret that others can read: exit $code"

# --no-auth is explicit, and must be at both ends
sed -i 's/start_timeout: .*/start_timeout: 10/' job.yaml
pids=
for t in 'ps 0' 'ps 1' 'worker 0' 'worker 1'; do
    set -- $t
    task "$1" "$2" --no-auth
    pids="$pids $pid"
done
for p in $pids; do
    exit_of "$p" 30
    [ "$code" = 0 ] || fail "without authentication: exit $code"
done
none_left
echo 'tasks by hand do as under the launcher'
