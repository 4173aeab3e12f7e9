"""Turn a new process into a host: its root file system, devices, network and sshd.

It runs as PID 1 of a new PID namespace, forked by the supervisor, and finally executes sshd.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from kraftwreck.harness.clusters import disk_image, plain_root, rootless
from kraftwreck.harness.clusters.kernel import (
    CAPABILITIES,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    bound_capabilities,
    die_with_parent,
    hold_capabilities,
    mount,
    mount_overlay,
    pivot_root,
    unshare,
)

KEPT_CAPABILITIES = frozenset({
    "chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
    "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
    "sys_chroot", "sys_ptrace", "sys_nice", "sys_resource", "lease", "audit_write", "setfcap",
})  # fmt: skip
"""The capabilities of root on a host. Not sys_time: hosts share the machine's clock, and would set
it for all. Not sys_admin: it could remount /proc/sys writable. Not mknod, rawio, module or boot:
hosts must not touch the machine's disks and kernel."""

SSHD_CONFIG = """\
Port 22
ListenAddress {ip}
HostKey /etc/ssh/kraftwreck/host_key
AuthorizedKeysFile /etc/ssh/kraftwreck/authorized_keys
PermitRootLogin prohibit-password
SetEnv PATH={path}
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
PidFile none
PrintMotd no
MaxStartups 100:30:200
MaxSessions 200
Subsystem sftp internal-sftp
"""

CGROUPS = "/run/kraftwreck-cgroups"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_READ_ONLY = ("/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The description of one host; ``host_key`` is its private key (OpenSSH text), ``hosts`` its
    /etc/hosts.

    ``cgroups`` are its control groups by subsystem; it sees them below :data:`CGROUPS`. ``disk``
    is the image of the disk for the nodes' data, None for a directory of the machine.
    """

    name: str
    ip: str
    directory: Path
    host_key: str
    authorized_key: str
    hosts: str
    cgroups: dict[str, Path] = field(default_factory=dict)
    disk: Path | None = None


def become_host(spec: NodeSpec, unshared: int, connected: int) -> None:
    """Become the host and run sshd; never returns.

    Writes a byte to the pipe ``unshared`` when its namespaces exist, and waits for a byte on
    ``connected``, which is sent when eth0 exists. Raises :class:`OSError`.
    """
    die_with_parent()
    os.setsid()
    # Signals that the supervisor ignores must not be ignored by the host's programs.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)
    os.write(unshared, b"u")
    _build_root(spec)
    socket.sethostname(spec.name)
    os.read(connected, 1)
    _bring_network_up(spec.ip)
    # Last: from here on /proc/sys is read-only, except for the host's own network.
    for path in _READ_ONLY:
        if Path(path).exists():
            _bind(path, path, MS_RDONLY)
    _bind("/proc/sys/net", "/proc/sys/net", 0)
    bound_capabilities(KEPT_CAPABILITIES)
    if rootless.needed():
        hold_capabilities({CAPABILITIES[name] for name in KEPT_CAPABILITIES})
    os.execve(  # noqa: S606 - a fixed argument vector, no shell
        "/usr/sbin/sshd",
        ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/kraftwreck/sshd_config"],
        {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8"},
    )


def _bind(source: str, target: str, flags: int) -> None:
    """Bind-mount; flags take effect only in a second, remounting call (mount(2))."""
    mount(source, target, "", MS_BIND)
    mount("none", target, "", MS_REMOUNT | MS_BIND | flags)


def _build_root(spec: NodeSpec) -> None:
    """Give the process a private, copy-on-write view of the machine's root."""
    root = spec.directory / "root"
    upper, work = spec.directory / "upper", spec.directory / "work"
    for path in (root, upper):
        path.mkdir(exist_ok=True)
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    if rootless.needed():
        plain_root.build(root)
    else:
        mount_overlay(root, upper, work)
    if spec.disk is not None:
        here = root / disk_image.MOUNT.removeprefix("/")
        here.mkdir(parents=True, exist_ok=True)
        disk_image.mount_at(spec.disk, here)
    mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("sysfs", f"{root}/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    _build_devices(root)
    for name, mode in (("run", "755"), ("tmp", "1777"), ("root", "700")):
        mount("tmpfs", f"{root}/{name}", "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
    (root / "run/sshd").mkdir(mode=0o755)
    for subsystem, group in spec.cgroups.items():
        here = root / CGROUPS.removeprefix("/") / subsystem
        here.mkdir(parents=True)
        mount(str(group), str(here), "", MS_BIND)
    _write_identity(root, spec)
    old = root / ".machine"
    old.mkdir(exist_ok=True)
    pivot_root(str(root), str(old))


def _build_devices(root: Path) -> None:
    dev = root / "dev"
    mount("tmpfs", str(dev), "tmpfs", MS_NOSUID, "mode=755")
    for name in _DEVICES:
        (dev / name).touch()
        mount(f"/dev/{name}", str(dev / name), "", MS_BIND)
    # The host delays its packets with it; a tun device belongs to its network namespace.
    if Path("/dev/net/tun").exists():
        (dev / "net").mkdir()
        (dev / "net/tun").touch()
        mount("/dev/net/tun", str(dev / "net/tun"), "", MS_BIND)
    (dev / "pts").mkdir()
    mount("devpts", str(dev / "pts"), "devpts", 0, _pty_options())
    (dev / "shm").mkdir()
    mount("tmpfs", str(dev / "shm"), "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    for link, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        (dev / link).symlink_to(target)


def _pty_options() -> str:
    """Return the mount options of devpts; only root can assign terminals to the tty group."""
    return "newinstance,ptmxmode=0666,mode=620" + ("" if rootless.needed() else ",gid=5")


def _write_identity(root: Path, spec: NodeSpec) -> None:
    """Write name, addresses and SSH keys into the private root."""
    (root / "etc/hostname").write_text(spec.name + "\n")
    (root / "etc/hosts").write_text(spec.hosts)
    ssh = root / "etc/ssh/kraftwreck"
    ssh.mkdir(parents=True, exist_ok=True)
    (ssh / "authorized_keys").write_text(spec.authorized_key + "\n")
    (ssh / "sshd_config").write_text(SSHD_CONFIG.format(ip=spec.ip, path=_PATH))
    (ssh / "host_key").touch(mode=0o600)
    (ssh / "host_key").write_text(spec.host_key)
    # Without PAM, sshd rejects an account whose password field starts with "!".
    shadow = root / "etc/shadow"
    if shadow.exists():
        shadow.write_text(re.sub(r"(?m)^root:!+[^:]*:", "root:*:", shadow.read_text()))


def _bring_network_up(ip: str) -> None:
    """Configure lo and eth0 for IPv4 only, so that drops by IPv4 source catch every packet."""
    disable = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
    if disable.exists():
        disable.write_text("1")
    commands = f"link set lo up\naddr add {ip}/24 dev eth0\nlink set eth0 up\n"
    subprocess.run(
        ["ip", "-batch", "-"], input=commands, text=True, check=True, env={"PATH": _PATH}
    )
