"""What a system under test must offer the run loop; adapters live in ``systems``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.clusters.cluster import Host, Machines
from harness.environment import Environment
from harness.interpreter import Connection
from harness.options import RunOptions
from harness.run_errors import Trouble
from histories.trace import TraceEvent

Seen = Callable[[TraceEvent, int], None]
"""Is told of a transition, and what the control node's monotonic clock (µs) read then."""


@runtime_checkable
class Followed(Protocol):
    """A :class:`Deployed` whose nodes' traces can be seen while they are written."""

    def follow(self, seen: Seen) -> None:
        """Call ``seen`` for what nodes trace from now on, until :meth:`unfollow`.

        Calls come from other threads, one at a time. What a host writes while it cannot be
        reached may be missed; no error is raised for it.
        """
        ...

    def unfollow(self) -> None:
        """Stop; nothing is seen afterwards."""
        ...


@runtime_checkable
class Disturbed(Protocol):
    """A :class:`Deployed` whose nodes may have clocks of their own."""

    def clock_samples(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Return, for nodes whose clocks were set, what they read when: pairs (the host's
        monotonic clock, the node's), in microseconds, from the first change on to now."""
        ...


@runtime_checkable
class Housed(Protocol):
    """A :class:`Deployed` that takes notice when a host crashes."""

    def use(self, machines: Machines) -> None:
        """Let faults crash and boot hosts by ``machines``."""
        ...


class Deployed(Protocol):
    """A system that runs on hosts. Every method may raise an exception of one line."""

    env: Environment

    def connect(self, node: str, client_id: str) -> Connection:
        """Return a client's connection to ``node`` (not open yet)."""
        ...

    def clocks(self) -> Mapping[str, int]:
        """Return, per node, its monotonic clock minus the control node's, in microseconds."""
        ...

    def position(self) -> str:
        """Return leader and epoch in a few characters, for the progress line."""
        ...

    def ready(self, timeout_s: float) -> str:
        """Wait until the system serves clients; return who leads.

        Raises :class:`TimeoutError` with one line after ``timeout_s`` seconds.
        """
        ...

    def restore(self) -> list[Trouble]:
        """Heal, resume and start everything whatever its state; return what failed."""
        ...

    def stop(self) -> None:
        """End the processes on the hosts gracefully."""
        ...

    def collect(self, run: Path) -> None:
        """Copy what every node wrote (trace, output, inputs, disk images) to ``run/nodes``.

        The system must be stopped. Nodes that cannot be reached are named in the error,
        after all others were collected.
        """
        ...

    def close(self) -> None:
        """End all sessions with the hosts."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A system that can do a part of :meth:`System.deploy` while the hosts come up."""

    def prepare(self, nodes: Path) -> None:
        """Compute what deploying the tree ``nodes`` needs and no host is needed for."""
        ...


class System(Protocol):
    """One kind of system under test."""

    name: str
    about: str
    default_workload: str
    workloads: Sequence[str]
    checkers: Sequence[str]
    """Checkers that judge every run of this system, whatever the workload."""

    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> Deployed:
        """Install the tree ``nodes`` on ``hosts`` and start it."""
        ...

    def describe(self, nodes: Path) -> Mapping[str, Any]:
        """Return versions and digests for ``test.json``."""
        ...
