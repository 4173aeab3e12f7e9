"""A plain server as a system under test: artefacts, command lines, ready checks, a client.

An adapter is a subclass of :class:`PlainSystem` with a few methods; everything else (hosts,
deployment, faults, limits, files) is done here and in the other modules of this package.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kraftwreck.harness.capabilities import CLOCKS, Capability, Environment
from kraftwreck.harness.client import Client
from kraftwreck.harness.clusters.cluster import Host, Machines
from kraftwreck.harness.deploy.artefacts import Artefact
from kraftwreck.harness.deploy.cache import ArtefactCache
from kraftwreck.harness.deploy.clients import (
    CLIENT_TIMEOUT_S,
    GuardedConnection,
    NodeClient,
    NodesInTurn,
)
from kraftwreck.harness.deploy.declaration import Place, Process
from kraftwreck.harness.deploy.deployment import PlainDeployment
from kraftwreck.harness.deploy.environment import (
    LACKING,
    NO_CLOCK,
    OFFERED,
    PlainEnvironment,
)
from kraftwreck.harness.deploy.line_clients import HelperPrograms
from kraftwreck.harness.inspection import Inspection
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.workload import ClientSetting, Speaking, Workload
from kraftwreck.histories.members import Member

_POLL_S = 0.1


class PlainSystem(ABC):
    """A system of ordinary processes (:class:`~harness.system.System`).

    Attributes that an adapter sets:

    - ``name``, ``about``: for ``kraftwreck list``
    - ``workloads``, ``default_workload``: workloads whose operations its client understands
    - ``own_workloads``: workloads of this system alone, by names that other systems may use, too
    - ``checkers``: checkers of every run, besides those of the workload
    - ``verbs``: the operations that its client understands
    - ``unsupported``: more fault families that make no sense, with the reason of each
    - ``preloads``: whether its programs use the C library of the host, so that ``-n clock`` works
    - ``helper``: the command of a helper program that is the client, in any language
    - ``options``: options of its own (``--option NAME=VALUE``) with the values of each, the default
      first; one without listed values takes any text, "" by default
    """

    name: str
    about: str
    default_workload: str
    workloads: Sequence[str]
    own_workloads: Mapping[str, Workload] = {}
    checkers: Sequence[str] = ()
    verbs: Sequence[str] = ()
    unsupported: Mapping[str, str] = {}
    preloads: bool = False
    helper: Sequence[str] = ()
    options: Mapping[str, Sequence[str]] = {}
    client_timeout_s: float = CLIENT_TIMEOUT_S
    """How long an operation may take before its client is given up."""
    _given: Mapping[str, str] = {}

    @abstractmethod
    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        """Return the processes of the host at ``place``; ``places`` are all hosts in order."""

    def artefacts(self) -> Sequence[Artefact]:
        """Return the artefacts that hosts get below :meth:`Place.artefact`."""
        return ()

    def roles(self, count: int) -> Sequence[str]:
        """Return the role of each of ``count`` hosts, in order."""
        return ("node",) * count

    def addressed(self, places: Sequence[Place]) -> Sequence[Place]:
        """Return the nodes that clients use, in turn; all by default."""
        return places

    def client(self, place: Place) -> NodeClient:
        """Open a client of the node at ``place``.

        An OSError means that the node was not reached. Not used by a system with a ``helper``.
        """
        raise RuntimeError(f"the system {self.name} has neither a client nor a helper program")

    def unready(self, places: Sequence[Place]) -> str:
        """Return why the system as a whole does not serve clients yet, "" if it does.

        Called once all processes are ready, again and again until it is "".
        """
        return ""

    def leader(self, places: Sequence[Place]) -> str | None:
        """Return the host that leads, None if unknown; it must answer within a second."""
        return None

    def inspect(self, place: Place) -> Member | None:
        """Return the state of the node at ``place`` and its position, by its own account.

        Called after the final operations, several times, from other threads. With the checker
        ``members``, nodes at equal positions must have equal states; None is not compared. Any
        exception is recorded: the node is then not compared, and the verdict unknown.
        """
        return None

    def option(self, name: str) -> str:
        """Return the value of the option ``name`` in this run: the given one, else the default.

        Raises KeyError for a name that ``options`` does not have.
        """
        known = self.options[name]
        return self._given.get(name, known[0] if known else "")

    # --- for the harness ------------------------------------------------------------------

    @property
    def offers(self) -> Sequence[Capability[Any]]:
        """The capabilities that faults may use."""
        return (*OFFERED, CLOCKS) if self.preloads else OFFERED

    def lacking(self, options: RunOptions) -> Mapping[str, str]:
        """Return the capabilities and features that this system lacks, and why."""
        clocks = {} if self.preloads else {CLOCKS.name: NO_CLOCK}
        return {**LACKING, **clocks, **self.unsupported}

    def configured(self, given: Sequence[str]) -> PlainSystem:
        """Return this system with options of its own, each ``NAME=VALUE``.

        Raises :class:`~harness.options.OptionError`, one line, for an unknown name or value.
        """
        chosen: dict[str, str] = {}
        for text in given:
            name, equals, value = text.partition("=")
            known = self.options.get(name)
            if not equals:
                raise OptionError(f"--option {text!r} must be NAME=VALUE")
            if known is None:
                names = ", ".join(sorted(self.options)) or "none"
                raise OptionError(f"{self.name} has no option {name!r}; its options: {names}")
            if name in chosen:
                raise OptionError(f"--option {name} is given twice")
            if known and value not in known:
                raise OptionError(f"--option {text}: {name} must be one of {', '.join(known)}")
            chosen[name] = value
        system = copy.copy(self)
        system._given = chosen
        return system

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch all artefacts, before any host is up; ``say`` prints a line for people."""
        ArtefactCache(say=say).fetch_all(self.artefacts())

    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> PlainDeployed:
        """Install everything on ``hosts``; :meth:`PlainDeployed.ready` starts the processes."""
        fetched = ArtefactCache().fetch_all(self.artefacts())
        if self.helper and any(host.gateway for host in hosts):
            raise OptionError(
                f"clients of {self.name} are helper programs, which cannot reach the hosts of a"
                " plain user: run as root, or use -c vagrant or hosts:FILE"
            )
        roles = self.roles(len(hosts))
        if len(roles) != len(hosts):
            raise OptionError(f"{self.name} has {len(roles)} roles for {len(hosts)} hosts")
        places = [Place.of(host, role) for host, role in zip(hosts, roles, strict=True)]
        declared = {place.name: tuple(self.processes(place, places)) for place in places}
        deployment = PlainDeployment(
            hosts,
            {place.name: place for place in places},
            declared,
            fetched,
            squeezable="squeeze" in options.faults,
            own_clocks="clock" in options.faults and self.preloads,
        )
        try:
            deployment.install()
        except BaseException:
            deployment.close()
            raise
        return PlainDeployed(self, deployment, places, options.seed)

    def describe(self, nodes: Path) -> Mapping[str, Any]:
        """Return what identifies each artefact."""
        return {each.name: list(each.identity()) for each in self.artefacts()}

    def source_files(self) -> list[str]:
        """Return the adapter's source files, which errors name."""
        modules = (sys.modules.get(each.__module__) for each in type(self).__mro__)
        files = [getattr(module, "__file__", None) for module in modules if module is not None]
        return [file for file in files if file and file != __file__]


class PlainDeployed:
    """A plain system on its hosts (:class:`~harness.system.Deployed`)."""

    def __init__(
        self,
        system: PlainSystem,
        deployment: PlainDeployment,
        places: Sequence[Place],
        seed: int,
    ) -> None:
        self.deployment = deployment
        self._system = system
        self._places = tuple(places)
        named = {place.name: place for place in self._places}
        self._inspection = Inspection(list(named), lambda name: system.inspect(named[name]))
        self._environment = PlainEnvironment(deployment, seed, lambda: system.leader(places))
        self.env: Environment = self._environment.offered()
        self._served = False
        self._helpers = HelperPrograms(
            system.helper, hello={"system": system.name, "nodes": {p.name: p.ip for p in places}}
        )

    @property
    def notes(self) -> list[str]:
        """Remarkable events of the run, one line each."""
        missing = "no transitions, and so no rules about leaders, no triggered faults and no replay"
        return [f"{self._system.name} shows {missing}", *self.deployment.notes]

    def use(self, machines: Machines) -> None:
        """Let faults crash and boot hosts."""
        self._environment.machines = machines

    def connect(self, node: str, client_id: str) -> GuardedConnection:
        """Return a client's connection to ``node`` (not open yet)."""
        place = next(place for place in self._places if place.name == node)
        make: Callable[[], NodeClient] = partial(self._system.client, place)
        if self._system.helper:
            limit = self._system.client_timeout_s
            make = partial(self._helpers.client, place, client_id, limit)
        return GuardedConnection(make, self._system.source_files())

    def client(self, workload: Workload, setting: ClientSetting) -> Client:
        """Return the client of one thread."""
        if isinstance(workload, Speaking):
            return workload.client(setting)
        nodes = [place.name for place in self._system.addressed(self._places)]
        return NodesInTurn(replace(setting, nodes=nodes), self._system.client_timeout_s)

    def clocks(self) -> Mapping[str, int]:
        """Return each host's monotonic clock minus the control node's, in microseconds."""
        return self.deployment.clock_offsets()

    def position(self) -> str:
        """Return the leader for the progress line, "" if the adapter never names one."""
        if type(self._system).leader is PlainSystem.leader:
            return ""
        with contextlib.suppress(Exception):
            leader = self._environment.leader()
            return f"leader {leader}" if leader else "no leader known"
        return "no leader known"

    def ready(self, timeout_s: float) -> str:
        """Start what does not run, and wait until the system serves clients.

        Raises RemoteError, one line, if a process does not get ready, and TimeoutError after
        ``timeout_s`` seconds if the system as a whole does not.
        """
        deadline = time.monotonic() + timeout_s
        self.deployment.start_all()
        while missing := self._system.unready(self._places):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{missing} after {timeout_s:g} s")
            time.sleep(_POLL_S)
        self._served = True
        count = len(self.deployment.processes)
        return f"{count} process{'es are' if count > 1 else ' is'} ready"

    def restore(self) -> list[Trouble]:
        """Undo every fault, and start everything if it ever served; return the failures."""
        return self._environment.restore(start=self._served)

    def members(self, settle_s: float) -> dict[str, Member]:
        """Return the state of each node by its own account; none if the system shows none."""
        return self._inspection.members(settle_s)

    def stop(self) -> None:
        """End all processes by their stop signals, if need be by SIGKILL."""
        self.deployment.stop_all()

    def collect(self, run: Path) -> None:
        """Copy output and declared files to ``run/nodes``."""
        self.deployment.collect(run)

    def close(self) -> None:
        """End helper programs, whatever still runs on the hosts, and all sessions."""
        self._helpers.close()
        with contextlib.suppress(RemoteError):
            self.deployment.stop_all(0.0)
        self.deployment.close()
