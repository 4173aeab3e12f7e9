#!/bin/sh
# Make a Debian machine a host: provision.sh NAME ADDRESS [NAME=ADDRESS ...]
# Running it again changes nothing.
set -eu

name=$1
address=$2
shift 2

packages="python3 nftables openssh-server iproute2 procps tar sudo"
missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
if [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    apt-get install -y -qq --no-install-recommends $missing
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "$name: Python 3.11 or newer is needed, use a Debian 12 box" >&2
    exit 1
}

# The control node reads this to learn where the machine is among the others.
mkdir -p /etc/kraftwreck
echo "$address" >/etc/kraftwreck/address

# Debian maps a machine's own name to 127.0.1.1, Vagrant to 127.0.2.1; it must find itself where
# the others do.
# Written in place: in a container the file is a mount and cannot be replaced.
hosts=$(sed -e '/^127\.0\.[12]\.1[[:space:]]/d' -e '/# kraftwreck$/d' /etc/hosts)
{
    printf '%s\n' "$hosts"
    for pair in "$@"; do
        echo "${pair#*=} ${pair%%=*} # kraftwreck"
    done
} >/etc/hosts

# Many sessions at once come from one control node.
mkdir -p /etc/ssh/sshd_config.d
cat >/etc/ssh/sshd_config.d/kraftwreck.conf <<END
UseDNS no
MaxSessions 100
MaxStartups 100:30:200
END
[ -f /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
if [ -d /run/systemd/system ]; then
    systemctl is-enabled --quiet ssh || systemctl enable --quiet ssh
    systemctl reload-or-restart ssh
    # Clocks that are put wrong stay wrong, until they are healed.
    if systemctl is-enabled --quiet systemd-timesyncd 2>/dev/null; then
        systemctl disable --quiet --now systemd-timesyncd
    fi
fi
