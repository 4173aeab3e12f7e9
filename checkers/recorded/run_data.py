"""Everything a checker may look at: one run, from a folder or from memory.

Tables are read on first use. The same data is available as objects (``ops``,
``events``), which is how a run in memory begins, so the simulator pays for no
conversion it does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import msgspec
import pyarrow as pa

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.recorded.captured import GROUP, Captured
from kraftwreck.checkers.recorded.clocks import NodeClock, node_clocks
from kraftwreck.checkers.recorded.stored_events import stored_events
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.members import Member, read_members
from kraftwreck.histories.operation import Op
from kraftwreck.histories.plugins import plugins
from kraftwreck.histories.reading import read_faults, read_history, read_trace
from kraftwreck.histories.system_name import system_of
from kraftwreck.histories.tables import (
    HISTORY_SCHEMA,
    TRACE_SCHEMA,
    HistoryError,
    from_table,
    to_table,
)
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.undecodable import UNDECODABLE

FINAL = "final"
"""Label of the disk image taken after the last operation."""

Result = TypeVar("Result")


class StepRules(Protocol):
    """Rules over the steps of one node, a :class:`~nodes.server.reexecution.Watch`; ``broken`` has
    an explanation for each broken rule."""

    broken: dict[str, str]

    def start(self, recovered: Any, effects: Sequence[Any]) -> None:
        """Take in the start of a process from the state on its disk."""
        ...

    def step(self, event: object, effects: Sequence[Any]) -> None:
        """Take in an event and all effects of its step."""
        ...


class Recordings(Protocol):
    """Reads recordings of one system's nodes from a run folder.

    A package adds it with an entry point of the group ``kraftwreck.recordings``, whose name is that
    of the system. Reading raises :class:`~histories.tables.HistoryError`.
    """

    def messages(
        self, run: Path, ids: dict[str, int], clocks: Mapping[str, NodeClock]
    ) -> Captured | None:
        """Return the messages that nodes received, None if they recorded none. ``ids`` are node
        ids by name, ``clocks`` the nodes' clocks."""
        ...

    def step_rules(self, node: str) -> StepRules | None:
        """Return the rules that the steps of the node called ``node`` must keep, for its replay."""
        ...

    def images(self, run: Path) -> Sequence[Any]:
        """Return the disks that were kept, by node and label."""
        ...


class RunData:
    """One run. ``test`` is the content of ``test.json``.

    ``ordered`` is True if ``events`` are in the order in which they happened, over all
    nodes: true for the simulator, which has one clock, and never for real hosts.
    """

    def __init__(self, test: dict[str, Any], *, ordered: bool = False) -> None:
        self.test = test
        self.ordered = ordered
        self._derived: dict[str, Any] = {}
        self._folder: Path | None = None

    @classmethod
    def from_memory(
        cls,
        ops: Sequence[Op],
        events: Sequence[TraceEvent],
        faults: Sequence[FaultEvent],
        images: Sequence[Any],
        test: dict[str, Any],
        *,
        ordered: bool = False,
        capture: Captured | None = None,
        derived: Mapping[str, Any] | None = None,
    ) -> RunData:
        """Return a run from data in memory. Nothing is copied.

        ``capture`` are the messages between nodes, None if they were not captured. ``derived`` is
        what checkers derive from the run (:meth:`derived`), as far as that exists already.
        """
        run = cls(test, ordered=ordered)
        run._derived.update(derived or {})
        run.__dict__.update(
            ops=list(ops),
            events=list(events),
            faults=list(faults),
            images=list(images),
            capture=capture,
        )
        return run

    @classmethod
    def from_folder(cls, path: Path) -> RunData:
        """Return the run in folder ``path`` (complete or not).

        Raises :class:`~histories.tables.HistoryError` when ``test.json`` cannot be read;
        the other files are read on first use, with the same error.
        """
        file = path / "test.json"
        try:
            test = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
        except OSError as error:
            raise HistoryError(f"{file}: {error.strerror}") from error
        except UNDECODABLE as error:
            raise HistoryError(f"{file}: {error}") from error
        run = cls(test)
        run._folder = path
        return run

    @cached_property
    def ops(self) -> list[Op]:
        return from_table(read_history(self._where()), Op)

    @cached_property
    def events(self) -> Sequence[TraceEvent]:
        stored = stored_events(self._where())
        if stored is not None:
            return stored
        return from_table(read_trace(self._where()), TraceEvent)

    @cached_property
    def faults(self) -> list[FaultEvent]:
        return read_faults(self._where())

    @cached_property
    def images(self) -> list[Any]:
        """The disks that were kept, in the form of the run's system."""
        own = self._recordings()
        return [] if own is None else list(own.images(self._where()))

    @cached_property
    def members(self) -> dict[str, Member] | None:
        """The members as they were at the end, None if nobody asked."""
        return None if self._folder is None else read_members(self._folder)

    @cached_property
    def capture(self) -> Captured | None:
        """The messages between nodes, None if nothing was captured."""
        own = self._recordings()
        if own is None:
            return None
        ids = {name: number for number, name in enumerate(self.nodes, start=1)}
        return own.messages(self._where(), ids, node_clocks(self.test))

    @cached_property
    def history(self) -> pa.Table:
        """The operations as a table of :data:`~histories.tables.HISTORY_SCHEMA`."""
        return to_table(self.ops, HISTORY_SCHEMA)

    @cached_property
    def trace(self) -> pa.Table:
        """The trace as a table of :data:`~histories.tables.TRACE_SCHEMA`."""
        return to_table(self.events, TRACE_SCHEMA)

    @cached_property
    def calls(self) -> list[Call]:
        """The operations, invocations joined with completions."""
        return pair(self.ops)

    @property
    def ended(self) -> int | None:
        """When the judged time ended (ns since the start), None if the run did not record it.

        Nodes are stopped only afterwards: no rule about passing time, or about the state at the
        end, considers anything later.
        """
        until = self.test.get("judged_until")
        return until if isinstance(until, int) else None

    @cached_property
    def nodes(self) -> list[str]:
        """Node names in order; the id of a node is its position + 1."""
        named = self.test.get("nodes")
        if isinstance(named, list) and named:
            return [str(name) for name in named]
        return sorted({event.node for event in self.events})

    def derived(self, name: str, make: Callable[[RunData], Result]) -> Result:
        """Return ``make(self)``, computed once: several checkers share one pass."""
        if name not in self._derived:
            self._derived[name] = make(self)
        return cast(Result, self._derived[name])

    def _recordings(self) -> Recordings | None:
        """Return the reader of what only nodes of the run's system record, if it has one."""
        found: Recordings | None = plugins(GROUP).found.get(system_of(self.test))
        return found

    def _where(self) -> Path:
        assert self._folder is not None, "a run in memory has all its data"
        return self._folder
