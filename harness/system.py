"""The interface between a system under test and the run loop; adapters are in ``systems``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kraftwreck.harness.capabilities import Capability, Environment
from kraftwreck.harness.client import BlockingClient, Client, Connection
from kraftwreck.harness.clusters.cluster import Host, Machines
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.workload import ClientSetting, Workload
from kraftwreck.histories.members import Member
from kraftwreck.histories.trace import TraceEvent

Seen = Callable[[TraceEvent, int], None]
"""Called with a transition and the control node's monotonic clock (µs) at its time."""


@runtime_checkable
class Followed(Protocol):
    """A :class:`Deployed` whose nodes' traces can be followed while they are written."""

    def follow(self, seen: Seen) -> None:
        """Call ``seen`` for every new trace event, until :meth:`unfollow`.

        Calls come from other threads, one at a time. Events of a host that is unreachable may be
        missed without an error.
        """
        ...

    def unfollow(self) -> None:
        """Stop; no event is delivered afterwards."""
        ...


@runtime_checkable
class Disturbed(Protocol):
    """A :class:`Deployed` whose nodes may have clocks of their own."""

    def clock_samples(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Return samples of the clocks that were set: pairs of (host's monotonic clock, node's) in
        microseconds, from the first change until now."""
        ...


@runtime_checkable
class Housed(Protocol):
    """A :class:`Deployed` that can handle host crashes."""

    def use(self, machines: Machines) -> None:
        """Let faults crash and boot hosts through ``machines``."""
        ...


@runtime_checkable
class Inspected(Protocol):
    """A :class:`Deployed` whose members show their own state and position."""

    def members(self, settle_s: float) -> Mapping[str, Member]:
        """Return them by name, once they have settled, or after ``settle_s`` seconds; may be
        empty. No client works meanwhile."""
        ...


@runtime_checkable
class Remarkable(Protocol):
    """A :class:`Deployed` that has seen something worth a line, which is no failure."""

    @property
    def notes(self) -> Sequence[str]:
        """Lines for people and for ``test.json``; complete once the system is stopped."""
        ...


@runtime_checkable
class Fetching(Protocol):
    """A :class:`System` that needs files from elsewhere."""

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch them, before any host is up; raise one line if they cannot be had."""
        ...


@runtime_checkable
class Configurable(Protocol):
    """A :class:`System` with options of its own."""

    def configured(self, given: Sequence[str]) -> System:
        """Return the system with these options, each ``NAME=VALUE``.

        Raises :class:`~harness.options.OptionError`, one line, for an unknown name or value.
        """
        ...


class Deployed(Protocol):
    """A system that runs on hosts. Every method may raise an exception with one line."""

    env: Environment

    def connect(self, node: str, client_id: str) -> Connection:
        """Return a client's connection to ``node`` (not open yet)."""
        ...

    def client(self, workload: Workload, setting: ClientSetting) -> Client | BlockingClient:
        """Return the client of one thread, which carries out the operations of ``workload``."""
        ...

    def clocks(self) -> Mapping[str, int]:
        """Return, per node, its monotonic clock minus the control node's, in microseconds."""
        ...

    def position(self) -> str:
        """Return leader and epoch in a few characters, for the progress line; "" without any."""
        ...

    def ready(self, timeout_s: float) -> str:
        """Wait until the system serves clients; return the leader.

        Raises :class:`TimeoutError` with one line after ``timeout_s`` seconds.
        """
        ...

    def restore(self) -> list[Trouble]:
        """Heal, resume and start everything, whatever its state; return the failures."""
        ...

    def stop(self) -> None:
        """End the processes on the hosts gracefully."""
        ...

    def collect(self, run: Path) -> None:
        """Copy each node's recordings (trace, output, inputs, disk images) to ``run/nodes``.

        The system must be stopped. The error names unreachable nodes, after all others were
        collected.
        """
        ...

    def close(self) -> None:
        """End all sessions with the hosts."""
        ...


@runtime_checkable
class Recording(Protocol):
    """A :class:`System` with facts of its own about a run, for its checkers and its report."""

    def facts(self, options: RunOptions) -> Mapping[str, Any]:
        """Return further fields of ``test.json``."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A system that can prepare a part of :meth:`System.deploy` while the hosts come up."""

    def prepare(self, nodes: Path) -> None:
        """Compute everything for deploying the tree ``nodes`` that does not need a host."""
        ...


class System(Protocol):
    """One kind of system under test."""

    name: str
    about: str
    default_workload: str
    workloads: Sequence[str]
    checkers: Sequence[str]
    """Checkers that judge every run of this system, whatever the workload."""
    offers: Sequence[Capability[Any]]
    """The capabilities that faults may use; those of its :class:`Environment`."""

    def lacking(self, options: RunOptions) -> Mapping[str, str]:
        """Return what it does not support with these options, each with the reason in one line.

        Names are those of capabilities, of features of shapes (:mod:`nemesis.possible`), or of
        fault families.
        """
        ...

    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> Deployed:
        """Install the tree ``nodes`` on ``hosts`` and start it."""
        ...

    def describe(self, nodes: Path) -> Mapping[str, Any]:
        """Return versions and digests for ``test.json``."""
        ...
