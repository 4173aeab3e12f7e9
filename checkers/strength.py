"""The strength of a verdict: how much happened in the run that it rests on.

A run in which almost no operation was acknowledged finds no anomaly either. Below its
:class:`~checkers.floor.Floor`, declared with the workload and recorded in ``test.json``, a run is
``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.floor import NONE, Floor
from kraftwreck.checkers.recorded.clocks import NodeClock, node_clocks
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import OK
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import CheckerResult

SECOND = 1_000_000_000
NAME = "strength"
_POSITIONS = frozenset({"leader", "follower", "candidate", "prospective", "unattached"})


class Strength(msgspec.Struct, kw_only=True):
    """Measurements of the time in which clients and faults ran, ``seconds`` in all.

    ``led_s`` (seconds with a leader) and ``elections`` are None for a system without leaders,
    and where the trace of a node is missing. ``faults`` counts those that took effect, for each
    family that was requested.
    """

    seconds: float
    operations: int
    acknowledged: int
    led_s: float | None = None
    elections: int | None = None
    faults: dict[str, int] = {}

    @property
    def share(self) -> float:
        """Acknowledged operations over all."""
        return self.acknowledged / self.operations if self.operations else 0.0

    @property
    def led(self) -> float | None:
        """The share of the time with a leader."""
        return None if self.led_s is None else self.led_s / self.seconds if self.seconds else 0.0

    def as_stats(self) -> dict[str, Any]:
        """Return all measurements as plain values; unknown ones are left out."""
        plain = {**msgspec.to_builtins(self), "share": round(self.share, 4)}
        if self.led is not None:
            plain["led"] = round(self.led, 4)
        return {name: value for name, value in plain.items() if value is not None}


def strength(run: RunData) -> Strength:
    """Measure ``run`` from its start until its faults were healed or its time was over."""
    calls = [call for call in run.calls if not call.final]
    end = _end(run.test, calls)
    measured = Strength(
        seconds=round(end / SECOND, 3),
        operations=len(calls),
        acknowledged=sum(call.type == OK for call in calls),
        faults=struck(run.test, run.faults),
    )
    if not run.test.get("uncollected"):
        _measure_leaders(run, end, measured)
    return measured


def check(run: RunData) -> CheckerResult:
    """Judge the run: unknown below the floor in ``test.json``, true without a floor."""
    stats = strength(run).as_stats()
    missed = below(stats, run.test.get("floor"))
    failed = next((event.error for event in run.faults if event.error is not None), None)
    if missed and failed is not None and not sum(stats.get("faults", {}).values()):
        missed.append(f"the first error of a fault: {failed}")
    return CheckerResult(
        valid="unknown" if missed else True,
        stats=stats,
        error=f"too little happened: {'; '.join(missed)}" if missed else None,
    )


def below(stats: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> list[str]:
    """Return in words where :meth:`Strength.as_stats` is below the ``recorded`` :class:`Floor`."""
    measured = _measured(stats)
    floor = NONE if recorded is None else msgspec.convert(recorded, Floor)
    missed = []
    if measured.acknowledged < floor.acknowledged or measured.share < floor.share:
        missed.append(
            f"{_operations(measured)}, the floor is {floor.acknowledged} and {floor.share:.0%}"
        )
    if measured.led is not None and measured.led < floor.led:
        missed.append(f"{_leaders(measured)}, the floor is {floor.led:.0%}")
    if measured.elections is not None and measured.elections < floor.elections:
        missed.append(f"{_elections(measured)}, the floor is {floor.elections}")
    effective = sum(measured.faults.values())
    if measured.faults and effective < floor.faults:
        missed.append(
            f"{effective} faults of {', '.join(measured.faults)} took effect,"
            f" the floor is {floor.faults}"
        )
    return missed


def sentence(stats: Mapping[str, Any]) -> str:
    """Return :meth:`Strength.as_stats` in words."""
    measured = _measured(stats)
    parts = [_operations(measured)]
    if measured.led is not None:
        parts += [_leaders(measured)]
    if measured.elections is not None:
        parts += [_elections(measured)]
    if measured.faults:
        counts = ", ".join(f"{kind} {count}" for kind, count in measured.faults.items())
        parts.append(f"faults that took effect: {counts}")
    return "; ".join(parts)


def _measured(stats: Mapping[str, Any]) -> Strength:
    names = Strength.__struct_fields__
    return msgspec.convert({name: stats[name] for name in names if name in stats}, Strength)


def _operations(measured: Strength) -> str:
    return (
        f"{measured.acknowledged:,} of {measured.operations:,} operations acknowledged"
        f" ({measured.share:.0%})"
    )


def _leaders(measured: Strength) -> str:
    return f"a leader for {measured.led_s:.0f} of {measured.seconds:.0f} s ({measured.led:.0%})"


def _elections(measured: Strength) -> str:
    return f"{measured.elections} election{'' if measured.elections == 1 else 's'}"


def struck(test: Mapping[str, Any], faults: Iterable[FaultEvent]) -> dict[str, int]:
    """Count the faults that took effect, by family; those requested come first, also with 0."""
    counts = dict.fromkeys(test.get("faults") or (), 0)
    events = list(faults)
    missed = {event.id: _named(event, "missed") for event in events if event.phase == "stop"}
    for event in events:
        if event.phase == "start" and effective(event, missed.get(event.id, set())):
            counts[event.kind] = counts.get(event.kind, 0) + 1
    return counts


def effective(event: FaultEvent, missed: set[str]) -> bool:
    """Whether a fault that started changed anything for at least one of its targets.

    ``missed`` are the targets on which it had no effect, as found at its end.
    """
    return event.error is None and bool(set(event.targets) - _named(event, "skipped") - missed)


def _named(event: FaultEvent, what: str) -> set[str]:
    """Return the targets that the detail ``what`` names."""
    found = event.detail.get(what)
    return set(found) if isinstance(found, dict) else set()


# --- leaders -----------------------------------------------------------------------------------


def _end(test: Mapping[str, Any], calls: list[Call]) -> int:
    """Return when clients and faults ended, in ns."""
    limits = [int(test["time_limit_s"] * SECOND)] if test.get("time_limit_s") else []
    if isinstance(test.get("healed"), int):
        limits.append(test["healed"])
    if limits:
        return min(limits)
    return max((call.completed or call.invoked for call in calls), default=0)


def _measure_leaders(run: RunData, end: int, measured: Strength) -> None:
    clocks = node_clocks(run.test)
    spans: list[tuple[int, int]] = []
    leading: dict[str, TraceEvent] = {}
    last: dict[str, TraceEvent] = {}
    won: set[int] = set()
    positions = False
    for event in run.events:
        node, leads = event.node, event.state == "leader"
        positions = positions or event.state in _POSITIONS
        if event.kind == "elected" and _time(clocks, event) <= end:
            won.add(event.epoch)
        since = leading.get(node)
        if since is not None and (not leads or event.incarnation != since.incarnation):
            # A killed process counts as leader until its last known event.
            until = event if event.incarnation == since.incarnation else last[node]
            spans.append((_time(clocks, since), _time(clocks, until)))
            del leading[node]
            since = None
        if leads:
            if since is None:
                leading[node] = event
            last[node] = event
    if positions:
        spans += [(_time(clocks, since), end) for since in leading.values()]
        measured.led_s = round(_union(spans, end) / SECOND, 3)
        measured.elections = len(won)


def _time(clocks: Mapping[str, NodeClock], event: TraceEvent) -> int:
    """Return when ``event`` happened, in ns of the test."""
    clock = clocks.get(event.node)
    return (event.mono if clock is None else clock.time(event.mono)) * 1000


def _union(spans: list[tuple[int, int]], end: int) -> int:
    """Return how much of the time from 0 to ``end`` the ``spans`` cover."""
    covered = reached = 0
    for since, until in sorted(spans):
        since, until = max(since, reached), min(until, end)
        if until > since:
            covered += until - since
            reached = until
    return covered
