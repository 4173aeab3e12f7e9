"""Topics are never lost: by the clients' history, each is present or absent, linearizably.

An acknowledged change is in every later complete read and in the final reads of every node.

A read returns the whole set, so it observes every name. A history of a few thousand reads and some
hundred names would give a million observations, of which most add nothing. Therefore reads are
reduced to runs. The reads of a run agree on a name, overlap with no read that disagrees, and lie
between two neighbouring invocations or completions of changes of that name. Of each run only two
reads are kept: the one that ended first and the one that began last. If these two have a legal
place, the others have one too: a change between them is open all the time, so it can be moved
behind the later read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kraftwreck.checkers.calls import OPEN, Call
from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.linearizability.decide import Outcome
from kraftwreck.checkers.linearizability.decide import check as search
from kraftwreck.checkers.linearizability.keyed import describe
from kraftwreck.checkers.linearizability.models import MODELS
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import FAIL, OK
from kraftwreck.histories.verdict import CheckerResult

_CHANGES = frozenset({"create", "delete"})
_MODEL = MODELS["set-presence"]


class Reads:
    """All complete reads of the set, by invocation, as columns."""

    def __init__(self, calls: Sequence[Call], names: Sequence[str]) -> None:
        self.calls = [c for c in calls if c.f == "read" and c.type == OK]
        self.starts = np.array([c.start for c in self.calls], dtype=np.int64)
        self.ends = np.array([c.end for c in self.calls], dtype=np.int64)
        self.latest_end = np.maximum.accumulate(self.ends) if self.calls else self.ends
        self.present = np.zeros((len(names), len(self.calls)), dtype=np.bool_)
        position = {name: i for i, name in enumerate(names)}
        for column, call in enumerate(self.calls):
            rows = [position[name] for name in call.value]
            self.present[rows, column] = True


def check(run: RunData) -> CheckerResult:
    """Judge the set of topics; a history without one is valid."""
    findings, doubts, numbers = judge(run.calls, run.nodes)
    return findings.judged("; ".join(doubts) or None, {**numbers, "broken": findings.counts})


def judge(
    calls: Sequence[Call], nodes: Sequence[str]
) -> tuple[Findings, list[str], dict[str, Any]]:
    """Return anomalies, doubts, and counts; empty ones for a history without a set."""
    findings = Findings()
    changes: dict[str, list[Call]] = {}
    for call in calls:
        if call.f in _CHANGES:
            name = call.key if isinstance(call.key, str) else call.argument
            if isinstance(name, str):  # A register is deleted too, but it is not in the set.
                changes.setdefault(name, []).append(call)
    if not changes:
        return findings, [], {}
    sets = [c for c in calls if c.f == "read" and isinstance(c.value, list)]
    names = sorted({*changes, *(name for call in sets for name in call.value)})
    reads = Reads(sets, names)
    doubts = _missing_finals(calls, nodes)
    kept = 0
    for row, name in enumerate(names):
        own = [call for call in changes.get(name, ()) if call.type != FAIL]
        observed = _telling_reads(reads, reads.present[row], own)
        kept += len(observed)
        if not own and not observed:
            continue
        outcome = search(_MODEL, sorted(own + observed, key=lambda c: c.start))
        if outcome.valid is False:
            kind, text = _explain(name, outcome)
            findings.add(kind, text, operations=_proof(outcome, own))
        elif outcome.valid == "unknown":
            doubts.append(f"topic {name}: {outcome.reason}")
    acknowledged = sum(c.type == OK for own in changes.values() for c in own)
    numbers = {
        "names": len(names),
        "acknowledged_changes": acknowledged,
        "complete_reads": len(reads.calls),
        "observations_searched": kept,
    }
    return findings, doubts, numbers


def _missing_finals(calls: Sequence[Call], nodes: Sequence[str]) -> list[str]:
    finals = [c for c in calls if c.final and c.f == "read"]
    answered = {call.node for call in finals if call.type == OK}
    without = [name for name in nodes if name not in answered]
    return [f"no complete final read from {', '.join(without)}"] if without else []


def _telling_reads(reads: Reads, seen: NDArray[np.bool_], own: list[Call]) -> list[Call]:
    """Return the reads that matter for one name, as reads of true or false."""
    count = len(reads.calls)
    if not count:
        return []
    borders = sorted({c.start for c in own} | {c.end for c in own if c.end != OPEN})
    if borders:
        first = np.searchsorted(borders, reads.starts)
        segment = np.where(first == np.searchsorted(borders, reads.ends), first, -1)
    else:
        segment = np.zeros(count, dtype=np.int64)
    # Cut where the segment or the answer changes; a read across a border is a run by itself.
    differs = (segment[1:] != segment[:-1]) | (seen[1:] != seen[:-1])
    cuts = np.flatnonzero(differs | (segment[1:] < 0)) + 1
    bounds = [0, *cuts.tolist(), count]
    keep: list[int] = []
    for begin, end in pairwise(bounds):
        if segment[begin] < 0:
            keep.extend(range(begin, end))
        else:
            keep.extend(_ends_of_run(reads, seen, begin, end))
    return [_observation(reads.calls[i], bool(seen[i])) for i in keep]


def _ends_of_run(reads: Reads, seen: NDArray[np.bool_], begin: int, end: int) -> list[int]:
    """Return which of the agreeing reads ``begin`` … ``end - 1`` to keep."""
    starts, ends = reads.starts, reads.ends
    before = int(reads.latest_end[begin - 1]) if begin else -1
    after = int(starts[end]) if end < len(starts) else OPEN
    clean_from = begin + int(np.searchsorted(starts[begin:end], before, side="right"))
    clean = clean_from + np.flatnonzero(ends[clean_from:end] < after)
    if not clean.size:
        return list(range(begin, end))
    dropped = np.zeros(end - begin, dtype=np.bool_)
    dropped[clean - begin] = True
    first = clean[np.argmin(ends[clean])]
    dropped[[first - begin, clean[-1] - begin]] = False
    kept: list[int] = (begin + np.flatnonzero(~dropped)).tolist()
    return kept


def _observation(call: Call, present: bool) -> Call:
    copy: Call = msgspec.structs.replace(call, value=present)
    return copy


def _explain(name: str, outcome: Outcome) -> tuple[str, str]:
    """Return the anomaly's type and why no order explains the topic's history."""
    stuck = outcome.stuck
    assert stuck is not None
    if stuck.f != "read":
        return "nonlinearizable", (
            f"Topic {name}: {describe(stuck)} was acknowledged although the topic must have been "
            f"{'present' if stuck.f == 'create' else 'absent'} at that time."
        )
    final = f"the final read of {stuck.node}" if stuck.final else "a read"
    where = f"{final} (process {stuck.process}, operations {stuck.start}–{stuck.completion})"
    if not stuck.value:
        return "lost", (
            f"Topic {name} was created and acknowledged or seen before, and no deletion explains "
            f"why it is missing from {where}."
        )
    if not outcome.states:
        return "phantom", f"Topic {name} is in {where}, but no operation created it."
    return "resurrected", (
        f"Topic {name} is in {where}, although at that time it was either not yet created or "
        "already deleted, and no creation explains it."
    )


def _proof(outcome: Outcome, own: list[Call]) -> list[int]:
    stuck = outcome.stuck
    assert stuck is not None
    indices = {i for call in outcome.window for i in call.indices} | set(stuck.indices)
    earlier = [c for c in own if c.type == OK and c.end < stuck.start]
    if earlier:
        indices |= set(max(earlier, key=lambda c: c.end).indices)
    return sorted(indices)
