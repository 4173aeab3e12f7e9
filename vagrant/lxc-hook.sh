#!/bin/sh
# What LXC runs for every container: lxc-hook.sh BRIDGE ADDRESS/BITS CONTAINER lxc MOMENT
set -eu

bridge=$1
address=$2

case $5 in
pre-start)
    # Another container may be at it at the same time.
    ip link add dev "$bridge" type bridge 2>/dev/null || ip link show dev "$bridge" >/dev/null
    ip addr replace "$address" dev "$bridge"
    ip link set dev "$bridge" up
    ;;
mount)
    # vagrant-lxc lets every container see, and delete, what this machine's kernel said as it fell.
    dumps=$LXC_ROOTFS_MOUNT/sys/fs/pstore
    if mountpoint -q "$dumps"; then umount "$dumps"; fi
    ;;
post-stop)
    # The last one takes it away.
    [ -n "$(ip -o link show master "$bridge")" ] || ip link delete dev "$bridge" type bridge
    ;;
esac
