"""Search for the smallest case that still fails in the same way, as a pure function.

The passes, in this order: a shorter run (which makes the rest cheaper), fewer faults, shorter
faults, fewer operations, fewer nodes, default settings, shorter gaps, round times, flat delays.
They repeat until none of them helps. Random choices depend on keys, so the remaining parts do not
change. Only the caller's ``fails`` decides whether a candidate has "the same failure".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from kraftwreck.campaigns.case import (
    FLAT,
    SECOND,
    Case,
    Operation,
    replaced,
    settings,
    with_settings,
)
from kraftwreck.campaigns.ddmin import ddmin
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.triggers import DURATIONS_MS

FEWEST_NODES = 3
TIME_LIMITS_S = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0)
MILLISECOND = SECOND // 1000
_GAPS_NS = (SECOND // 2, SECOND, 2 * SECOND)
_CLASSES = tuple(ms * MILLISECOND for ms in DURATIONS_MS)
_FEW_FAULTS = 3
_OTHER_SEEDS = 16
ROUND_NS = (SECOND, SECOND // 10, SECOND // 100, MILLISECOND)
"""Units to which times are rounded; the coarsest that still fails is used."""

Ended = Literal["minimal", "budget", "interrupted"]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result of a search: the smallest ``case`` found, the number of candidates tried, and
    whether the search finished, ran out of budget or was interrupted."""

    case: Case
    runs: int
    ended: Ended


class _EnoughError(Exception):
    """The budget is spent."""


def shrink(
    case: Case,
    fails: Callable[[Case], bool],
    *,
    enough: Callable[[], bool] = lambda: False,
    on_progress: Callable[[str, Case, int], None] = lambda _pass, _case, _runs: None,
) -> Shrunk:
    """Return the smallest case found that still fails as ``case`` does.

    ``fails(case)`` is called first and must be true, otherwise :class:`OptionError` is raised.
    ``enough`` is called before each candidate and can end the search; so can KeyboardInterrupt.
    ``on_progress`` is called after each improvement with the pass, the case and the number of
    candidates tried.
    """
    search = _Search(case, fails, enough, on_progress)
    ended: Ended = "minimal"
    try:
        if not fails(case):
            raise OptionError("the case to shrink does not fail as expected")
        while True:
            before = search.best
            for name, work in _PASSES:
                search.name = name
                work(search)
            if search.best == before:
                break
    except _EnoughError:
        ended = "budget"
    except KeyboardInterrupt:
        ended = "interrupted"
    return Shrunk(search.best, search.runs, ended)


class _Search:
    """The best case so far, and the candidates tried."""

    def __init__(
        self,
        case: Case,
        fails: Callable[[Case], bool],
        enough: Callable[[], bool],
        on_progress: Callable[[str, Case, int], None],
    ) -> None:
        self.best = case
        self.runs = 0
        self.name = ""
        self._fails = fails
        self._enough = enough
        self._on_progress = on_progress
        self._tried: set[bytes] = {case.key}

    def attempt(self, candidate: Case) -> bool:
        """Make ``candidate`` the best if it fails the same way; never run a case twice."""
        key = candidate.key
        if key in self._tried:
            return candidate == self.best
        if self._enough():
            raise _EnoughError
        self._tried.add(key)
        self.runs += 1
        if not self._fails(candidate):
            return False
        self.best = candidate
        self._on_progress(self.name, candidate, self.runs)
        return True

    def change(self, **changes: Any) -> bool:
        """Try the best case with some fields changed."""
        return self.attempt(replaced(self.best, **changes))

    def change_fault(self, number: int, **changes: Any) -> bool:
        """Try the best case with one fault changed."""
        schedule = list(self.best.schedule)
        schedule[number] = msgspec.structs.replace(schedule[number], **changes)
        return self.change(schedule=tuple(schedule))


# --- the passes --------------------------------------------------------------------------------


def _other_draws(search: _Search) -> None:
    """Try only the last few faults, from the start of a short run, with other seeds.

    A failure that needs a coincidence (such as two simultaneous elections) disappears with almost
    any change of its run, but appears in one of a few dozen other short runs.
    """
    case = search.best
    order = sorted(case.schedule, key=lambda fault: fault.at)
    for count in range(min(_FEW_FAULTS + 1, len(order))):
        faults = order[len(order) - count :]
        first = faults[0].at if faults else 0
        moved = tuple(msgspec.structs.replace(f, at=f.at - first + SECOND) for f in faults)
        least = max((fault.at for fault in moved), default=0) / SECOND + 2.0
        limit = next((limit for limit in TIME_LIMITS_S if limit >= least), least)
        if limit > case.time_limit_s:
            continue
        every = int(3 * case.rate * limit / case.concurrency) + 1
        operations = tuple((t, c) for c in range(every) for t in range(case.concurrency))
        if any(
            search.change(schedule=moved, time_limit_s=limit, operations=operations, seed=seed)
            for seed in range(_OTHER_SEEDS)
        ):
            return


def _fewer_faults(search: _Search) -> None:
    ddmin(search.best.schedule, lambda kept: search.change(schedule=kept))


def _shorter_run(search: _Search) -> None:
    limit = search.best.time_limit_s
    any(search.change(time_limit_s=less) for less in TIME_LIMITS_S if less < limit)


def _shorter_faults(search: _Search) -> None:
    """Reduce each duration to the shortest class that still fails."""
    for number in range(len(search.best.schedule)):
        now = search.best.schedule[number].duration
        shorter = (duration for duration in _CLASSES if duration < now)
        any(search.change_fault(number, duration=duration) for duration in shorter)


def _fewer_operations(search: _Search) -> None:
    """Leave out whole clients first, then single operations."""
    operations = search.best.operations
    if operations is None:
        return
    threads = tuple(dict.fromkeys(thread for thread, _ in operations))
    ddmin(threads, lambda kept: search.change(operations=_of_threads(operations, kept)))
    ddmin(search.best.operations or (), lambda kept: search.change(operations=kept))
    _fewer_clients(search)


def _of_threads(operations: Iterable[Operation], threads: Iterable[int]) -> tuple[Operation, ...]:
    wanted = set(threads)
    return tuple(operation for operation in operations if operation[0] in wanted)


def _fewer_clients(search: _Search) -> None:
    """Remove clients without operations; the pace of the others stays the same."""
    case = search.best
    count = 1 + max((thread for thread, _ in case.operations or ()), default=0)
    if count < case.concurrency:
        search.change(concurrency=count, rate=case.rate * count / case.concurrency)


def _fewer_nodes(search: _Search) -> None:
    for beside in range(search.best.knobs.beside):
        if search.attempt(_with_nodes(search.best, search.best.nodes, beside)):
            break
    for nodes in range(FEWEST_NODES, search.best.nodes):
        beside = search.best.knobs.beside
        if search.attempt(_with_nodes(search.best, nodes, beside)):
            break
        if search.attempt(_with_nodes(_moved_down(search.best, nodes), nodes, beside)):
            break


def _moved_down(case: Case, nodes: int) -> Case:
    """Return ``case`` with the faults of nodes beyond ``nodes`` moved to others without
    faults."""
    hit = {target for fault in case.schedule for target in fault.targets}
    going = [f"n{i}" for i in range(nodes + 1, case.nodes + 1) if f"n{i}" in hit]
    free = [f"n{i}" for i in range(1, nodes + 1) if f"n{i}" not in hit]
    names = dict(zip(going, free, strict=False))
    schedule = (
        msgspec.structs.replace(fault, targets=tuple(names.get(t, t) for t in fault.targets))
        for fault in case.schedule
    )
    return replaced(case, schedule=tuple(schedule))


def _with_nodes(case: Case, nodes: int, beside: int) -> Case:
    """Return ``case`` without the last nodes, and without faults on them."""
    left = {f"n{i}" for i in range(1, nodes + 1)} | {f"b{i}" for i in range(1, beside + 1)}
    schedule: list[Fault] = []
    for fault in case.schedule:
        targets = tuple(t for t in fault.targets if t in left or t.startswith("@"))
        if targets or not fault.targets:
            schedule.append(msgspec.structs.replace(fault, targets=targets))
    knobs = case.knobs.fitted(nodes, beside)
    return replaced(case, nodes=nodes, knobs=knobs, schedule=tuple(schedule))


def _plain_settings(search: _Search) -> None:
    knobs = search.best.knobs
    ddmin(settings(knobs), lambda kept: search.change(knobs=with_settings(knobs, kept)))


def _shorter_gaps(search: _Search) -> None:
    """Shorten gaps: all later faults come sooner."""
    for number in range(len(search.best.schedule)):
        order = tuple(sorted(search.best.schedule, key=lambda fault: fault.at))
        gap = order[number].at - (order[number - 1].at if number else 0)
        shorter = (gap - wanted for wanted in _GAPS_NS if wanted < gap)
        any(search.change(schedule=_sooner(order, number, by)) for by in shorter)


def _sooner(schedule: tuple[Fault, ...], first: int, by: int) -> tuple[Fault, ...]:
    """Return ``schedule`` with all faults from number ``first`` moved ``by`` ns earlier."""
    moved = (msgspec.structs.replace(fault, at=fault.at - by) for fault in schedule[first:])
    return (*schedule[:first], *moved)


def _round_times(search: _Search) -> None:
    """Let faults start at round times, as early as possible if they wait for a trigger, and last
    for one of the usual durations or a round one."""
    for number in range(len(search.best.schedule)):
        fault = search.best.schedule[number]
        if fault.trigger is not None and fault.at:
            search.change_fault(number, at=0)
        fault = search.best.schedule[number]
        any(search.change_fault(number, at=at) for at in _rounder(fault.at))
        if fault.duration not in _CLASSES:
            usual = min(_CLASSES, key=lambda known: abs(known - fault.duration))
            durations = (usual, *_rounder(fault.duration))
            any(search.change_fault(number, duration=d) for d in durations if d > 0)
        if fault.draw:
            search.change_fault(number, draw=0)


def _rounder(time: int) -> Iterator[int]:
    """Yield rounder times near ``time`` (ns), the roundest first."""
    for unit in ROUND_NS:
        if time % unit == 0:
            return
        below = time // unit * unit
        yield from (below, below + unit)


def _flat_delays(search: _Search) -> None:
    """Use one delay for all messages, one for all fsyncs, and equal clocks: together, or each."""
    pairs = (("latency_min", "latency_max"), ("fsync_min", "fsync_max"))
    singles = (("mono_spread",), ("wall_spread",))
    for names in (tuple(FLAT), *pairs, *singles):
        flat = {name: FLAT[name] for name in names}
        if all(getattr(search.best.knobs, name) == value for name, value in flat.items()):
            continue
        search.change(knobs=msgspec.structs.replace(search.best.knobs, **flat))


_PASSES: tuple[tuple[str, Callable[[_Search], None]], ...] = (
    ("length", _shorter_run),
    ("draws", _other_draws),
    ("faults", _fewer_faults),
    ("durations", _shorter_faults),
    ("operations", _fewer_operations),
    ("nodes", _fewer_nodes),
    ("settings", _plain_settings),
    ("gaps", _shorter_gaps),
    ("times", _round_times),
    ("delays", _flat_delays),
)
