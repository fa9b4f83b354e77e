# Peers that fall silent without a word: a cable pulled, a process stopped, a host gone while the cable was out.
# Whoever is left ends with code 3 and names who was lost, in time, whatever was on its way; nothing is left.
. "$(dirname "$0")/lib.sh"

if ! unshare --net --mount true 2>/dev/null || ! command -v ip >/dev/null; then
    echo 'no namespaces of our own here (root and iproute2 are needed)'
    exit 77
fi
holders=
trap 'end_all; for p in $holders; do kill -9 $p; done 2>/dev/null; rm -rf "$dir"' EXIT

# host NAME: its process, whose namespaces it is, is $NAME. UCX needs the /sys that shows its devices.
host() {
    setsid unshare --net --mount bash -c 'mount -t sysfs sysfs /sys && ip link set lo up || exit 1
        touch "$0.up"
        exec sleep 300' "$1" </dev/null >"$1.host.log" 2>&1 &
    disown
    eval "$1=$!"
    holders="$holders $!"
    wait_for 5 "host $1" test -e "$1.up"
}

# on HOST COMMAND...
on() {
    nsenter -t "${!1}" --net --mount --wd="$dir" "${@:2}"
}

# pair N: hosts aN and bN, a cable between them
pair() {
    local a=a$1 b=b$1
    host $a
    host $b
    ip link add name eth0 netns ${!a} type veth peer name eth0 netns ${!b}
    on $a ip addr add 10.78.0.1/24 dev eth0
    on $b ip addr add 10.78.0.2/24 dev eth0
    on $a ip link set eth0 up
    on $b ip link set eth0 up
    for h in $a $b; do # the kernel may take a second to say so
        wait_for 5 "eth0 of $h" eval 'on $h grep -q up /sys/class/net/eth0/operstate'
    done
}

# task HOST NAME JOB: in the background, without a shell between it and $!
task() {
    (exec nsenter -t "${!1}" --net --mount --wd="$dir" "$verbena" server --job "$3" --task 0 --json job.yaml \
        --cluster '{"ps":["10.78.0.1:7000"],"worker":["10.78.0.2:7001"]}' >"$2.out" 2>"$2.log") &
}

# train N: a ps on aN, a worker on bN, which do not end by themselves; in $ps and $worker
train() {
    task a$1 ps$1 ps
    ps[$1]=$!
    task b$1 worker$1 worker
    worker[$1]=$!
}

runs() {
    grep -q '"event":"epoch"' "worker$1.out"
}

# lost NAME TASK: its last word
lost() {
    grep -q "lost /job:$2 (silent for" "$1.log" || fail "$1 does not name $2: $(cat "$1.log")"
}

make_data 2000
make_job 'epochs: 100000' 'transport: tcp'
export VB_SECRET=0123456789abcdef0123456789abcdef
declare -a ps worker
for i in 1 2 3; do
    pair $i
    train $i
done
for i in 1 2 3; do wait_for 30 "run $i" runs $i; done

# 1: the cable is pulled
on a1 ip link set eth0 down
# 2: the ps stops; the worker is left
kill -STOP ${ps[2]}
# 3: half open: the worker dies while the cable is out, and the cable comes back
on a3 ip link set eth0 down
kill -9 ${worker[3]}

for p in ${ps[1]} ${worker[1]} ${worker[2]} ${ps[3]}; do
    exit_of $p 25
    [ "$code" = 3 ] || fail "a task ended with $code, not 3"
done
lost ps1 worker/task:0
lost worker1 ps/task:0
lost worker2 ps/task:0
lost ps3 worker/task:0
# who was stopped wakes up to find that the run is over
kill -CONT ${ps[2]}
exit_of ${ps[2]} 10
[ "$code" = 3 ] || fail "the stopped ps ended with $code"
none_left
echo 'silence was noticed and named'
