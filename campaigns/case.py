"""One simulated test as small, complete data that can be saved, read, shrunk and run again.

The test of a seed changes with any code that draws from the seed. A case records every choice
explicitly: the settings, each fault, and the operations that clients begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.operation import INVOKE, Op
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.simulation.knobs import WorldKnobs

SECOND = 1_000_000_000
Operation = tuple[int, int]
"""(client thread, position among the thread's operations, from 0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test in virtual time.

    It has the fields of :class:`~harness.options.RunOptions` that matter, the ``knobs`` of the
    simulated world, the ``schedule`` of faults, and the ``operations`` that clients begin, by time
    (None: all that ``rate`` and ``concurrency`` give). ``time_limit_s`` is in seconds, ``rate`` in
    operations per second.
    """

    system: str = DEFAULT_SYSTEM
    workload: str
    nodes: int
    time_limit_s: float
    rate: float
    concurrency: int
    seed: int
    knobs: WorldKnobs
    schedule: tuple[Fault, ...]
    operations: tuple[Operation, ...] | None = None

    @classmethod
    def of(cls, options: RunOptions, knobs: WorldKnobs, schedule: Iterable[Fault]) -> Case:
        """Return the case of a simulated run."""
        return cls(
            system=options.system,
            workload=options.workload,
            nodes=options.nodes,
            time_limit_s=options.time_limit_s,
            rate=options.rate,
            concurrency=options.concurrency,
            seed=options.seed,
            knobs=knobs,
            schedule=tuple(schedule),
        )

    def options(self, store: Path = Path("store")) -> RunOptions:
        """Return the options with which to run it."""
        return RunOptions(
            system=self.system,
            workload=self.workload,
            faults=tuple(dict.fromkeys(fault.kind for fault in self.schedule)),
            time_limit_s=self.time_limit_s,
            cluster="sim",
            nodes=self.nodes,
            system_options=self.knobs.system_options,
            seed=self.seed,
            rate=self.rate,
            concurrency=self.concurrency,
            store=store,
        )

    @property
    def key(self) -> bytes:
        """A text that is equal only for equal cases."""
        return msgspec.json.encode(
            [
                (self.system, self.workload, self.nodes, self.time_limit_s),
                (self.rate, self.concurrency, self.seed),
                self.knobs,
                self.schedule,
                self.operations,
            ]
        )

    @property
    def size(self) -> Size:
        """The size of the case, for people."""
        return Size(
            faults=len(self.schedule),
            operations=None if self.operations is None else len(self.operations),
            nodes=self.nodes + self.knobs.beside,
            time_limit_s=self.time_limit_s,
            settings=len(settings(self.knobs)),
        )


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a case; ``nodes`` are all nodes, ``settings`` counts the knobs of
    the world and the nodes that differ from their defaults."""

    faults: int
    operations: int | None
    nodes: int
    time_limit_s: float
    settings: int

    def __str__(self) -> str:
        begun = "all" if self.operations is None else str(self.operations)
        return (
            f"{self.faults} faults, {begun} operations, {self.nodes} nodes,"
            f" {self.time_limit_s:g} s, {self.settings} settings"
        )


def operations_of(ops: Iterable[Op], concurrency: int) -> tuple[Operation, ...]:
    """Return the operations that the clients of a run began, by time.

    ``ops`` is the history of a run of which no operation was left out (``operations`` None).
    """
    counts = dict.fromkeys(range(concurrency), 0)
    found: list[Operation] = []
    for op in ops:
        if op.type == INVOKE and not op.final:
            thread = op.process % concurrency
            found.append((thread, counts[thread]))
            counts[thread] += 1
    return tuple(found)


def explicit(case: Case, ops: Iterable[Op], faults: Iterable[FaultEvent]) -> Case:
    """Return ``case`` with all choices of its run (``ops``, ``faults``) made explicit.

    Faults that chose their targets when they started get these targets, and faults of storms get
    their actual start times and durations. Faults that never started, or had no target, are left
    out, and operations are listed. The resulting case describes the same run.
    """
    begun: dict[int, FaultEvent] = {}
    ended: dict[int, FaultEvent] = {}
    for event in faults:
        (begun if event.phase == "start" else ended)[event.id] = event
    schedule = tuple(
        _as_it_was(fault, begun[number], ended.get(number))
        for number, fault in enumerate(case.schedule)
        if number in begun and begun[number].targets
    )
    operations = case.operations
    if operations is None:
        operations = operations_of(ops, case.concurrency)
    return replaced(case, schedule=schedule, operations=operations)


def _as_it_was(fault: Fault, begun: FaultEvent, ended: FaultEvent | None) -> Fault:
    targets = tuple(begun.targets)
    if fault.storm is None:
        return fault if fault.targets else msgspec.structs.replace(fault, targets=targets)
    duration = fault.duration if ended is None else ended.time - begun.time
    return msgspec.structs.replace(
        fault, at=begun.time, duration=duration, targets=targets, trigger=None, storm=None
    )


def replaced(case: Case, **changes: Any) -> Case:
    """Return ``case`` with some fields changed."""
    fields = {name: getattr(case, name) for name in Case.__dataclass_fields__}
    return Case(**{**fields, **changes})


# --- settings ----------------------------------------------------------------------------------

K = TypeVar("K", bound=WorldKnobs)
Setting = tuple[str, str | None]
"""The name of a field of the knobs; for ``node`` and ``hasty`` also the name in that table."""

_BY_NODE = ("node", "hasty")
_SPREADS = (("latency_min", "latency_max"), ("fsync_min", "fsync_max"))
FLAT: dict[str, int] = {
    "latency_min": 1_000,
    "latency_max": 1_000,
    "fsync_min": 100,
    "fsync_max": 100,
    "mono_spread": 1,
    "wall_spread": 1,
}
"""Settings of a world in which all messages, and all fsyncs, take the same time."""


def settings(knobs: WorldKnobs) -> tuple[Setting, ...]:
    """Return the settings in ``knobs`` that are neither at their default nor flat."""
    plain = type(knobs)()
    found: list[Setting] = []
    for name in knobs.__struct_fields__:
        value = getattr(knobs, name)
        if name in _BY_NODE:
            found.extend((name, key) for key in value)
        elif value != getattr(plain, name) and value != FLAT.get(name):
            found.append((name, None))
    return tuple(found)


def with_settings(knobs: K, kept: Iterable[Setting]) -> K:
    """Return ``knobs`` with all :func:`settings` except ``kept`` at their defaults."""
    wanted = set(kept)
    plain = type(knobs)()
    changes: dict[str, Any] = {}
    for setting in settings(knobs):
        name, key = setting
        if setting in wanted or key is not None:
            continue
        changes[name] = getattr(plain, name)
    for name in _BY_NODE:
        values = getattr(knobs, name)
        changes[name] = {key: values[key] for key in values if (name, key) in wanted}
    for low, high in _SPREADS:
        # Half of a range could end above the other half.
        if low in changes or high in changes:
            changes[low], changes[high] = getattr(plain, low), getattr(plain, high)
    return msgspec.structs.replace(knobs, **changes)
