#!/bin/sh
# A place for LXC's containers apart from the machine it is on: lxc.sh DIRECTORY CGROUP
#
# LXC has no daemon: this is nothing but the first process, whom everything in there becomes a
# child of. Control groups of the containers are below CGROUP. See apart.sh.
set -eu
. "$(dirname "$0")/apart.sh"

# Containers and their logs.
apart "$1" var
control_groups

# LXC puts its groups beside that of the first process, which it takes for "init.scope".
for top in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -e "$top/cgroup.procs" ] || continue
    mkdir -p "$top/$2/init.scope"
    if [ -e "$top/cpuset.cpus" ]; then
        for inner in "$2" "$2/init.scope"; do
            cat "$top/cpuset.cpus" >"$top/$inner/cpuset.cpus"
            cat "$top/cpuset.mems" >"$top/$inner/cpuset.mems"
        done
    fi
    echo $$ >"$top/$2/init.scope/cgroup.procs"
    if [ -e "$top/cgroup.controllers" ]; then
        for controller in $(cat "$top/$2/cgroup.controllers"); do
            echo "+$controller" >"$top/$2/cgroup.subtree_control"
        done
    fi
done

# Whether containers are refused here is known now, and not in the middle of it.
lxc-execute --name trial --rcfile /dev/null --define lxc.net.0.type=empty \
    --define lxc.console.path=none --define lxc.autodev=0 -- /bin/true
: >/run/ready
# Not exec: what outlives its parent becomes a child of the first process, which sees to its end.
sleep infinity &
wait $!
