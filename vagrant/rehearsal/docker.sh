#!/bin/sh
# A Docker daemon apart from the machine it runs on: docker.sh DIRECTORY CGROUP
#
# Its control groups are below CGROUP. See apart.sh.
set -eu
. "$(dirname "$0")/apart.sh"

# The daemon leaves a key in /etc/docker.
apart "$1" etc
control_groups

exec dockerd --host unix:///run/docker.sock --data-root "$1/docker" \
    --exec-root /run/docker --pidfile /run/docker.pid --exec-opt native.cgroupdriver=cgroupfs \
    --cgroup-parent "/$2" --bip 172.31.253.1/24
