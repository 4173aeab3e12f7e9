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

# LXC puts its groups beside that of the first process, where that is "init.scope".
if [ "$groups" = unified ]; then
    top=/sys/fs/cgroup
    mkdir -p "$top/$2/init.scope"
    echo $$ >"$top/$2/init.scope/cgroup.procs"
    for group in "$top" "$top/$2"; do
        for controller in $(cat "$group/cgroup.controllers"); do
            echo "+$controller" >"$group/cgroup.subtree_control" || true
        done
    done
else
    for top in /sys/fs/cgroup/*; do
        mkdir -p "$top/$2/init.scope"
        # Of processors and memory a new group has none, and without them takes nobody.
        for group in "$top/$2" "$top/$2/init.scope"; do
            for what in cpus mems; do
                [ ! -e "$top/cpuset.$what" ] || cat "$top/cpuset.$what" >"$group/cpuset.$what"
            done
        done
        echo $$ >"$top/$2/init.scope/cgroup.procs"
    done
fi

# Whether containers are refused here is known now, and not in the middle of it.
lxc-execute --name trial --rcfile /dev/null --define lxc.net.0.type=empty \
    --define lxc.console.path=none --define lxc.autodev=0 -- /bin/true
: >/run/ready
# Not exec: what outlives its parent becomes a child of the first process, which sees to its end.
sleep infinity &
wait $!
