"""Nodes on hosts: install them, start them, signal them, collect their files.

Controllers come first in the order of hosts, brokers follow them.

Paths on every host: ``/opt/kraftwreck`` (code), ``/etc/kraftwreck`` (configuration),
``/var/lib/kraftwreck/data`` (data directory), ``/var/log/kraftwreck`` (``trace.jsonl``,
``inputs.log``, ``stdout.log``, ``incarnation``, ``images/<label>/``, which go to the run folder).
"""

from __future__ import annotations

import io
import json
import os
import shlex
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kraftwreck.harness.archive import build_archive, with_bytecode
from kraftwreck.harness.capabilities import ClockSetting, Evidence
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.state import control_boot_id
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.service import (
    CODE,
    CONFIG,
    DATA,
    LOGS,
    OTHER_CODE,
    PYTHON,
    libraries,
    service,
)
from kraftwreck.harness.remote.session import Remote, RemoteError, on_all
from kraftwreck.harness.remote.ssh import invoke
from kraftwreck.histories.store import SUMS
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.options import BROKER
from kraftwreck.systems.kraft.remote.settings import Settings, first_voters, properties, roles

RECORDED = ("inputs.log", "trace.jsonl")

START_TIMEOUT_S = 40.0 * PATIENCE
STOP_TIMEOUT_S = 5.0 * PATIENCE
SETTLE_S = 3.0
"""How long deploying waits for pending operations of a killed run on a host."""
_PROVISION_TIMEOUT_S = 60 * PATIENCE
_IMAGE_TIMEOUT_S = 60.0 * PATIENCE


class Deployment:
    """The nodes of one run. Methods raise :class:`RemoteError` with one line."""

    def __init__(self, hosts: Sequence[Host], settings: Settings) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.settings = settings
        self.roles = roles(hosts, settings)
        self.remotes = {name: Remote(host) for name, host in self.hosts.items()}
        self.agents = {name: Agent(remote) for name, remote in self.remotes.items()}
        self._starters = {name: Agent(remote) for name, remote in self.remotes.items()}
        """Agents for operations that take seconds, so that no fault waits for them."""
        own = {"own_clocks": settings.own_clocks, "own_disks": settings.own_disks}
        self.service = service(**own, squeezable=settings.squeezable)
        self._libraries = libraries(**own)
        self._code = {CODE: with_bytecode(build_archive(settings.tree))}
        if settings.other_tree is not None:
            self._code[OTHER_CODE] = with_bytecode(build_archive(settings.other_tree))
        self.first_voters = first_voters(hosts, settings) if settings.dynamic else {}
        self.clock_means: dict[str, str] = {}
        """How wall clocks are changed: ``date`` if a host has its own kernel and clock, otherwise
        ``library``."""
        self._control = control_boot_id()
        self.directories: dict[str, str] = {}
        """The directory id of each controller's current disk, in a dynamic quorum."""

    @property
    def nodes(self) -> list[str]:
        """The names of all nodes, in order of node id."""
        return list(self.hosts)

    @property
    def controllers(self) -> list[str]:
        """The names of the nodes of the quorum, in order of node id."""
        return [name for name, role in self.roles.items() if role != BROKER]

    @property
    def brokers(self) -> list[str]:
        """The names of the nodes that are only brokers."""
        return [name for name, role in self.roles.items() if role == BROKER]

    def address(self, name: str) -> tuple[str, int]:
        """Return the address of the node's controller, or of its broker if it has none."""
        if self.roles[name] == BROKER:
            return self.broker_address(name)
        return self.hosts[name].ip, self.settings.port

    def broker_address(self, name: str) -> tuple[str, int]:
        """Return the address of the node's broker."""
        return self.hosts[name].ip, self.settings.broker_port

    def client(self, name: str, client_id: str, *, broker: bool = False) -> KafkaClient:
        """Return a client of the node's controller, or of its broker if ``broker`` is set."""
        ip, port = self.broker_address(name) if broker else self.address(name)
        return KafkaClient(ip, port, client_id, self.hosts[name].gateway)

    def check_hosts(self) -> int:
        """Check that every host has all it needs; raise an error with what is missing.

        Returns how many hosts to install at once. If hosts share the processors of this machine, a
        small number lets the first nodes start earlier and the last ones no later.
        """
        kernels = on_all(self.nodes, self._check_host).values()
        shared = set(kernels) == {self._control}
        return 1 + (os.cpu_count() or 1) if shared else len(self.nodes)

    def _check_host(self, name: str) -> str:
        """Raise an error with what is missing; return the boot id of the host's kernel."""
        found = self.agents[name].ask("hello")
        if tuple(found["python"]) < (3, 11):
            version = ".".join(map(str, found["python"]))
            raise RemoteError(name, f"{PYTHON} is {version}; 3.11 or newer is required")
        if not found["privileged"]:
            raise RemoteError(name, "commands do not run as root: log in as root or set become")
        for tool, there in found["tools"].items():
            if not there:
                package = {"nft": "nftables"}.get(tool, tool)
                raise RemoteError(name, f"{tool} is missing: apt-get install {package}")
        if self.settings.means:
            self.agents[name].check_network(self.settings.means)
        return str(found["boot_id"])

    def install(self) -> None:
        """Install code and configuration on every host, with empty data and log directories.

        A node still running from an earlier run is ended first.
        """
        self._install_all(self._install)

    def install_and_start(self) -> None:
        """Install, and start every node as soon as its own host is installed.

        An election begins a second or more after a node's start, so early starts save time.
        """
        self._install_all(self._install_and_start)

    def _install_and_start(self, name: str) -> None:
        self._install(name)
        # There is no fault yet that would wait for this agent.
        self._start(self.agents[name], name)

    def _install_all(self, install: Callable[[str], None]) -> None:
        on_all(self.nodes, install, at_once=self.check_hosts())
        if self.settings.own_clocks:
            self._find_clock_means()
        if self.settings.dynamic:
            self.directories |= on_all(self.controllers, self._directory)

    def _find_clock_means(self) -> None:
        def ask(name: str) -> Evidence:
            return self.agents[name].ask("clock_means", control=self._control)

        told = on_all([name for name in self.nodes if self.hosts[name].clock == "machine"], ask)
        boots = Counter(each["boot_id"] for each in told.values())
        for name, each in told.items():
            alone = boots[each["boot_id"]] == 1
            self.clock_means[name] = each["means"] if alone else "library"

    def right_clock(self, name: str) -> Evidence:
        """Correct the host's own clock if it was changed."""
        return self.agents[name].ask("right_date", control=self._control)

    def _directory(self, name: str) -> str:
        return str(self.agents[name].ask("directory", service=self.service)["directory"])

    def _format(self, name: str, *, replaced: bool = False) -> list[str]:
        """Return the command that formats the node's disk; ``replaced``: it is a new disk."""
        command = [PYTHON, CODE, "format", "--config", CONFIG]
        if not self.settings.dynamic or self.roles[name] == BROKER:
            return command
        if replaced or name not in self.first_voters:
            return [*command, "--no-initial-controllers"]
        voters = ",".join(
            f"{self.hosts[voter].node_id}@{self.hosts[voter].ip}:{self.settings.port}:{directory}"
            for voter, directory in self.first_voters.items()
        )
        return [*command, "--initial-controllers", voters]

    def _install(self, name: str) -> None:
        agent, remote = self.agents[name], self.remotes[name]
        # An earlier run may have been killed during an operation on its host.
        agent.ask("settled", wait_s=SETTLE_S)
        agent.ask("stop", service=self.service, wait_s=0.0)
        agent.ask("heal")
        agent.ask("heal_network")
        agent.ask("release", service=self.service)
        self.right_clock(name)
        agent.ask("wipe", paths=[DATA, LOGS, f"{LOGS}/images"])
        lines = properties(self.hosts[name], list(self.hosts.values()), self.settings)
        config = "".join(f"{key}={value}\n" for key, value in lines.items())
        bundle = _tar({CONFIG: config.encode(), **self._code, **self._libraries})
        parcel = f"/tmp/kraftwreck-{name}.tar"  # noqa: S108 - on the host, over our session
        unpack = remote.command(["tar", "-xf", parcel, "-C", "/", "--no-same-owner"])
        connection = remote.fabric()
        try:
            connection.put(io.BytesIO(bundle), parcel)
            connection.run(
                f"{unpack} && rm -f {shlex.quote(parcel)}",
                hide=True,
                in_stream=False,
                timeout=_PROVISION_TIMEOUT_S,
            )
        except (OSError, EOFError, invoke.exceptions.Failure) as failure:
            raise RemoteError(
                name, f"the code could not be installed: {_why(failure)}"
            ) from failure
        agent.ask("format_disk", format=self._format(name), timeout_s=_PROVISION_TIMEOUT_S)
        if self._libraries:
            self._check_libraries(name)

    def _check_libraries(self, name: str) -> None:
        """Reset clocks and disks, and check that the preloaded libraries work on the host."""
        if self.settings.own_clocks:
            self.agents[name].ask("create_clock", service=self.service)
        if self.settings.own_disks:
            self.agents[name].ask("create_disk", service=self.service)
        program = "import sys, time; sys.stdout.write(str(time.monotonic_ns()))"
        env = [f"{key}={value}" for key, value in self.service["env"].items()]
        done = self.remotes[name].run(["env", *env, PYTHON, "-c", program])
        if done.stderr:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1]
            raise RemoteError(name, f"a preloaded library cannot be loaded: {said}")

    def start(self, name: str) -> Evidence:
        """Start the node and wait for its port; do nothing if it runs."""
        return self._start(self._starters[name], name)

    def _start(self, agent: Agent, name: str) -> Evidence:
        ip, port = self.address(name)
        return agent.ask(
            "start",
            timeout_s=START_TIMEOUT_S + 10,
            service=self.service,
            ip=ip,
            port=port,
            wait_s=START_TIMEOUT_S,
        )

    def start_all(self) -> dict[str, Evidence]:
        """Start every node at once."""
        return dict(on_all(self.nodes, self.start))

    def stop(self, name: str, wait_s: float = STOP_TIMEOUT_S) -> Evidence:
        """End the node: SIGTERM, after ``wait_s`` seconds SIGKILL."""
        return self.agents[name].ask("stop", service=self.service, wait_s=wait_s)

    def stop_all(self, wait_s: float = STOP_TIMEOUT_S) -> dict[str, Evidence]:
        """End every node, brokers first, since their shutdown needs a controller."""
        evidence: dict[str, Evidence] = {}
        try:
            evidence |= on_all(self.brokers, self.stop)
        finally:
            evidence |= on_all(self.controllers, lambda name: self.stop(name, wait_s))
        return evidence

    def disconnect(self, name: str) -> None:
        """Close the sessions with a host that has crashed; the next use reconnects."""
        self.remotes[name].close()
        for agent in (self.agents[name], self._starters[name]):
            agent.close()

    def stop_alone(self, name: str) -> Evidence:
        """End the node (SIGTERM) over a separate session, so that no other fault waits for it."""
        wait_s = STOP_TIMEOUT_S + 5
        return self._starters[name].ask("stop", service=self.service, wait_s=wait_s)

    def upgrade(self, name: str) -> Evidence:
        """Switch the node, which is down, to the other code; the evidence has its digest."""
        return self._starters[name].ask(
            "exchange", service=self.service, paths=[CODE, OTHER_CODE], timeout_s=_IMAGE_TIMEOUT_S
        )

    def kill(self, name: str, label: str) -> Evidence:
        """kill -9 the node and keep its data directory as image ``label``."""
        return self.agents[name].ask("kill", service=self.service, label=label)

    def cut_power(self, name: str, label: str) -> Evidence:
        """kill -9 the node, keep image ``label``, and return how much of its log was lost."""
        return self.agents[name].ask("cut_power", service=self.service, label=label)

    def replace_disk(self, name: str) -> Evidence:
        """Give the node, which is down, an empty disk with a new directory id."""
        if not self.settings.dynamic:
            raise RemoteError(
                name, "a new disk would lose votes in a static quorum; add --quorum dynamic"
            )
        argv = self._format(name, replaced=True)
        evidence = self.agents[name].ask("replace_disk", service=self.service, format=argv)
        self.directories[name] = evidence["directory"]
        return evidence

    def pause(self, name: str) -> Evidence:
        """SIGSTOP the node."""
        return self.agents[name].ask("pause", service=self.service)

    def resume(self, name: str) -> Evidence:
        """SIGCONT the node."""
        return self.agents[name].ask("resume", service=self.service)

    def set_clock(self, name: str, setting: ClockSetting) -> Evidence:
        """Set the node's clocks to ``setting``."""
        return self.agents[name].ask(
            "set_clock",
            service=self.service,
            wall_us=setting.wall_us,
            strobe_us=setting.strobe_us,
            rate_ppm=setting.rate_ppm,
            means=self.clock_means.get(name, "library"),
            control=self._control,
        )

    def read_clock(self, name: str) -> tuple[int, int]:
        """Return simultaneous readings of the host's and the node's monotonic clocks, in µs."""
        read = self.agents[name].ask("read_clock", service=self.service)
        return int(read["since_us"]), int(read["mono_us"])

    def ask_disk(self, name: str, do: str, **fields: Any) -> Evidence:
        """Carry out an action of :mod:`harness.on_host.disk` on the node's disk."""
        return self.agents[name].ask(do, service=self.service, **fields)

    def launch(self, name: str) -> Evidence:
        """Start the node without waiting for it."""
        return self.agents[name].ask("launch", service=self.service)

    def squeeze(self, name: str, what: str, amount: int) -> Evidence:
        """Limit a resource of the node's process (:mod:`harness.on_host.squeeze`)."""
        return self.agents[name].ask("squeeze", service=self.service, what=what, amount=amount)

    def release(self, name: str) -> Evidence:
        """Remove the limits of the node's process."""
        return self.agents[name].ask("release", service=self.service)

    def log_ends(self, name: str) -> Evidence:
        """Return the log end that a stopped node last reported, and the one on its disk."""
        return self.agents[name].ask("log_ends", service=self.service)

    def image(self, name: str, label: str) -> Evidence:
        """Keep the node's data directory as image ``label``."""
        return self.agents[name].ask("image", service=self.service, label=label)

    def status(self, name: str) -> Evidence:
        """Return whether the node runs, its pid and state."""
        return self.agents[name].ask("status", service=self.service)

    def clock_offsets(self) -> dict[str, int]:
        """Return every host's monotonic clock minus this machine's, in microseconds."""
        return dict(on_all(self.nodes, lambda name: self.agents[name].clock_offset()))

    def collect(self, run: Path) -> dict[str, int]:
        """Copy each node's recordings to ``run/nodes/<name>/``; return numbers of files.

        The current data directory becomes ``images/final``: stop the nodes first.
        """

        def collect_one(name: str) -> int:
            self.agents[name].ask(
                "image", service=self.service, label="final", timeout_s=_IMAGE_TIMEOUT_S
            )
            target = run / "nodes" / name
            target.mkdir(parents=True, exist_ok=True)
            paths = [f"{LOGS}/{file}" for file in RECORDED]
            sums = self.agents[name].ask("sums", paths=paths)["sums"]
            (target / SUMS).write_text(json.dumps(sums) + "\n")
            return self.remotes[name].get_tree(LOGS, target)

        return dict(on_all(self.nodes, collect_one))

    def close(self) -> None:
        """End all sessions."""
        for agent in (*self.agents.values(), *self._starters.values()):
            agent.close()
        for remote in self.remotes.values():
            remote.close()


def _tar(files: Mapping[str, bytes]) -> bytes:
    """Return a tar of files by absolute path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _why(failure: BaseException) -> str:
    result = getattr(failure, "result", None)
    said = (result.stderr or result.stdout).strip() if result is not None else ""
    return said.splitlines()[-1] if said else f"{failure or type(failure).__name__}"
