#!/bin/sh
# Make a root file system of Debian 12 with the user vagrant, from the archive that this machine's
# apt is set up with and nothing else: debian.sh MORE,PACKAGES [MMDEBSTRAP OPTION ...] TARGET
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
packages=$(sed -n 's/^packages="\(.*\)"$/\1/p' "$here/provision.sh" | tr ' ' ',')${1:+,$1}
shift

sources=$(
    # shellcheck disable=SC2016  # apt's variables
    apt-get indextargets --format '$(LABEL) $(REPO_URI) $(CODENAME) $(COMPONENT)' \
        'Created-By: Packages' |
        awk '$1 ~ /^Debian(-Security)?$/ && $3 ~ /^bookworm/ && $4 == "main" \
            { print "deb", $2, $3, $4 }' | sort -u
)
[ -n "$sources" ] || {
    echo "apt on this machine knows no Debian 12: apt-get update, or add it to its sources" >&2
    exit 1
}

KEY=$(cat "$here/docker/vagrant.pub")
export KEY
# The caller's options last, so that its hooks see the rest done.
# shellcheck disable=SC2016  # mmdebstrap's shell knows $1, the new root directory
echo "$sources" | mmdebstrap --quiet --variant=minbase --include="$packages" \
    --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --customize-hook='chroot "$1" useradd --create-home --shell /bin/bash vagrant' \
    --customize-hook='echo "vagrant ALL=(ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/vagrant"' \
    --customize-hook='mkdir -m 700 "$1/home/vagrant/.ssh"' \
    --customize-hook='echo "$KEY" >"$1/home/vagrant/.ssh/authorized_keys"' \
    --customize-hook='chmod 600 "$1/home/vagrant/.ssh/authorized_keys"' \
    --customize-hook='chroot "$1" chown -R vagrant:vagrant /home/vagrant/.ssh' \
    --customize-hook='rm -f "$1"/etc/ssh/ssh_host_*' \
    "$@" -
