"""Hosts as network namespaces on this machine: the default provider.

Each host has its own network, mounts, host name, IPC, process ids and sshd. It has a copy-on-write
view of this machine's root and a limited set of capabilities; see
:mod:`harness.clusters.node_root`. In :mod:`harness.clusters.supervisor` is the process that owns
the hosts, and the reason why nothing of them can stay behind.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kraftwreck.harness.archive import IMPORT_ROOT
from kraftwreck.harness.clusters import cgroups, machines, rootless
from kraftwreck.harness.clusters import state as states
from kraftwreck.harness.clusters.cluster import (
    ClusterError,
    ClusterUnavailable,
    FirstUse,
    Host,
    node_names,
)
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.clusters.keys import new_key_pair
from kraftwreck.harness.clusters.state import ProcessIdentity, State
from kraftwreck.harness.clusters.switch import MAX_NODES
from kraftwreck.harness.remote import ssh
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS

_TOOLS = {
    "ip": "iproute2",
    "nft": "nftables",
    "/usr/sbin/sshd": "openssh-server",
    "/usr/bin/python3": "python3",
    "unshare": "util-linux",
}
"""The programs that the provider calls, and the Debian packages that contain them."""

_UP_TIMEOUT_S = 90.0
_DOWN_TIMEOUT_S = 30.0


def probe() -> None:
    """Raise :class:`ClusterUnavailable`, one line, if this machine does not support namespaces."""
    if sys.platform != "linux":
        raise ClusterUnavailable(f"namespace hosts need Linux; this is {sys.platform}")
    if (lacks := ssh.missing()) is not None:
        raise ClusterUnavailable(lacks)
    for tool, package in _TOOLS.items():
        if shutil.which(tool, path=rootless.search_path()) is None:
            raise ClusterUnavailable(f"{Path(tool).name} is missing: apt-get install {package}")
    if rootless.needed():
        refused = rootless.examine()["refused"]
        if refused:
            raise ClusterUnavailable(f"a plain user's namespaces are refused here: {refused}")
        return
    flags = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork"]
    attempt = subprocess.run(["unshare", *flags, "true"], capture_output=True, text=True)
    if attempt.returncode != 0:
        raise ClusterUnavailable(f"namespaces are refused here: {attempt.stderr.strip()}")
    if Path("/usr/bin").stat().st_dev != Path("/").stat().st_dev:
        raise ClusterUnavailable("/usr is a separate file system, which hosts would not see")


class NetnsCluster:
    """``nodes`` hosts ``n1``, ``n2`` …, which end with this process unless ``detached``.

    With ``disks`` nodes keep their data on a separate disk, which loses power when a host crashes:
    data that was not fsynced is lost. If that is impossible, :attr:`no_disks` gives the reason.
    """

    name = "netns"

    def __init__(self, nodes: int = 5, *, detached: bool = False, disks: bool = False) -> None:
        if not 1 <= nodes <= MAX_NODES:
            raise ClusterError(f"{nodes} hosts requested; give 1 to {MAX_NODES}", BAD_ARGUMENTS)
        self.nodes = nodes
        self.detached = detached
        self.disks = disks
        self.no_disks = ""
        """Why hosts have no separate disks although they were requested."""
        self.directory: Path | None = None
        self.control_ip = ""
        self.hosts: list[Host] = []
        self._supervisor: subprocess.Popen[bytes] | None = None

    def up(self) -> list[Host]:
        """Build the cluster and return its hosts.

        Raises :class:`ClusterUnavailable` if this machine refuses; then nothing stays behind.
        """
        if self.directory is not None:
            raise ClusterError("the cluster is up already")
        probe()
        states.sweep()
        identifier = f"{int(time.time())}-{secrets.token_hex(3)}"
        self.directory, lock = states.create(identifier)
        try:
            self._start(identifier, lock)
        except BaseException:
            self.down()
            raise
        finally:
            os.close(lock)
        return list(self.hosts)

    def _start(self, identifier: str, lock: int) -> None:
        assert self.directory is not None
        own = ProcessIdentity.of(os.getpid())
        state = State(identifier, states.boot_id(), self.detached, own)
        state.write(self.directory)
        client_key, client_public = new_key_pair()
        key_file = self.directory / "id_ed25519"
        key_file.touch(mode=0o600)
        key_file.write_text(client_key)
        names = node_names(self.nodes)
        pairs = [new_key_pair() for _ in names]
        spec = {
            "authorized_key": client_public,
            "disks": self.disks,
            "nodes": [
                {"name": name, "node_id": node_id, "host_key": private}
                for node_id, (name, (private, _)) in enumerate(zip(names, pairs, strict=True), 1)
            ],
        }
        spec_file = self.directory / "spec.json"
        spec_file.touch(mode=0o600)
        spec_file.write_text(json.dumps(spec))

        ready = self._spawn_and_wait(lock)
        self.control_ip = ready["control_ip"]
        self.no_disks = ready["no_disks"]
        first_use = FirstUse()
        self.hosts = [
            Host(
                name=name,
                node_id=node_id,
                ip=ip,
                host_key=public,
                key=key_file,
                user=rootless.USER if rootless.needed() else "root",
                gateway=self.directory if rootless.needed() else None,
                first_use=first_use,
            )
            for node_id, (name, ip, (_, public)) in enumerate(
                zip(names, ready["ips"], pairs, strict=True), start=1
            )
        ]
        # The supervisor wrote its process ids before it reported; keep them.
        state = State.read(self.directory) or state
        state.subnet, state.uplink = ready["subnet"], ready["uplink"]
        state.hosts = [host.as_json() for host in self.hosts]
        state.write(self.directory)

    def _spawn_and_wait(self, lock: int) -> dict[str, Any]:
        """Start the supervisor and return its message when the hosts are up."""
        assert self.directory is not None
        with (self.directory / "supervisor.log").open("wb") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-S", "-m", "kraftwreck.harness.clusters.supervisor",
                 str(self.directory), str(lock)],
                # The pipe's write end is the lifeline: it closes when this process dies.
                stdin=subprocess.DEVNULL if self.detached else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env={"PATH": rootless.search_path(),
                     "PYTHONPATH": str(IMPORT_ROOT)},
                pass_fds=[lock],
                start_new_session=True,
            )  # fmt: skip
        assert self._supervisor.stdout is not None
        # Not select(2), which takes no descriptor above 1023: this process may have many files.
        poll = select.poll()
        poll.register(self._supervisor.stdout, select.POLLIN)
        readable = poll.poll(_UP_TIMEOUT_S * 1000)
        line = self._supervisor.stdout.readline() if readable else b""
        self._supervisor.stdout.close()
        if not line:
            reason = "no answer in time" if not readable else self._last_log_line()
            raise ClusterError(f"the namespace hosts did not come up: {reason}")
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise ClusterUnavailable(f"namespace hosts are refused here: {message['error']}")
        ready: dict[str, Any] = message["ready"]
        return ready

    def _last_log_line(self) -> str:
        assert self.directory is not None
        try:
            lines = (self.directory / "supervisor.log").read_text().strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "its supervisor ended without a message"

    def crash(self, name: str) -> dict[str, Any]:
        """Cut a host's power: all of its processes and its network end."""
        return self._ask("crash", name)

    def boot(self, name: str) -> dict[str, Any]:
        """Boot a crashed host; it keeps its files except for /run and /tmp."""
        return self._ask("boot", name)

    def _ask(self, do: str, name: str) -> dict[str, Any]:
        if self.directory is None:
            raise ClusterError("the cluster is not up")
        try:
            return machines.ask(self.directory, do, name)
        except machines.MachineError as error:
            raise ClusterError(str(error)) from error

    def heal(self) -> dict[str, dict[str, object]]:
        """Undo all drops and pauses on the hosts."""
        return heal_hosts(self.hosts)

    def down(self) -> None:
        """End every process of the cluster and wait until everything is removed."""
        if self.directory is None:
            return
        directory, self.directory, self.hosts = self.directory, None, []
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            if supervisor.stdin is not None:
                supervisor.stdin.close()
            else:
                supervisor.terminate()
            try:
                supervisor.wait(timeout=_DOWN_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                supervisor.kill()
                supervisor.wait()
        cgroups.remove(directory.name)
        shutil.rmtree(directory, ignore_errors=True)
