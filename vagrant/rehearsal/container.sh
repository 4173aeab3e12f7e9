#!/bin/sh
# Make a box for LXC, a Debian with systemd, out of Debian's packages: container.sh TARGET.box
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=$1

# In memory: the root file system is unpacked only to be packed again.
scratch=$(mktemp -d "${TMPDIR:-/dev/shm}/kraftwreck-container.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' TERM INT HUP
box=$scratch/box
mkdir "$box"

TMPDIR=$scratch "$here/debian.sh" systemd-sysv --customize-hook="$here/systemd.sh" \
    bookworm "$scratch/root.tar"
gzip -1 <"$scratch/root.tar" >"$box/rootfs.tar.gz"
rm "$scratch/root.tar"

# Every name in there begins with "./" and nothing else.
cat >"$box/metadata.json" <<'END'
{"provider": "lxc", "version": "1.0.0", "template-opts": {"--strip-components": "1"}}
END
# Devices, terminals and system calls as LXC has them for every container.
echo 'lxc.include = /usr/share/lxc/config/common.conf' >"$box/lxc-config"
tar -cf "$scratch/done.box" -C "$box" .
mv "$scratch/done.box" "$target"
