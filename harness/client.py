"""The interface between operations and a system's protocol: clients, calls and answers.

A client never uses a socket. :meth:`Client.invoke` is a coroutine that yields a :class:`Call` (one
request to one node), or a :class:`Pause`, and receives an :class:`Answer`. On hosts, threads and
sockets drive it; in the simulator, virtual messages do. A system that has only a blocking library
implements :class:`BlockingClient`, which runs on hosts only.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from kraftwreck.histories.operation import Op


@dataclass(slots=True)
class Call:
    """Send ``request`` to ``node`` and wait for the response for ``timeout_ms`` milliseconds.

    The request is opaque to the harness: only the system's :class:`Connection` interprets it.
    """

    node: str
    request: Any
    timeout_ms: int = 5000


@dataclass(slots=True)
class Answer:
    """The outcome of a :class:`Call`.

    ``refused``: the request certainly never reached the node (the connection was refused or timed
    out before a byte was sent). ``lost``: sent, but no response came in time or the connection
    broke, so the effect is unknown. ``ok``: ``response`` is the system's decoded response.
    """

    status: Literal["ok", "refused", "lost"]
    response: Any = None
    error: str | None = None


@dataclass(slots=True)
class Completion:
    """How an invocation ended; becomes the completion :class:`~histories.operation.Op`.

    ``ok``: it took effect. ``fail``: it certainly had no effect. ``info``: unknown.
    """

    type: Literal["ok", "fail", "info"]
    value: Any = None
    error: str | None = None
    node: str | None = None


@dataclass(slots=True)
class Pause:
    """Wait for ``ms`` milliseconds, as before another attempt; the answer is ``ok``."""

    ms: int


Invocation = Generator[Call | Pause, Answer, Completion]


class Client(Protocol):
    """One logical client of the system: its memory between operations. For one thread only."""

    def invoke(self, op: Op) -> Invocation:
        """Carry out ``op``; an exception ends the operation as ``info``."""
        ...

    def reset(self) -> None:
        """Begin as a new process, after an operation that ended ``info``."""
        ...


@runtime_checkable
class Forgetful(Protocol):
    """A :class:`Client` that may forget something before an operation, by draw."""

    def forget(self, number: int) -> None:
        """Prepare for the operation at position ``number`` of this client's, from 0."""
        ...


@runtime_checkable
class BlockingClient(Protocol):
    """A client with a blocking library. Every method may raise; hosts only."""

    blocking: Literal[True]

    def invoke(self, op: Op) -> Completion:
        """Carry out ``op`` and return its outcome; an exception ends it as ``info``."""
        ...

    def reset(self) -> None:
        """Begin as a new process with new connections, after an operation ended ``info``."""
        ...

    def close(self) -> None:
        """Release all connections and processes; called from another thread if it hangs."""
        ...


class Connection(Protocol):
    """A client's connection to one node."""

    def send(self, request: Any, timeout_ms: int) -> Answer:
        """Send one request and wait for its response; connect if needed.

        Never raises network errors; they are ``refused`` or ``lost`` answers.
        """
        ...

    def close(self) -> None:
        """Close the socket, if open."""
        ...
