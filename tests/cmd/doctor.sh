#!/bin/bash
# verbena doctor: each line says ok, warn or fail with what to do, and the exit code counts the fails.
# Usage: doctor.sh VERBENA
set -eu
verbena=$1
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
failed=0
unset "${!VB_@}" TF_CONFIG

# doctor CODE COMMAND...: runs it, its stdout is then in $dir/1; only a wrong command line writes to stderr
doctor()
{
    local code=$1 got=0
    shift
    timeout 30 "$@" >"$dir/1" 2>"$dir/2" </dev/null || got=$?
    if [ $got != "$code" ] || { [ "$code" != 2 ] && [ -s "$dir/2" ]; }; then
        printf 'FAILED: %s\n  exit code %s, wanted %s\n' "$*" $got "$code"
        sed 's/^/  /' "$dir/1" "$dir/2"
        failed=1
    fi
}

# line PATTERN: some line is like that; none PATTERN: none is
line()
{
    grep -qE -- "$1" "$dir/1" && return
    echo "FAILED: no line '$1' in"
    sed 's/^/  /' "$dir/1"
    failed=1
}
none()
{
    grep -E -- "$1" "$dir/1" || return 0
    echo "FAILED: there is a line '$1'"
    failed=1
}

doctor 0 "$verbena" doctor
for check in sys memlock memory pages cpus clock unix device ucx; do
    line "^(ok  |warn)  $check "
done
none '^fail'
[ -e /sys/class/infiniband ] || line '^ok    rdma    no RDMA device: links to other hosts use TCP'

doctor 0 taskset -c 0 "$verbena" doctor
[ "$(nproc)" = 1 ] || line '^warn  cpus    1 of [0-9]+ CPUs may be used here: 0; fix: '

# a small limit is nobody's trouble where there is no RDMA device
limited=(prlimit --memlock=65536:65536)
if [ "$(id -u)" = 0 ]; then
    limited+=(setpriv --reuid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
    cp "$verbena" "$dir/verbena" && chmod 755 "$dir" "$dir/verbena"
    doctor 0 "${limited[@]}" "$dir/verbena" doctor
else
    doctor 0 "${limited[@]}" "$verbena" doctor
fi
if [ ! -e /sys/class/infiniband ]; then
    line '^ok    memlock locked memory: limit 64 KiB; only RDMA needs more'
    none '^fail|error'
    doctor 6 "$verbena" doctor --require-rdma
    line '^fail  rdma    --require-rdma: no RDMA device here; fix: '
fi

cat >"$dir/lines.py" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert len(lines) >= 9, lines
for line in lines:
    assert list(line) == ["check", "status", "text", "fix"], line
    assert all(isinstance(value, str) for value in line.values()), line
    assert line["status"] in ("ok", "warn", "fail"), line
    assert line["status"] != "fail" or line["fix"], line
PYTHON
doctor 0 "$verbena" doctor --json 127.0.0.1:1
python3 "$dir/lines.py" <"$dir/1" || failed=1

# nobody there yet is no failure; a wrong name is
doctor 0 "$verbena" doctor 127.0.0.1:1
line '^warn  port    127.0.0.1:1: reached, nobody listens there yet; fix: '
line '^ok    route   127.0.0.1:1: 127.0.0.1 is loopback'
doctor 0 "$verbena" doctor --cluster '{"ps":["127.0.0.1:1"],"worker":["127.0.0.1:2"]}'
line '^warn  port    127.0.0.1:2: reached'
doctor 0 env TF_CONFIG='{"ps":["127.0.0.1:3"],"worker":["127.0.0.1:2"]}' "$verbena" doctor
line '^warn  port    127.0.0.1:3: reached'
doctor 1 "$verbena" doctor nobody.invalid:1
line '^fail  route   nobody.invalid:1: .*; fix: '
doctor 1 "$verbena" doctor --net-devices eht0
line "^fail  device  --net-devices: no device 'eht0' here; there are .*lo"
doctor 0 "$verbena" doctor --net-devices '^nowhere0'

for wrong in host host:0 host:99999 fd00::1:80 --jsno --timeout-s=0 '--net-devices=,' --cluster=/nowhere \
    '--cluster={}'; do
    doctor 2 "$verbena" doctor "$wrong"
    [ "$(wc -l <"$dir/2")" = 1 ] && [ ! -s "$dir/1" ] || { echo "FAILED: $wrong is not one line" && failed=1; }
done

# hosts of our own: without a network; with a peer, a bridge, and an address that nobody has
if ! unshare -n true 2>/dev/null; then
    echo 'no network namespaces here: those checks are left out'
    exit $failed
fi
alone='mount -t sysfs sysfs /sys && exec "$0" doctor "$@"'
doctor 0 unshare -nm sh -c "$alone" "$verbena"
line '^warn  device  no network device but loopback is up'
doctor 1 unshare -nm sh -c "$alone" "$verbena" 10.77.0.1:80 '[fd77::1]:80'
line '^fail  route   10.77.0.1:80: no route'
line '^fail  route   \[fd77::1\]:80: no route'
doctor 0 unshare -n "$verbena" doctor
line '^warn  sys     /sys shows the devices of another network namespace'

# the peer end of a veth has no namespace of its own to be in: its address is asked of a neighbour
# that never answers
pair='mount -t sysfs sysfs /sys
    ip link set lo up
    ip link add eth0 type veth peer name far0 && ip link set far0 up && ip link set eth0 up
    ip addr add 10.77.0.2/24 dev eth0
    ip -6 addr add fd77::2/64 dev eth0 nodad
    ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0
    exec "$0" doctor "$@"'
doctor 1 unshare -nm sh -ec "$pair" "$verbena" --timeout-s 1 10.77.0.9:80 10.77.0.2:80 '[fd77::2]:80' 172.17.0.1:80
line '^ok    device  eth0: up, MTU 1500, .*10.77.0.2/24, fd77::2/64'
line '^ok    route   10.77.0.9:80: to 10.77.0.9 over eth0 from 10.77.0.2, MTU 1500'
line '^fail  port    10.77.0.9:80: (Connection timed out|No route to host); fix: '
line '^ok    route   10.77.0.2:80: 10.77.0.2 is this host'
line '^ok    route   \[fd77::2\]:80: fd77::2 is this host'
line "^warn  route   172.17.0.1:80: 172.17.0.1 is this host's bridge docker0"
line '^warn  port    10.77.0.2:80: reached'
doctor 1 unshare -nm sh -ec "$pair" "$verbena" --timeout-s 1 --net-devices ^eth0 10.77.0.9:80
line '^warn  route   10.77.0.9:80: the route to 10.77.0.9 is over eth0, which --net-devices leaves out'
exit $failed
