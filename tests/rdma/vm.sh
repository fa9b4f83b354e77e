#!/bin/bash
# Runs a command under a kernel that has RDMA: Debian's, in qemu (emulated, no KVM), with Soft-RoCE on its
# only network device: rxe0 on eth0, 192.168.77.N.
#
#   vm.sh [-n N] [-p PORT] [-o DIR] [-t SECONDS] [-e NAME=VALUE]... -- COMMAND [ARGUMENT...]
#
#   -n N        which host this is: 1 (the default) or 2
#   -p PORT     both are on one network: UDP over PORT and PORT + 1 of this machine
#   -o DIR      the guest's $OUT, two may share one; nothing else that it writes stays
#   -t SECONDS  no longer than that (300); then the code is 124
#
# The guest sees this machine's files, read-only under a layer of its own, and starts in the same folder. The
# exit code is the command's, or 77 with the reason where no such machine can be made.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/verbena-vm/$(sha256sum <"$here/image.sh" | cut -c 1-12)
host=1 port= out= limit=300 settings=
while getopts n:p:o:t:e: option; do
    case $option in
    n) host=$OPTARG ;;
    p) port=$OPTARG ;;
    o) out=$OPTARG ;;
    t) limit=$OPTARG ;;
    e) settings+=$(printf 'export %q\n_' "$OPTARG") && settings=${settings%_} ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '5,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }

for need in qemu-system-x86_64 busybox cpio depmod; do
    command -v $need >/dev/null || { echo "skipped: $need is not installed" >&2; exit 77; }
done
mkdir -p "$cache"
(
    flock 9
    [ -s "$cache/initrd" ] || "$here/image.sh" "$cache"
) 9>"$cache/lock"

own=
[ -n "$out" ] || { out=$(mktemp -d) && own=$out; }
trap '[ -z "$own" ] || rm -rf "$own"' EXIT
mkdir -p "$out"
rm -f "$out/code$host"
{
    echo 'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root OUT=/mnt'
    echo "ip addr add 192.168.77.$host/24 dev eth0; ip link set eth0 up"
    echo "hostname vm$host; ulimit -l unlimited; rdma link add rxe0 type rxe netdev eth0"
    # the kernel adds the GIDs a while later
    echo 'for _ in $(seq 100); do'
    printf '    grep -qs ffff:c0a8:4d%02x /sys/class/infiniband/rxe0/ports/1/gids/* && break\n    sleep .1\ndone\n' "$host"
    printf '%s' "$settings"
    printf 'cd %q\n' "$PWD"
    printf '%q ' "$@"
    echo
} >"$out/job$host"

network=user,id=net,restrict=on
if [ -n "$port" ]; then
    here_port=$((port + host - 1)) there_port=$((port + 2 - host))
    network=socket,id=net,udp=127.0.0.1:$there_port,localaddr=127.0.0.1:$here_port
fi
code=0
timeout "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2560 \
    -nographic -no-reboot -kernel "$cache/vmlinuz" -initrd "$cache/initrd" \
    -append 'console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off verbena.host='"$host" \
    -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=root,mount_tag=root \
    -fsdev "local,id=out,path=$out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out \
    -netdev "$network" -device "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:77:0$host" </dev/null 2>&1 |
    sed -u -e 's/\r//g' -e 's/\x1b[c\[][0-9;?=]*[a-zA-Z]\?//g' -e '/^SeaBIOS (/d' \
        -e '/reboot: Power down/d' -e 's/^Booting from ROM\.*//' -e '/^ *$/d' || code=$?
[ ! -s "$out/code$host" ] || code=$(cat "$out/code$host")
rm -f "$out/code$host" "$out/job$host"
exit "$code"
