"""Nodes on hosts: what the deployment of any server does, and what is of their own.

Controllers come first in the order of hosts, brokers follow them. Their own are the code as one zip
file, disks that are formatted, directory ids, upgrades, clocks of machines, and recordings.

Paths on every host: ``/opt/kraftwreck`` (code), ``/etc/kraftwreck`` (configuration),
``/var/lib/kraftwreck/data`` (data directory), ``/var/log/kraftwreck/main`` (``trace.jsonl``,
``inputs.log``, ``stdout.log``, ``incarnation``) and ``/var/log/kraftwreck-images/main``, which go
to the run folder.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kraftwreck.harness.archive import build_archive, with_bytecode
from kraftwreck.harness.capabilities import ClockSetting, Evidence
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.state import control_boot_id
from kraftwreck.harness.deploy.declaration import Place
from kraftwreck.harness.deploy.deployment import PlainDeployment
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.remote.session import RemoteError, on_all
from kraftwreck.histories.store import SUMS
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.options import BROKER, CONTROLLER
from kraftwreck.systems.kraft.remote.settings import (
    CODE,
    CONFIG,
    LOGS,
    OTHER_CODE,
    PYTHON,
    Settings,
    first_voters,
    process,
    roles,
)

RECORDED = ("inputs.log", "trace.jsonl")
STOP_TIMEOUT_S = 5.0 * PATIENCE
_FORMAT_TIMEOUT_S = 60 * PATIENCE
_IMAGE_TIMEOUT_S = 60.0 * PATIENCE


class Deployment(PlainDeployment):
    """The nodes of one run. Methods raise :class:`RemoteError` with one line."""

    def __init__(self, hosts: Sequence[Host], settings: Settings) -> None:
        self.settings = settings
        self.roles = roles(hosts, settings)
        code = {CODE: with_bytecode(build_archive(settings.tree))}
        if settings.other_tree is not None:
            code[OTHER_CODE] = with_bytecode(build_archive(settings.other_tree))
        super().__init__(
            hosts,
            {host.name: Place.of(host, self.roles[host.name]) for host in hosts},
            {host.name: (process(host, hosts, settings, code),) for host in hosts},
            (),
            squeezable=settings.squeezable,
            own_clocks=settings.own_clocks,
            own_disks=settings.own_disks,
        )
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

    @property
    def serving(self) -> list[str]:
        """The names of the nodes that have a broker."""
        return [name for name, role in self.roles.items() if role != CONTROLLER]

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

    # --- installing -----------------------------------------------------------------------

    def install(self) -> None:
        super().install()
        self._learn()

    def install_and_start(self) -> None:
        """Install, and start every node as soon as its own host is installed.

        An election begins a second or more after a node's start, so early starts save time.
        """
        super().install_and_start()
        self._learn()

    def _learn(self) -> None:
        """Learn what only installed hosts know: means of clocks, and directory ids."""
        if self.settings.own_clocks:
            self._find_clock_means()
        if self.settings.dynamic:
            self.directories |= on_all(self.controllers, self._directory)

    def _check_host(self, name: str) -> Evidence:
        found = super()._check_host(name)
        if tuple(found["python"]) < (3, 11):
            version = ".".join(map(str, found["python"]))
            raise RemoteError(name, f"{PYTHON} is {version}; 3.11 or newer is required")
        if self.settings.means:
            self.agents[name].check_network(self.settings.means)
        return found

    def _install(self, host: str) -> None:
        super()._install(host)
        self.agents[host].ask("format_disk", format=self._format(host), timeout_s=_FORMAT_TIMEOUT_S)

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

    def _directory(self, name: str) -> str:
        return str(self.ask(name, "directory")["directory"])

    # --- processes and disks --------------------------------------------------------------

    def stop_all(self, wait_s: float | None = STOP_TIMEOUT_S) -> None:
        """End every node, brokers first, since their shutdown needs a controller."""
        try:
            on_all(self.brokers, lambda name: self._stop(name, self.agents, STOP_TIMEOUT_S))
        finally:
            on_all(self.controllers, lambda name: self._stop(name, self.agents, wait_s))

    def upgrade(self, name: str) -> Evidence:
        """Switch the node, which is down, to the other code; the evidence has its digest."""
        return self._slow[name].ask(
            "exchange", paths=[CODE, OTHER_CODE], timeout_s=_IMAGE_TIMEOUT_S
        )

    def cut_power(self, name: str, label: str) -> Evidence:
        """kill -9 the node, keep image ``label``, and return how much of its log was lost."""
        return self.ask(name, "cut_power", label=label)

    def log_ends(self, name: str) -> Evidence:
        """Return the log end that a stopped node last reported, and the one on its disk."""
        return self.ask(name, "log_ends")

    def replace_disk(self, name: str) -> Evidence:
        """Give the node, which is down, an empty disk with a new directory id."""
        if not self.settings.dynamic:
            raise RemoteError(
                name, "a new disk would lose votes in a static quorum; add --quorum dynamic"
            )
        evidence = self.ask(name, "replace_disk", format=self._format(name, replaced=True))
        self.directories[name] = evidence["directory"]
        return evidence

    # --- clocks ---------------------------------------------------------------------------

    def _find_clock_means(self) -> None:
        def ask(name: str) -> Evidence:
            return self.agents[name].ask("clock_means", control=self._control)

        told = on_all([name for name in self.nodes if self.hosts[name].clock == "machine"], ask)
        boots = Counter(each["boot_id"] for each in told.values())
        for name, each in told.items():
            alone = boots[each["boot_id"]] == 1
            self.clock_means[name] = each["means"] if alone else "library"

    def right_clock(self, host: str) -> Evidence:
        """Do nothing: samples of a node's own clock date its trace, so only faults set it."""
        return {}

    def set_clock(self, name: str, setting: ClockSetting) -> Evidence:
        """Set the node's clocks to ``setting``."""
        return self.ask(
            name,
            "set_clock",
            wall_us=setting.wall_us,
            strobe_us=setting.strobe_us,
            rate_ppm=setting.rate_ppm,
            means=self.clock_means.get(name, "library"),
            control=self._control,
        )

    def read_clock(self, name: str) -> tuple[int, int]:
        """Return simultaneous readings of the host's and the node's monotonic clocks, in µs."""
        read = self.ask(name, "read_clock")
        return int(read["since_us"]), int(read["mono_us"])

    # --- files ----------------------------------------------------------------------------

    def _collect_host(self, host: str, target: Path) -> None:
        """Copy a node's recordings. Its data directory becomes ``images/final``: it is stopped."""
        self.image(host, "final", _IMAGE_TIMEOUT_S)
        target.mkdir(parents=True, exist_ok=True)
        paths = [f"{LOGS}/{file}" for file in RECORDED]
        sums = self.agents[host].ask("sums", paths=paths)["sums"]
        (target / SUMS).write_text(json.dumps(sums) + "\n")
        super()._collect_host(host, target)
