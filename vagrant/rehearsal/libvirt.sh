#!/bin/sh
# A libvirt daemon apart from the machine it runs on: libvirt.sh DIRECTORY
#
# The first process in namespaces of its own (network, mounts, processes). Whatever the daemon
# makes, bridges, rules, name servers, virtual machines, is in there and gone with this process;
# only files in DIRECTORY stay, for the caller to remove.
set -eu

directory=$1

mount --make-rprivate /
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/dbus /run/lock
# Configuration, machines, disks and logs, as the daemon would keep them.
for top in etc var; do
    mkdir -p "$directory/$top" "$directory/$top.work"
    mount -t overlay -o "lowerdir=/$top,upperdir=$directory/$top,workdir=$directory/$top.work" \
        overlay "/$top"
done
# Network devices as seen from in here. Of control groups the machines need none.
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup

mkdir -p /etc/libvirt
cat >/etc/libvirt/libvirtd.conf <<'END'
unix_sock_group = "root"
auth_unix_ro = "none"
auth_unix_rw = "none"
END
# The daemon asks for the emulators' user even where they are root's, and it exists only where a
# daemon was set up.
id -u libvirt-qemu >/dev/null 2>&1 ||
    useradd --system --no-create-home --shell /usr/sbin/nologin libvirt-qemu
cat >/etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
stdio_handler = "file"
END
dbus-daemon --system --fork --nopidfile
# Not exec: emulators become children of the first process, and the daemon waits until they are
# gone, which somebody else has to see to.
libvirtd &
wait $!
