"""The process that owns a namespace cluster; when it ends, the whole cluster ends.

There are two processes. The *outer* one watches the lifeline (a pipe whose other end only the
control process holds), the control process itself, and signals. The *inner* one is PID 1 of a PID
namespace and the parent of all hosts. If the outer one dies, the kernel kills the inner one
(PDEATHSIG), with PID 1 every process of the namespace, and with the last process all mounts,
interfaces and rules. Nothing needs to be cleaned up by hand.

Run as ``python -m kraftwreck.harness.clusters.supervisor DIRECTORY LOCK_FD``; DIRECTORY/spec.json
describes the cluster. Prints one JSON line on stdout: ``{"ready": {...}}`` or
``{"error": "..."}``. Standard library only, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from kraftwreck.harness.clusters import cgroups, disk_image, gateway, kernel, machines, rootless
from kraftwreck.harness.clusters.node_root import NodeSpec, become_host
from kraftwreck.harness.clusters.state import ProcessIdentity, State
from kraftwreck.harness.clusters.switch import (
    CONTROL_SUFFIX,
    Subnet,
    claim_subnet,
    connect,
    disconnect,
    ip_batch,
    reconnect,
)
from kraftwreck.harness.clusters.switch import new_network_namespace as new_switch

READY_TIMEOUT_S = 45.0
LINKS_GONE_S = 3.0
"""How long the kernel has to remove the uplink by itself."""
_LISTENING = "Server listening on"


def main(argv: list[str]) -> int:
    """Watch one cluster until its lifeline, its control process or a signal ends it."""
    directory, lock = Path(argv[1]), int(argv[2])
    os.set_inheritable(lock, False)
    try:
        _supervise(directory)
    except Exception as error:
        with contextlib.suppress(OSError):
            _report({"error": f"{type(error).__name__}: {error}"})
        return 1
    finally:
        _wait_for_links(directory)
        cgroups.remove(directory.name)
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _supervise(directory: Path) -> None:
    state = State.read(directory)
    spec = json.loads((directory / "spec.json").read_text())
    if state is None:
        raise ValueError(f"{directory} has no readable state")
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    ends = [wake_read] if state.detached else [wake_read, 0, _watch(state.control)]

    leash_read, leash_write = os.pipe()
    if rootless.needed():
        rootless.enter(kernel.CLONE_NEWPID)
    else:
        kernel.unshare(kernel.CLONE_NEWPID)
    inner = os.fork()
    if inner == 0:
        os.close(leash_write)
        _inner(directory, spec, leash_read)
    os.close(leash_read)
    try:
        state.supervisor = [ProcessIdentity.of(os.getpid()), ProcessIdentity.of(inner)]
        state.write(directory)
        os.write(leash_write, b"b")
        poll = select.poll()
        for fd in (*ends, os.pidfd_open(inner)):
            poll.register(fd, select.POLLIN | select.POLLHUP)
        poll.poll()
    finally:
        os.kill(inner, signal.SIGKILL)
        os.waitpid(inner, 0)


def _watch(process: ProcessIdentity) -> int:
    """Return a handle that becomes readable when the process ends."""
    handle = os.pidfd_open(process.pid)
    if not process.alive():
        raise ProcessLookupError("the control process has ended")
    return handle


def _wait_for_links(directory: Path) -> None:
    """Wait until the uplink is removed, with the bridge's namespace.

    The kernel removes namespaces one after the other, when it has time. The uplink is visible to
    all, so it is deleted explicitly if that takes too long.
    """
    mark = directory / "uplink"
    if not mark.exists():
        return
    link = Path("/sys/class/net") / mark.read_text()
    deadline = time.monotonic() + LINKS_GONE_S
    while link.exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    if link.exists():
        with contextlib.suppress(OSError):
            ip_batch(f"link del {link.name}\n")


def _inner(directory: Path, spec: dict[str, Any], leash: int) -> None:
    """Build the cluster, report, and stay until the leash is released; never returns."""
    try:
        kernel.die_with_parent()
        if not os.read(leash, 1):
            return  # the outer process ended before PDEATHSIG was set
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        try:
            cluster = _build(directory, spec)
            listener = machines.listen(directory)
            if rootless.needed():
                _fork_gateway(directory)
        except OSError as error:
            _report({"error": error.strerror or str(error)})
            os._exit(1)
        _report({"ready": cluster.as_json()})
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        machines.serve(listener, leash, cluster.carry_out)
    finally:
        os._exit(0)


def _report(message: dict[str, Any]) -> None:
    """Send one line to the control process and close the pipe."""
    os.write(1, json.dumps(message).encode() + b"\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _build(directory: Path, spec: dict[str, Any]) -> _Cluster:
    """Create the switch and all hosts. Raises OSError."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc", "proc")
    if rootless.needed():
        # The control node's end of the network is in here, too; see harness.clusters.gateway.
        kernel.unshare(kernel.CLONE_NEWNET)
        ip_batch("link set lo up\n")
    own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    _put_uppers_where_overlayfs_takes_them(directory)
    switch = new_switch()
    subnet = claim_subnet(switch)
    if not rootless.needed():
        (directory / "uplink").write_text(subnet.uplink)
    template, refusal = _disk_template(directory) if spec.get("disks") else (None, "")
    nodes = [_node_spec(node, subnet, spec, directory, template) for node in spec["nodes"]]
    go_read, go_write = os.pipe()
    pids = [_fork_host(node, own_pid_namespace, go_read) for node in nodes]
    connect(subnet, switch, pids)
    os.write(go_write, b"g" * len(nodes))
    for node, pid in zip(nodes, pids, strict=True):
        _wait_for_sshd(node, pid)
    return _Cluster(
        own_pid_namespace, switch, subnet, {node.name: node for node in nodes}, pids, refusal
    )


class _Cluster:
    """The hosts; each can lose power and be booted again."""

    def __init__(
        self,
        own_pid_namespace: int,
        switch: int,
        subnet: Subnet,
        nodes: dict[str, NodeSpec],
        pids: list[int],
        no_disks: str,
    ) -> None:
        self._no_disks = no_disks
        self._own_pid_namespace = own_pid_namespace
        self._switch = switch
        self._subnet = subnet
        self._nodes = nodes
        self._pids: dict[str, int | None] = dict(zip(nodes, pids, strict=True))

    def as_json(self) -> dict[str, Any]:
        """Return subnet and addresses, for the control process."""
        return {
            "subnet": self._subnet.cidr,
            "uplink": self._subnet.uplink,
            "control_ip": self._subnet.control_ip,
            "ips": [node.ip for node in self._nodes.values()],
            "no_disks": self._no_disks,
        }

    def carry_out(self, do: str, name: str) -> dict[str, Any]:
        """Crash or boot a host; return evidence. Raises OSError with one line."""
        if name not in self._nodes:
            raise OSError(f"there is no host {name}")
        pid = self._pids[name]
        if do == "crash":
            if pid is None:
                raise OSError(f"{name} is off already")
            evidence = machines.end(pid, disk=self._nodes[name].disk is not None)
            self._pids[name] = None
            # Child programs that run here meanwhile must be waited for as usual.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                disconnect(self._switch, list(self._nodes).index(name) + 1)
            finally:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            return evidence
        if pid is not None:
            raise OSError(f"{name} runs already")
        return self._boot(name)

    def _boot(self, name: str) -> dict[str, Any]:
        began = time.monotonic()
        node = self._nodes[name]
        _log(node).write_text("")  # It still has the awaited line from the last boot.
        # Child programs that run here meanwhile must be waited for as usual.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            if node.disk is not None:
                disk_image.wait_until_free(node.disk)
            go_read, go_write = os.pipe()
            pid = _fork_host(node, self._own_pid_namespace, go_read)
            reconnect(self._subnet, self._switch, list(self._nodes).index(name) + 1, pid)
            os.write(go_write, b"g")
            _wait_for_sshd(node, pid)
            os.close(go_read)
            os.close(go_write)
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self._pids[name] = pid
        return {"up_after_us": round((time.monotonic() - began) * 1e6)}


def _put_uppers_where_overlayfs_takes_them(directory: Path) -> None:
    """Use a tmpfs for the hosts' writes if the directory's file system does not support them.

    An overlay cannot be the upper layer of another one, as inside most containers.
    """
    if rootless.needed():
        # No overlays there; a tmpfs ends with the cluster in any case.
        nodes = directory / "nodes"
        nodes.mkdir()
        kernel.mount("tmpfs", str(nodes), "tmpfs", 0, "mode=700")
        return
    probe = directory / "probe"
    for name in ("upper", "root"):
        (probe / name).mkdir(parents=True)
    try:
        kernel.mount_overlay(probe / "root", probe / "upper", probe / "work")
    except OSError:
        nodes = directory / "nodes"
        nodes.mkdir()
        kernel.mount("tmpfs", str(nodes), "tmpfs", 0, "mode=700")


def _disk_template(directory: Path) -> tuple[Path | None, str]:
    """Return an empty disk for hosts to copy, or None and the reason why there is none."""
    image, probe = directory / "disk.img", directory / "disk"
    try:
        disk_image.make(image)
        probe.mkdir()
        disk_image.mount_at(image, probe)
        disk_image.unmount(probe)
        disk_image.wait_until_free(image)
    except OSError as error:
        return None, str(error)
    return image, ""


def _fork_gateway(directory: Path) -> None:
    """Fork a process, which ends with this one, that hands out sockets of this network."""
    listener = gateway.listen(directory)
    if os.fork() == 0:
        try:
            gateway.serve(listener)
        finally:
            os._exit(1)
    listener.close()


def _node_spec(
    node: dict[str, Any],
    subnet: Subnet,
    spec: dict[str, Any],
    directory: Path,
    template: Path | None,
) -> NodeSpec:
    home = directory / "nodes" / node["name"]
    disk = None
    if template is not None:
        home.mkdir(parents=True)
        disk = home / "disk.img"
        disk_image.copy(template, disk)
    hosts = ["127.0.0.1 localhost", f"{subnet.ip(CONTROL_SUFFIX)} control"]
    hosts += [f"{subnet.ip(other['node_id'])} {other['name']}" for other in spec["nodes"]]
    return NodeSpec(
        name=node["name"],
        ip=subnet.ip(node["node_id"]),
        directory=home,
        disk=disk,
        host_key=node["host_key"],
        authorized_key=spec["authorized_key"],
        hosts="\n".join(hosts) + "\n",
        cgroups=cgroups.make(directory.name, node["name"]),
    )


def _fork_host(node: NodeSpec, own_pid_namespace: int, go: int) -> int:
    """Fork PID 1 of a new PID namespace into ``become_host``; return its pid in this one."""
    node.directory.mkdir(parents=True, exist_ok=True)
    unshared_read, unshared_write = os.pipe()
    kernel.unshare(kernel.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        try:
            log = os.open(_log(node), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            become_host(node, unshared_write, go)
        except BaseException as error:
            os.write(2, f"kraftwreck: {error}\n".encode())
        finally:
            os._exit(1)
    kernel.setns(own_pid_namespace, kernel.CLONE_NEWPID)
    os.close(unshared_write)
    try:
        if not os.read(unshared_read, 1):
            raise OSError(f"{node.name}: {_last_line(node)}")
    finally:
        os.close(unshared_read)
    return pid


def _wait_for_sshd(node: NodeSpec, pid: int) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while _LISTENING not in _log(node).read_text(errors="replace"):
        if os.waitpid(pid, os.WNOHANG)[0] != 0:
            raise OSError(f"{node.name} ended while starting: {_last_line(node)}")
        if time.monotonic() > deadline:
            raise OSError(f"{node.name}: sshd is not up after {READY_TIMEOUT_S:.0f} s")
        time.sleep(0.003)


def _log(node: NodeSpec) -> Path:
    return node.directory / "log"


def _last_line(node: NodeSpec) -> str:
    lines = _log(node).read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
