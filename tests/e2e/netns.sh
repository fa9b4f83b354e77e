# Hosts of our own: namespaces with cables between them. Training between hosts, over IPv4 and IPv6, gives the
# bits of one host; each link says its way, device, addresses and why it is not faster; which devices data uses.
. "$(dirname "$0")/lib.sh"

if ! unshare --net --uts --ipc --mount --pid --fork true 2>/dev/null || ! command -v tc >/dev/null; then
    echo 'no namespaces of our own here (root and iproute2 are needed)'
    exit 77
fi
holders=
trap 'end_all; for p in $holders; do kill -9 $p; done 2>/dev/null; rm -rf "$dir"' EXIT

# host NAME: $dir/NAME.pid is the process whose namespaces it is. They end with it.
host() {
    printf '127.0.0.1 localhost\n' >"$1.hosts"
    setsid unshare --net --uts --ipc --mount --pid --fork --kill-child bash -c '
        read -r pid _ </proc/self/stat
        mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /dev/shm
        mount --bind "$1.hosts" /etc/hosts && hostname "$1" && ip link set lo up || exit 1
        echo "$pid" >"$1.new" && mv "$1.new" "$1.pid"
        exec sleep 300' holder "$1" </dev/null >"$1.host.log" 2>&1 &
    disown
    holders="$holders $!"
    wait_for 5 "host $1" test -e "$1.pid"
}

on() {
    local name=$1
    shift
    nsenter -t "$(cat "$name.pid")" --net --uts --ipc --mount --pid --wd="$PWD" "$@"
}

# cable A B DEVICE ADDRESS-A ADDRESS-B [OPTION]
cable() {
    ip link add name "$3" netns "$(cat "$1.pid")" type veth peer name "$3" netns "$(cat "$2.pid")"
    on "$1" ip addr add "$4" dev "$3" ${6:-}
    on "$2" ip addr add "$5" dev "$3" ${6:-}
    on "$1" ip link set "$3" up
    on "$2" ip link set "$3" up
    for h in $1 $2; do # the kernel may take a second to say so
        wait_for 5 "$3 of $h" eval 'on $h grep -q up /sys/class/net/'"$3"'/operstate'
    done
}

# task HOST JOB I [OPTIONS...]: in the background; its process is added to $pids.
task() {
    on "$1" env VB_SECRET=0123456789abcdef0123456789abcdef "$verbena" server --cluster "$cluster" --job "$2" --task "$3" \
        --json "${@:4}" job.yaml >"$2$3.out" 2>"$2$3.log" &
    pids="$pids $!"
}

# all_end CODE: every task ends with it.
all_end() {
    for p in $pids; do
        exit_of "$p" 20
        [ "$code" = "$1" ] || fail "$what: a task ended with $code, not $1"
    done
    pids=
}

# says FILE TEXT...: all of them in one line of a task's output.
says() {
    local lines
    lines=$(cat "$1")
    for text in "${@:2}"; do
        lines=$(grep -F -- "$text" <<<"$lines") || fail "$what: $1 has no line with $text: $(cat "$1")"
    done
}

make_data 500
make_job 'epochs: 1' 'start_timeout: 15'
pids=
host a
host b
cable a b eth0 10.77.0.1/24 10.77.0.2/24
cable a b eth1 10.77.1.1/24 10.77.1.2/24
for h in a b; do # as where containers run: the same on every host
    on $h ip link add docker0 type bridge
    on $h ip addr add 172.17.0.1/16 dev docker0
    on $h ip link set docker0 up
done
one='{"ps":["10.77.0.1:7000"],"worker":["10.77.0.2:7001"]}'

what='two tasks on each of two hosts'
want=$("$verbena" train job.yaml --json --ps 2 --workers 2 | grep -o '"params_crc32c":"[0-9a-f]*"')
cluster='{"ps":["10.77.0.1:7000","10.77.0.2:7000"],"worker":["10.77.0.1:7001","10.77.0.2:7001"]}'
task a ps 0; task b ps 1; task a worker 0; task b worker 1
all_end 0
says worker0.out '"event":"done"' "$want"
says worker0.out '"peer":"/job:ps/task:0"' '"way":"map"'
says worker0.out '"peer":"/job:ps/task:1"' '"way":"tcp"' '"device":"eth0"' '"local":"10.77.0.1:' '"remote":"10.77.0.2:' \
    '"mtu":1500' '"rails":[{"name":"eth0","sent_bytes":' '"why":"no RDMA device on /job:'
says worker1.out '"peer":"/job:ps/task:0"' '"way":"tcp"' '"local":"10.77.0.2:' '"remote":"10.77.0.1:'

# pair [OPTIONS...]: one ps on a, one worker on b, links only
pair() {
    task a ps 0 --links-only "$@"
    task b worker 0 --links-only "$@"
}

cluster=$one
for list in eth1 10.77.1.0/24 '^eth0,^docker0'; do
    what="the ClusterSpec on one network, data by --net-devices $list"
    pair --net-devices "$list"
    all_end 0
    says worker0.out '"way":"tcp"' '"device":"eth1"' '"local":"10.77.1.2:' '"remote":"10.77.1.1:'
done

# rail DEVICE: what of one link's messages worker 0 sent over it
rail() {
    sed -n 's/.*"rails":\[\(.*\)\],"why.*/\1/p' worker0.out | grep -o "\"name\":\"$1\",\"sent_bytes\":[0-9]*" | sed 's/.*://'
}

what='two devices share the load by their speeds'
single=$("$verbena" train job.yaml --json --ps 1 --workers 1 | grep -o '"params_crc32c":"[0-9a-f]*"')
for h in a b; do
    on $h tc qdisc add dev eth0 root tbf rate 400mbit burst 128kb latency 20ms
    on $h tc qdisc add dev eth1 root tbf rate 100mbit burst 128kb latency 20ms
done
task a ps 0 --net-devices eth0,eth1
task b worker 0 --net-devices eth0,eth1
all_end 0
says worker0.out '"event":"done"' "$single"
fast=$(rail eth0) slow=$(rail eth1)
[ "${slow:-0}" -gt 0 ] && [ "$fast" -gt $((slow * 3 / 2)) ] || fail "$what: $fast and $slow bytes"
for h in a b; do
    for d in eth0 eth1; do on $h tc qdisc del dev $d root; done
done

what='one of two devices is down'
on a ip link set eth1 down
task a ps 0 --net-devices eth0,eth1
task b worker 0 --net-devices eth0,eth1
all_end 0
says worker0.out '"event":"done"' "$single"
says ps0.log 'eth1 carries no rail' 'down'
says worker0.out '"rails":[{"name":"eth0"' '}],"why"'
on a ip link set eth1 up

what='a device that is not there'
if on a "$verbena" train --net-devices eth7 job.yaml >wrong.log 2>&1; then fail "$what: taken"; else code=$?; fi
[ $code = 2 ] && [ "$(wc -l <wrong.log)" = 1 ] || fail "$what: exit $code"
says wrong.log eth7 'eth1 (10.77.1.1' docker0

what='a bridge that both hosts have'
pair --net-devices docker0
all_end 1
for f in ps0 worker0; do
    says $f.log '/job:worker/task:0' '/job:ps/task:0' '172.17.0.1, which is an address of this host too'
done

what='RDMA is required'
pair --require-rdma
all_end 6
for f in ps0 worker0; do
    says $f.log 'no RDMA between /job:' 'no RDMA device on /job:'
done

what='an RDMA device that may not be used'
for h in a b; do # in /sys, but nothing of it in /dev
    on $h bash -c 'net=$(readlink -f /sys/class/net/eth0) && mkdir -p "$0" && mount -t tmpfs tmpfs "$0" && cd "$0" &&
        port=infiniband/rdma9/ports/1 && mkdir -p net $port/gids $port/gid_attrs/ndevs infiniband/rdma9/device/net/eth0 &&
        mkdir -p infiniband_verbs/uverbs0 && echo rdma9 >infiniband_verbs/uverbs0/ibdev &&
        ln -s "$net" net/eth0 && echo "4: ACTIVE" >$port/state && echo Ethernet >$port/link_layer &&
        echo eth0 >$port/gid_attrs/ndevs/0 && mount --bind "$0" /sys/class' "$dir/sys"
done
pair
all_end 0
says worker0.out '"way":"tcp"' '"why":"/job:' 'rdma9' '/dev/infiniband'
pair --require-rdma
all_end 6
says worker0.log 'no RDMA between /job:' '/dev/infiniband'

what='a name that is loopback on its own host'
printf '127.0.1.1 a\n10.77.0.2 b\n' >>a.hosts
printf '10.77.0.1 a\n127.0.1.1 b\n' >>b.hosts
cluster='{"ps":["10.77.0.1:7000"],"worker":["b:7001"]}'
pair
all_end 0
says worker0.out '"local":"10.77.0.2:' '"remote":"10.77.0.1:'
cluster='{"ps":["a:7000"],"worker":["10.77.0.2:7001"]}'
pair --start-timeout 2
all_end 4
says ps0.log 'a is 127.0.1.1 here, where no other host reaches /job:ps/task:0'

what='hosts with IPv6 alone'
host c
host d
cable c d eth0 fd00::1/64 fd00::2/64 nodad
printf 'fd00::1 c\n192.0.2.9 c\n' >>d.hosts
cluster='{"ps":["[fd00::1]:7000"],"worker":["[fd00::2]:7001"]}'
want=$("$verbena" train job.yaml --json | grep -o '"params_crc32c":"[0-9a-f]*"')
task c ps 0; task d worker 0
all_end 0
says worker0.out '"event":"done"' "$want"
says worker0.out '"way":"tcp"' '"device":"eth0"' '"local":"[fd00::2]:' '"remote":"[fd00::1]:'
cluster='{"ps":["c:7000"],"worker":["d:7001"]}' # a name with addresses of both kinds
printf 'fd00::1 c\n' >>c.hosts
printf 'fd00::2 d\n' >>d.hosts
task c ps 0 --links-only; task d worker 0 --links-only
all_end 0
cluster='{"ps":["fd00::1:7000"],"worker":["fd00::2"]}'
task c ps 0
all_end 2
says ps0.log 'IPv6 needs brackets: [fd00::1]:2222'
none_left
echo 'hosts are linked by the way that there is, and say so'
