"""The interface of generators: pure values that say which operation comes next, and when.

Modelled on jepsen.generator. The interpreter asks a generator for an operation, waits until it is
due, invokes it, and passes every invocation and completion back by ``update``. The combinators are
in :mod:`workloads.generators`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from kraftwreck.histories.operation import Op


@dataclass(slots=True)
class Planned:
    """An operation that a generator wants to be invoked."""

    f: str
    key: Any = None
    value: Any = None
    node: str | None = None
    """Set when the operation is for this node only."""
    final: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """The situation in which a generator is asked: ``time`` is in ns since the test began.

    ``threads`` are those that the generator may use, ``free`` those without an open operation.
    ``seed`` is the key of all random choices.
    """

    time: int
    seed: int
    threads: tuple[int, ...]
    free: tuple[int, ...]

    def on(self, wanted: Callable[[int], bool]) -> Context:
        """Return the context restricted to the threads that are ``wanted``."""
        return replace(
            self,
            threads=tuple(thread for thread in self.threads if wanted(thread)),
            free=tuple(thread for thread in self.free if wanted(thread)),
        )


@dataclass(frozen=True, slots=True)
class Due:
    """``thread`` shall invoke ``planned`` at ``time`` (ns), which may be in the future."""

    time: int
    thread: int
    planned: Planned


@dataclass(frozen=True, slots=True)
class Pending:
    """There is no operation now; ask again after the next event, or at ``until`` (ns)."""

    until: int | None = None


PENDING = Pending()


@dataclass(frozen=True, slots=True)
class Event:
    """An invocation or a completion of ``thread``."""

    thread: int
    op: Op


class Generator(Protocol):
    """A pure value: methods return new generators and change nothing."""

    def op(self, context: Context) -> Step:
        """Return the next operation and the generator after it; None when there will be none.

        An operation that is not due yet may be asked for again: the generator returned with an
        operation is used further only if that was invoked, one returned with :class:`Pending`
        always.
        """
        ...

    def update(self, context: Context, event: Event) -> Generator:
        """Return the generator after an invocation or a completion."""
        ...


Step = tuple[Due | Pending, Generator | None] | None
"""An answer of :meth:`Generator.op`; a generator of None has no further operation."""


@runtime_checkable
class Split(Protocol):
    """A generator of parts that use different threads and know nothing of each other."""

    def parts(self, threads: Sequence[int]) -> Sequence[tuple[tuple[int, ...], Generator]]:
        """Return the parts with their threads; the interpreter runs each by itself."""
        ...
