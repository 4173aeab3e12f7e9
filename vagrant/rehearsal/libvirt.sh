#!/bin/sh
# A libvirt daemon apart from the machine it runs on: libvirt.sh DIRECTORY
#
# See apart.sh.
set -eu
. "$(dirname "$0")/apart.sh"

# Configuration, machines, disks and logs, as the daemon would keep them.
apart "$1" etc var
mkdir /run/dbus /run/lock
# Of control groups the machines need none.
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
