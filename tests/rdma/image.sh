#!/bin/bash
# image.sh DIR: makes DIR/vmlinuz and DIR/initrd: Debian's own kernel, and an initial file system that shows
# the guest this machine's root, read-only, under a layer of its own, gives it Soft-RoCE, and runs
# OUT/jobN there. Ends with 77 and the reason where the kernel cannot be had.
set -euo pipefail
dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# what the kernel needs for its disk (9p over virtio), its network and RDMA over it
modules='virtio_pci virtio_net 9p 9pnet_virtio overlay crc32_generic ib_uverbs rdma_ucm rdma_rxe'

package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
[ -n "$package" ] || { echo 'skipped: apt knows no linux-image-amd64' >&2; exit 77; }
(cd "$work" && apt-get download -q "$package" >/dev/null 2>&1) ||
    { echo "skipped: $package cannot be downloaded" >&2; exit 77; }
dpkg-deb -x "$work"/linux-image-*.deb "$work/kernel"
version=$(ls "$work/kernel/lib/modules")
depmod -b "$work/kernel" "$version"

root=$work/initrd
mkdir -p "$root"/{bin,proc,sys,dev,host,layer,new} "$root/lib/modules/$version"
cp /bin/busybox "$root/bin/"
for name in $modules; do
    modprobe -d "$work/kernel" -S "$version" --show-depends "$name"
done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
    install -D "$file" "$root/${file#"$work/kernel/"}"
done
cp "$work/kernel/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$version/"
depmod -b "$root" "$version"

cat >"$root/init" <<EOF
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for name in $modules; do modprobe \$name; done
options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o \$options,ro,cache=loose root /host
mount -t tmpfs tmpfs /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /new
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/shm /new/dev/pts /new/mnt
mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t 9p -o \$options out /new/mnt
ip link set lo up
host=\$(sed 's/.*verbena.host=\([0-9]*\).*/\1/' /proc/cmdline)
chroot /new /bin/bash /mnt/job\$host
echo \$? >/new/mnt/code\$host
sync
poweroff -f
EOF
chmod +x "$root/init"
mkdir -p "$dir"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$dir/initrd.part"
cp "$work/kernel/boot/vmlinuz-$version" "$dir/vmlinuz"
mv "$dir/initrd.part" "$dir/initrd"
