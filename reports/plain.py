"""What an anomaly means, for a reader who has never heard of its name."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.invariants.table import TABLE
from reports.bands import Band
from reports.node_lanes import NodeLane
from reports.words import seconds_text

_STATEMENTS = {invariant.id: invariant for invariant in TABLE}

_MEANINGS = {
    "nonlinearizable": "The clients were given answers that no order of their operations can "
    "explain: the system did not behave like a single copy of the data.",
    "nonconformant": "A node did what the protocol does not let it do.",
    "stale-leader": "A leader went on long after its successor had been elected.",
    "lost": "Something that was acknowledged is not there any more.",
    "lost-write": "Something that was acknowledged is not there any more.",
    "unexpected": "Something was read that nobody ever wrote.",
    "duplicated": "Something that was done once is there more than once.",
    "stale": "A read that began after a newer value was acknowledged returned an older one.",
    "nonmonotonic": "Values went back in time.",
    "out-of-order": "Things came out in another order than they went in.",
    "long-fork": "Two readers saw two writes in opposite orders.",
    "never-ok": "No operation of one kind ever succeeded, so nothing was tested with it.",
    "lost-update": "Two transactions read the same value and both wrote: one write was lost.",
    "internal": "A transaction contradicts what it did itself.",
    "dirty-update": "A transaction committed on top of one that was aborted.",
    "duplicate-elements": "What was appended once was read more than once.",
    "garbage-read": "Something was read that nobody ever wrote.",
    "incompatible-order": "Readers of one list saw orders that contradict each other.",
    "cyclic-versions": "The versions of a key come before each other.",
}

_PHENOMENA = (
    ("G0", "Writes of transactions are interleaved: each overwrote a part of the other."),
    ("G1a", "A transaction read what an aborted transaction wrote."),
    ("G1b", "A transaction read what another had written halfway through."),
    ("G1c", "Transactions each saw the other's writes, in a circle."),
    ("G-single", "A transaction saw some effects of another and missed others (read skew)."),
    ("G-nonadjacent", "Transactions missed each other's writes, in a circle."),
    ("G2", "Transactions missed each other's writes, in a circle (write skew)."),
    ("PL-", "Transactions depend on each other in a circle."),
)


def meaning(kind: str) -> str:
    """Return one sentence for an anomaly of type ``kind``; empty if its name is unknown."""
    invariant = _STATEMENTS.get(kind)
    if invariant is not None:
        return f"A rule is broken that must always hold ({invariant.name}): {invariant.statement}"
    if kind in _MEANINGS:
        return _MEANINGS[kind]
    for beginning, sentence in _PHENOMENA:
        if kind.startswith(beginning):
            if kind.endswith("-realtime"):
                return f"{sentence} What had already ended when another began counts as before it."
            return sentence
    return ""


def circumstances(at: int | None, lanes: Sequence[NodeLane], bands: Sequence[Band]) -> str:
    """Say when an anomaly was, who led then, and what was broken or had just been."""
    if at is None:
        return ""
    leading = [
        f"{lane.node} led epoch {s.epoch}"
        for lane in lanes
        for s in lane.segments
        if s.state == "leader" and s.start <= at <= s.end
    ]
    words = [f"It happened at {seconds_text(at)}"]
    if lanes:
        words.append(" and ".join(leading) if leading else "nobody led")
    now = [b for b in bands if b.start <= at and (b.end is None or b.end >= at)]
    if now:
        words.append(f"in force: {', '.join(_fault(b) for b in now[:4])}")
    else:
        before = [b for b in bands if b.end is not None and b.end < at]
        if before:
            last = max(before, key=lambda b: b.end or 0)
            ago = (at - (last.end or 0)) / 1e6
            words.append(f"the last fault, {_fault(last)}, had ended {ago:.1f} s before")
        elif bands:
            words.append("before any fault")
    return "; ".join(words) + "."


def _fault(band: Band) -> str:
    return f"{band.kind} of {', '.join(band.targets) or band.shape}"
