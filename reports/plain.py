"""Explanations of anomaly types for readers who do not know their names."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.reports.bands import Band
from kraftwreck.reports.node_lanes import NodeLane
from kraftwreck.reports.words import seconds_text
from kraftwreck.systems import shown

_LIVENESS = frozenset({"no-recovery", "never-ok"})

_MEANINGS = {
    "nonlinearizable": "No order of the operations explains their results: the system did not "
    "behave like a single copy of the data.",
    "nonconformant": "A node took a step that the protocol does not allow.",
    "lost": "An acknowledged change is missing.",
    "lost-write": "An acknowledged change is missing.",
    "unexpected": "A read returned a value that no client wrote.",
    "duplicated": "A change that was made once appears more than once.",
    "stale": "A read that began after a newer value was acknowledged returned an older one.",
    "nonmonotonic": "Values went back in time.",
    "out-of-order": "Elements came out in a different order than they went in.",
    "long-fork": "Two readers saw two writes in opposite orders.",
    "never-ok": "No operation of one kind ever succeeded, so it was not tested.",
    "lost-update": "Two transactions read the same value and both wrote: one write was lost.",
    "internal": "A transaction contradicts its own earlier reads or writes.",
    "dirty-update": "A transaction committed on top of an aborted one.",
    "duplicate-elements": "An element that was appended once was read more than once.",
    "garbage-read": "A read returned a value that no client wrote.",
    "incompatible-order": "Readers of one list saw orders that contradict each other.",
    "cyclic-versions": "The versions of a key form a cycle.",
}

_PHENOMENA = (
    ("G0", "Writes of transactions interleaved: each overwrote a part of the other."),
    ("G1a", "A transaction read a write of an aborted transaction."),
    ("G1b", "A transaction read an intermediate write of another."),
    ("G1c", "Transactions saw each other's writes, in a cycle."),
    ("G-single", "A transaction saw some effects of another and missed others (read skew)."),
    ("G-nonadjacent", "Transactions missed each other's writes, in a cycle."),
    ("G2", "Transactions missed each other's writes, in a cycle (write skew)."),
    ("PL-", "Transactions depend on each other in a cycle."),
)


def meaning(kind: str) -> str:
    """Return one sentence about anomalies of type ``kind``; empty if the type is unknown."""
    if rule := shown.rule(kind):
        return rule
    if kind in _MEANINGS:
        return _MEANINGS[kind]
    for beginning, sentence in _PHENOMENA:
        if kind.startswith(beginning):
            if kind.endswith("-realtime"):
                return f"{sentence} Transactions that ended before another began count as earlier."
            return sentence
    return ""


def is_liveness(kind: str) -> bool:
    """Return whether anomalies of type ``kind`` report missing progress, often a consequence."""
    return kind in _LIVENESS or shown.is_liveness(kind)


def circumstances(at: int | None, lanes: Sequence[NodeLane], bands: Sequence[Band]) -> str:
    """Describe when an anomaly happened, the leaders then, and the faults at or before it."""
    if at is None:
        return ""
    leading = [
        f"{lane.node} led epoch {s.epoch}"
        for lane in lanes
        for s in lane.segments
        if s.state == "leader" and s.start <= at <= s.end
    ]
    words = [f"At {seconds_text(at)}"]
    if lanes:
        words.append(" and ".join(leading) if leading else "no node led")
    now = [b for b in bands if b.start <= at and (b.end is None or b.end >= at)]
    if now:
        words.append(f"during {', '.join(_fault(b) for b in now[:4])}")
    else:
        before = [b for b in bands if b.end is not None and b.end < at]
        if before:
            last = max(before, key=lambda b: b.end or 0)
            ago = (at - (last.end or 0)) / 1e6
            words.append(f"{ago:.1f} s after the last fault ({_fault(last)}) ended")
        elif bands:
            words.append("before the first fault")
    return "; ".join(words) + "."


def _fault(band: Band) -> str:
    return f"{band.kind} of {', '.join(band.targets) or band.shape}"
