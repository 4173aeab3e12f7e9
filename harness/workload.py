"""The interface of workloads: operations to invoke, written without input or output.

A workload never uses a socket. Its :meth:`Workload.invoke` is a coroutine that yields a
:class:`Call` (one request to one node) and receives an :class:`Answer`. The run loop on real hosts
drives it with sockets and threads, the simulator with virtual messages.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from kraftwreck.checkers.strength import Floor, FloorError, parse_floor
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.operation import Op


@dataclass(slots=True)
class Call:
    """Send one Kafka request to ``node`` and wait for the response.

    ``api`` is the schema name (``"CreateTopics"``), ``version`` the request version,
    ``body`` the message as a dict with snake_case keys.
    """

    node: str
    api: str
    version: int
    body: dict[str, Any]
    timeout_ms: int = 5000


@dataclass(slots=True)
class Answer:
    """The outcome of a :class:`Call`.

    ``refused``: the request certainly never reached the node (the connection was refused or timed
    out before a byte was sent). ``lost``: sent, but no response came in time or the connection
    broke, so the effect is unknown. ``ok``: ``body`` is the decoded response.
    """

    status: Literal["ok", "refused", "lost"]
    body: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(slots=True)
class Planned:
    """The operation that the generator invokes next."""

    f: str
    key: Any = None
    value: Any = None
    node: str | None = None
    """Set when the operation is for this node only."""
    final: bool = False


@dataclass(slots=True)
class Completion:
    """How an invocation ended; becomes the completion :class:`~histories.operation.Op`."""

    type: Literal["ok", "fail", "info"]
    value: Any = None
    error: str | None = None
    node: str | None = None


Invocation = Generator[Call, Answer, Completion]


@dataclass(slots=True)
class ClientState:
    """The state that one client thread keeps between operations.

    ``nodes`` are the names of the controllers in a fixed order; ``ids`` maps Kafka node ids to
    names. ``gateways`` are the brokers to which writes go; if empty, they go directly to the active
    controller. ``memory`` is the workload's own.
    """

    thread: int
    nodes: Sequence[str]
    ids: Mapping[int, str]
    seed: int
    leader: str | None = None
    calls: int = 0
    gateways: Sequence[str] = ()
    memory: dict[str, Any] = field(default_factory=dict)


class Workload(Protocol):
    """The operations of clients. Stateless between calls except through its arguments.

    It may have the attributes ``owed`` (:func:`owed`) and ``floor`` (:func:`floor`).
    """

    name: str
    checkers: Sequence[str]
    """Names of the checkers that judge it (see ``checkers.registry``)."""

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of client ``thread``; random choices by key."""
        ...

    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Carry out ``op``."""
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
