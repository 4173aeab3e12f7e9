#!/bin/sh
# A Docker daemon apart from the machine it runs on: apart.sh DIRECTORY CGROUP
#
# The first process in namespaces of its own (network, mounts, processes). Whatever the daemon
# makes, bridges, rules, mounts, containers, is in there and gone with this process; only files
# in DIRECTORY and empty control groups called CGROUP stay, for the caller to remove.
set -eu

directory=$1
group=$2

mount --make-rprivate /
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run
# The daemon leaves a key in /etc/docker.
mkdir -p "$directory/etc" "$directory/work" "$directory/docker"
mount -t overlay -o "lowerdir=/etc,upperdir=$directory/etc,workdir=$directory/work" overlay /etc

# Network devices as seen from in here; the control groups are the machine's.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t sysfs sysfs /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
    controllers=$(awk '$1 !~ /^#/ && $4 == 1 { print $1 }' /proc/cgroups)
    mount -t sysfs sysfs /sys
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    for controller in $controllers; do
        mkdir "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" 2>/dev/null ||
            rmdir "/sys/fs/cgroup/$controller"
    done
fi

exec dockerd --host unix:///run/docker.sock --data-root "$directory/docker" \
    --exec-root /run/docker --pidfile /run/docker.pid --exec-opt native.cgroupdriver=cgroupfs \
    --cgroup-parent "/$group" --bip 172.31.253.1/24
