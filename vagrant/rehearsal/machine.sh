#!/bin/sh
# Make a box of a whole machine for libvirt, with a kernel of its own, out of Debian's packages:
# machine.sh TARGET.box
#
# Kernel and initial file system lie beside the disk and are given to the emulator: no boot loader
# is needed, and none of the time that one takes. The box is a real Debian with systemd but for
# what nobody needs here; emulated, every unit and every second login costs seconds.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$1

# In memory: the root file system is some 400 MB, and is read back at once.
scratch=$(mktemp -d "${TMPDIR:-/dev/shm}/kraftwreck-machine.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' TERM INT HUP
root=$scratch/root
box=$scratch/box
mkdir "$box"

# INITRD is for the kernel's package: ours is made below. timesyncd is there because most machines
# have it: provision.sh must stop it.
INITRD=No TMPDIR=$scratch "$here/debian.sh" \
    linux-image-cloud-amd64,systemd-sysv,systemd-timesyncd,dbus,udev,kmod,busybox-static \
    bookworm "$root"

version=$(ls "$root/lib/modules")
cp "$root/boot/vmlinuz-$version" "$box/vmlinuz"

# The initial file system: busybox and the modules without which there is neither disk nor network.
first=$scratch/first
mkdir -p "$first/bin" "$first/dev" "$first/root"
cp "$root/bin/busybox" "$first/bin/"
for module in virtio_pci virtio_blk virtio_net crc32c_generic ext4; do
    chroot "$root" modprobe --set-version "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$scratch/modules"
while read -r file; do
    cp "$root/$file" "$first/"
    echo "${file##*/}"
done <"$scratch/modules" >"$first/modules"
cat >"$first/init" <<'END'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do
    /bin/busybox insmod "/$module"
done </modules
/bin/busybox mount -t ext4 /dev/vda /root || exec /bin/busybox poweroff -f
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
END
chmod 755 "$first/init"
(cd "$first" && find . | "$first/bin/busybox" cpio -o -H newc 2>/dev/null) >"$box/initrd"

# The first interface is Vagrant's own; what it adds, it sets up itself.
cat >"$root/etc/systemd/network/eth0.network" <<'END'
[Match]
Name=eth0
[Network]
DHCP=ipv4
LinkLocalAddressing=no
END
chroot "$root" systemctl --quiet enable systemd-networkd
"$here/systemd.sh" "$root"
rm -rf "$root/boot"

mke2fs -q -t ext4 -m 0 -O '^metadata_csum' -d "$root" "$scratch/disk.raw" 2G >/dev/null
rm -rf "$root"
qemu-img convert -f raw -O qcow2 -c -o compression_type=zstd "$scratch/disk.raw" "$box/box.img"

echo '{"provider": "libvirt", "format": "qcow2", "virtual_size": 2}' >"$box/metadata.json"
cp "$here/machine.rb" "$box/Vagrantfile"
tar -cf "$scratch/done.box" -C "$box" .
mv "$scratch/done.box" "$target"
