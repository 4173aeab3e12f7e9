#!/bin/sh
# Make a root file system of debian.sh with systemd one that starts: systemd.sh ROOT
#
# It is as Debian makes it but for what nobody needs here; emulated, every unit and every second
# login costs seconds.
set -eu

root=$1

cat >"$root/etc/systemd/system/host-key.service" <<'END'
[Unit]
Description=A host key of this machine's own
Before=ssh.service
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key
[Install]
WantedBy=multi-user.target
END
echo 'HostKey /etc/ssh/ssh_host_ed25519_key' >"$root/etc/ssh/sshd_config.d/box.conf"
echo debian12 >"$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 debian12\n' >"$root/etc/hosts"
: >"$root/etc/machine-id"
chroot "$root" systemctl --quiet enable ssh host-key
chroot "$root" systemctl --quiet set-default multi-user.target
chroot "$root" systemctl --quiet mask \
    getty@tty1.service serial-getty@ttyS0.service console-getty.service \
    apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
    systemd-networkd-wait-online.service systemd-journal-flush.service \
    systemd-pstore.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
    systemd-logind.service systemd-random-seed.service systemd-sysusers.service \
    systemd-binfmt.service proc-sys-fs-binfmt_misc.automount sys-kernel-debug.mount \
    sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount \
    dev-hugepages.mount dev-mqueue.mount
rm -rf "$root/var/cache/apt" "$root/var/lib/apt/lists"
mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial"
