"""jepsen.checker ``set-full``: the life of each element over all reads.

Source: jepsen.checker (``set-full``). An element is known from the completion of its add or
of the first read that has it. It is *stable* when every read that begins after some moment
has it, *lost* when it was known and no read that begins after some moment has it, else
*never read*. A read with an element twice is invalid (Jepsen's own checker is meant to report
that and never does). Cost: the sum of the sizes of the reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

from kraftwreck.checkers.jepsen.judgement import (
    Judgement,
    Options,
    counted,
    in_order,
    members,
    plain_list,
    quantiles,
    some,
)
from kraftwreck.checkers.linearizability.models import freeze, thaw
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly, Validity

_WORST = 8
_NS_PER_MS = 1_000_000


class _Moment(msgspec.Struct, frozen=True):
    """An event with its place in the history."""

    position: int
    index: int
    time: int


class _Element(msgspec.Struct):
    added: int
    """Place of the (last) invocation of its add."""
    during: list[int]
    """Reads that were open then, by number."""
    known: _Moment | None = None
    present: set[int] = msgspec.field(default_factory=set)
    """Reads that had it."""


class _Read(msgspec.Struct):
    begin: _Moment
    end: int = -1


class _Life(msgspec.Struct):
    outcome: str
    latency: int | None = None
    known: _Moment | None = None
    last_absent: _Moment | None = None


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Follow every element. ``linearizable?`` makes stale elements invalid."""
    elements: dict[Hashable, _Element] = {}
    reads: list[_Read] = []
    open_reads: dict[int | None, int] = {}
    duplicated: Counter[Hashable] = Counter()
    unexpected: set[Hashable] = set()
    for position, event in enumerate(events):
        moment = _Moment(position, event.index, event.time)
        if event.f == "add":
            element = freeze(event.value)
            if event.type == "invoke":
                elements[element] = _Element(position, list(open_reads.values()))
            elif event.type == "ok":
                life = elements.setdefault(element, _Element(position, list(open_reads.values())))
                life.known = life.known or moment
        elif event.f == "read":
            if event.type == "invoke":
                open_reads[event.process] = len(reads)
                reads.append(_Read(moment))
                continue
            number = open_reads.pop(event.process, None)
            if event.type != "ok":
                continue
            if number is None:
                number = len(reads)
                reads.append(_Read(moment))
            reads[number].end = position
            found = members(event)
            unexpected |= _see(elements, found, number, moment)
            if len(set(found)) != len(found):
                for element, count in Counter(found).items():
                    if count > 1:
                        duplicated[element] = max(duplicated[element], count)
    ended = [number for number, read in enumerate(reads) if read.end >= 0]
    lives = {element: _life(life, reads, ended) for element, life in elements.items()}
    return _judge(lives, duplicated, unexpected, bool(options.get("linearizable?")))


def _see(
    elements: dict[Hashable, _Element], found: list[Hashable], number: int, moment: _Moment
) -> set[Hashable]:
    """Note the elements seen; return those that were never added."""
    strangers = set()
    for element in found:
        life = elements.get(element)
        if life is None:
            strangers.add(element)
            continue
        life.present.add(number)
        life.known = life.known or moment
    return strangers


def _life(element: _Element, reads: list[_Read], ended: list[int]) -> _Life:
    """Decide one element by its last read with it and its last one without it."""
    with_it = max((reads[n].begin for n in element.present), key=_place, default=None)
    without: _Moment | None = None
    for number in reversed(ended):
        if reads[number].begin.position < element.added:
            break
        if number not in element.present:
            without = reads[number].begin
            break
    if without is None:
        # Reads that had begun before the add and ended after it count too.
        late = (
            reads[n].begin
            for n in element.during
            if reads[n].end > element.added and n not in element.present
        )
        without = max(late, key=_place, default=None)
    known = element.known
    if with_it is not None and (without is None or without.position < with_it.position):
        assert known is not None
        since = without.time + 1 if without is not None else 0
        return _Life("stable", _milliseconds(since - known.time), known, without)
    if known is not None and without is not None and known.position < without.position:
        since = with_it.time + 1 if with_it is not None else 0
        return _Life("lost", _milliseconds(since - known.time), known, without)
    return _Life("never-read", None, known, without)


def _place(moment: _Moment) -> int:
    return moment.position


def _milliseconds(nanoseconds: int) -> int:
    return max(nanoseconds, 0) // _NS_PER_MS


def _judge(
    lives: dict[Hashable, _Life],
    duplicated: Counter[Hashable],
    unexpected: set[Hashable],
    linearizable: bool,
) -> Judgement:
    by_outcome: dict[str, list[Hashable]] = {"stable": [], "lost": [], "never-read": []}
    for element, life in lives.items():
        by_outcome[life.outcome].append(element)
    stable, lost, never = by_outcome["stable"], by_outcome["lost"], by_outcome["never-read"]
    stale = [element for element in stable if (lives[element].latency or 0) > 0]
    valid: Validity = True
    error = None
    if lost or duplicated or (linearizable and stale):
        valid = False
    elif not stable:
        valid = "unknown"
        error = f"no read shows an element that stayed: adds attempted: {len(lives)}"
    worst = sorted(in_order(stale), key=lambda e: lives[e].latency or 0, reverse=True)[:_WORST]
    result: dict[str, Any] = {
        "valid?": valid,
        "attempt-count": len(lives),
        "stable-count": len(stable),
        "lost-count": len(lost),
        "lost": plain_list(lost),
        "never-read-count": len(never),
        "never-read": plain_list(never),
        "stale-count": len(stale),
        "stale": plain_list(stale),
        "worst-stale": [_described(element, lives[element]) for element in worst],
        "duplicated-count": len(duplicated),
        "duplicated": counted(duplicated),
        "unexpected-count": len(unexpected),
        "unexpected": plain_list(unexpected),
    }
    for label, group in (("stable-latencies", stable), ("lost-latencies", lost)):
        latencies = [lives[element].latency or 0 for element in group]
        if latencies:
            result[label] = quantiles(latencies)
    anomalies = [
        Anomaly(
            type="lost",
            explanation=f"Element {thaw(element)!r} was known, but no later read has it.",
            operations=_places(lives[element]),
        )
        for element in in_order(lost)
    ]
    if linearizable:
        anomalies += [
            Anomaly(
                type="stale",
                explanation=f"Element {thaw(element)!r} was known, yet a later read lacks it.",
                operations=_places(lives[element]),
            )
            for element in in_order(stale)
        ]
    if duplicated:
        anomalies.append(
            Anomaly(
                type="duplicated", explanation=f"More than once in one read: {some(duplicated)}."
            )
        )
    return Judgement(result=result, anomalies=anomalies, error=error)


def _places(life: _Life) -> list[int]:
    return [moment.index for moment in (life.known, life.last_absent) if moment is not None]


def _described(element: Hashable, life: _Life) -> dict[str, Any]:
    return {
        "element": thaw(element),
        "outcome": life.outcome,
        "stable-latency": life.latency,
        "lost-latency": None,
        "known": _reference(life.known),
        "last-absent": _reference(life.last_absent),
    }


def _reference(moment: _Moment | None) -> dict[str, int] | None:
    return None if moment is None else {"op-index": moment.index, "time": moment.time}
