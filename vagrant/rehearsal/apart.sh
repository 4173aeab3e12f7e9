# shellcheck shell=sh
# What a rehearsal's daemon has apart from the machine it runs on; read by the scripts beside it.
#
# Each of them becomes the first process in namespaces of its own (network, mounts, processes).
# Whatever is made in there, bridges, rules, mounts, containers, virtual machines, is gone with that
# process; only files in its directory and empty control groups stay, for the caller to remove.

# apart DIRECTORY TOP ...: what changes below /TOP is kept in DIRECTORY.
apart() {
    directory=$1
    shift
    mount --make-rprivate /
    ip link set lo up
    mount -t tmpfs -o mode=755 tmpfs /run
    for top in "$@"; do
        mkdir -p "$directory/$top" "$directory/$top.work"
        mount -t overlay -o "lowerdir=/$top,upperdir=$directory/$top,workdir=$directory/$top.work" \
            overlay "/$top"
    done
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        groups=unified
    else
        groups=$(awk '$1 !~ /^#/ && $4 == 1 { print $1 }' /proc/cgroups)
        [ ! -d /sys/fs/cgroup/systemd ] || groups="$groups name=systemd"
    fi
    # Network devices as seen from in here.
    mount -t sysfs sysfs /sys
}

# control_groups: the machine's, of which no containers can do without.
control_groups() {
    if [ "$groups" = unified ]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        return
    fi
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    for controller in $groups; do
        mkdir "/sys/fs/cgroup/${controller#name=}"
        mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/${controller#name=}" 2>/dev/null ||
            rmdir "/sys/fs/cgroup/${controller#name=}"
    done
}
