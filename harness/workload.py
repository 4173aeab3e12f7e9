"""The interface of workloads: operations to invoke, written without input or output.

The client of the system (:mod:`harness.client`) carries the operations out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from kraftwreck.checkers.floor import Floor, FloorError, parse_floor
from kraftwreck.harness.client import Client
from kraftwreck.harness.generator import Generator, Planned
from kraftwreck.harness.options import TRANSACTION, OptionError


@dataclass(slots=True, frozen=True)
class ClientSetting:
    """The setting of one client thread in a run.

    ``nodes`` are the nodes that it may address, in a fixed order. Writes go to ``gateways`` if
    there are any. ``forgets`` is the probability in percent that the client forgets what it knows
    of the nodes before an operation.
    """

    thread: int
    seed: int
    nodes: Sequence[str]
    gateways: Sequence[str] = ()
    forgets: int = 0


@runtime_checkable
class Speaking(Protocol):
    """A workload that speaks its system's protocol and so brings its own clients.

    With an attribute ``protocol`` it runs only on systems with an equal one.
    """

    def client(self, setting: ClientSetting) -> Client:
        """Return the client of one thread."""
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """``concurrency`` threads that together begin ``rate`` operations per second.

    Transactions have at most ``transaction`` micro-operations.
    """

    concurrency: int
    rate: float
    transaction: int = TRANSACTION

    @property
    def period_s(self) -> float:
        """The mean time (s) between two operations of one thread."""
        return self.concurrency / self.rate


class Workload(Protocol):
    """The operations of clients. Stateless between calls except through its arguments.

    It may have the attributes ``owed`` (:func:`owed`), ``floor`` (:func:`floor`) and
    ``through_gateways``: its clients send everything to the nodes that elect no leader.
    """

    name: str
    checkers: Sequence[str]
    """Names of the checkers that judge it (see ``checkers.registry``)."""

    def generator(self, load: Load) -> Generator:
        """Return the operations to invoke while faults strike."""
        ...

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Return the operations to run, in order, after the last heal (final reads)."""
        ...


def owed(workload: Workload) -> list[str] | None:
    """Return the kinds of operations of which some must succeed for a meaningful run of
    ``workload``; None: all that it invokes."""
    kinds: Sequence[str] | None = getattr(workload, "owed", None)
    return None if kinds is None else list(kinds)


def floor(workload: Workload, override: str | None) -> dict[str, Any]:
    """Return the least values of a valid run of ``workload``, as plain values for ``test.json``:
    those that it declares, changed by ``override`` (``--floor``).

    Raises :class:`~harness.options.OptionError`.
    """
    least: Floor = getattr(workload, "floor", None) or Floor()
    if override is not None:
        try:
            least = parse_floor(override, least)
        except FloorError as error:
            raise OptionError(str(error)) from None
    plain: dict[str, Any] = msgspec.to_builtins(least)
    return plain
