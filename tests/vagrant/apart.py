"""A daemon of Docker's or libvirt's, or LXC, and its users, in namespaces of their own.

Bridges, packet filter rules, mounts, containers and virtual machines are made in there, and gone
with the first process in there. None of them has the capability to set this machine's clock,
whatever it asks for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CGROUPS = Path("/sys/fs/cgroup")
GROUP = "kraftwreck-vagrant"
CAP_SYS_TIME = 25
BOUND = "-sys_time,-sys_module,-sys_boot,-syslog,-wake_alarm"
START_S = 60.0


class ApartError(Exception):
    """The daemon is refused here; one line says why."""


@dataclass(frozen=True)
class Daemon:
    """A daemon that starts machines: ``script`` of vagrant/rehearsal runs it, and it is ready when
    ``question`` succeeds."""

    name: str
    script: str
    question: tuple[str, ...]
    machines: str = "containers"


DOCKER = Daemon("dockerd", "docker.sh", ("docker", "version"))
LXC = Daemon("lxc", "lxc.sh", ("test", "-e", "/run/ready"))
LIBVIRT = Daemon(
    "libvirtd", "libvirt.sh", ("virsh", "-c", "qemu:///system", "version"), "virtual machines"
)


class Apart:
    """A daemon that keeps its files in ``directory``."""

    def __init__(self, directory: Path, daemon: Daemon) -> None:
        self.directory = directory
        self.group = f"{GROUP}-{os.getpid()}"
        self._daemon = daemon
        self._log = directory / f"{daemon.name}.log"
        self._outer: subprocess.Popen[bytes] | None = None
        self._held: list[int] = []
        self.known: set[str] = set()
        """Network namespaces that :meth:`namespaces` has seen."""
        self.init = 0
        """Process id, out here, of the first process in there."""

    def start(self) -> None:
        """Start the daemon; raises :class:`ApartError` where that is refused."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._outer = subprocess.Popen(
                [
                    "setpriv", "--pdeathsig", "KILL",
                    "unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork",
                    "--mount-proc", "--kill-child=SIGKILL",
                    "setpriv", f"--bounding-set={BOUND}",
                    ROOT / "vagrant/rehearsal" / self._daemon.script, self.directory, self.group,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._outer.poll() is not None or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace").strip().splitlines() or ["no word"]
                self.stop()
                raise ApartError(f"{self._daemon.name} does not start here: {said[-1]}")
            time.sleep(0.2)

    def _answers(self) -> bool:
        assert self._outer is not None
        pid = self._outer.pid
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            self.init = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
            return self.run(self._daemon.question, timeout_s=30).returncode == 0
        return False

    def run(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 300,
        show: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in there, in the project's folder; with ``show`` its messages are seen.

        Its home directory and its temporary files are below ``directory``.
        """
        for name in ("home", "tmp"):
            (self.directory / name).mkdir(exist_ok=True)
        return subprocess.run(
            ["nsenter", f"--target={self.init}", "--net", "--mount", "--uts", "--ipc", "--pid",
             "setpriv", f"--bounding-set={BOUND}", "env", f"--chdir={ROOT}", *command],
            env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                 "HOME": str(self.directory / "home"), "TMPDIR": str(self.directory / "tmp"),
                 **(environment or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=None if show else subprocess.PIPE, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def capabilities(self) -> dict[int, int]:
        """Return the capabilities that each process in there, and its children, may ever have."""
        found = {}
        for pid in self._family():
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                found[pid] = next(int(x.split()[1], 16) for x in lines if x.startswith("CapBnd"))
        return found

    def contained(self) -> dict[int, int]:
        """The same of those only that are in containers, by their network namespaces."""
        ours = networks({self.init})
        return {pid: may for pid, may in self.capabilities().items() if networks({pid}) - ours}

    def _family(self) -> set[int]:
        """The first process and all its descendants: containers are in namespaces of theirs."""
        family: set[int] = set()
        young = {self.init}
        while young:
            family |= young
            children: set[int] = set()
            for pid in young:
                with contextlib.suppress(OSError):
                    for task in Path(f"/proc/{pid}/task").iterdir():
                        children |= {int(x) for x in (task / "children").read_text().split()}
            young = children - family
        return family

    def namespaces(self) -> set[str]:
        """The network namespaces of all that runs in there.

        They are held from now on: the kernel gives the number of one that is gone to the next.
        """
        family = self._family()
        for pid in family:
            with contextlib.suppress(OSError):
                self._held.append(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        self.known |= networks(family)
        return networks(family)

    def stop(self) -> None:
        """End all that runs in there and remove its control groups."""
        if self._outer is not None:
            with contextlib.suppress(ProcessLookupError):
                self._outer.send_signal(signal.SIGKILL)
            self._outer.wait()
            self._outer = None
        deadline = time.monotonic() + START_S
        while left := self.groups():
            for group in left:
                with contextlib.suppress(OSError):  # Its processes are not reaped yet.
                    group.rmdir()
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)

    def groups(self) -> list[Path]:
        """The control groups of the containers, innermost first."""
        return _groups(self.group)


def sweep(build: Path) -> None:
    """Remove what processes left that were killed in the middle: files and empty groups."""
    for directory in build.glob("apart-*"):
        if not Path("/proc", directory.name.rpartition("-")[2]).exists():
            shutil.rmtree(directory, ignore_errors=True)
    for top in [*CGROUPS.glob(f"{GROUP}-*"), *CGROUPS.glob(f"*/{GROUP}-*")]:
        if not Path("/proc", top.name.rpartition("-")[2]).exists():
            for group in _groups(top.name):
                with contextlib.suppress(OSError):
                    group.rmdir()


def _groups(name: str) -> list[Path]:
    tops = [CGROUPS / name, *CGROUPS.glob(f"*/{name}")]
    return [Path(where) for top in tops for where, _, _ in os.walk(top, topdown=False)]


def networks(processes: set[int]) -> set[str]:
    """The network namespaces of processes, but for the one that we are in."""
    found = set()
    for pid in processes:
        with contextlib.suppress(OSError):
            found.add(str(Path(f"/proc/{pid}/ns/net").readlink()))
    return found - {str(Path("/proc/self/ns/net").readlink())}
