"""All logs of a run as one tree of batches, and its committed part.

A batch is known by (base offset, epoch). By LogMatching (I8) that identifies its bytes and all
batches before it. So one predecessor per batch is enough to compare whole logs, and a log is
known by its last batch. Ids are those of KRAFT's invariants: I8 LogMatching, I9
LeaderCompleteness, I10 CommittedStable, I11 CommittedOnMajority.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kraftwreck.checkers.findings import Findings
from kraftwreck.histories.trace import TraceEvent

T = TypeVar("T")
BatchId = tuple[int, int]
"""(base offset, epoch)."""


@dataclass(slots=True)
class Batch:
    """``before`` is None until a log shows the preceding batch; ``holders`` is a bit set."""

    last: int
    crc: int
    before: BatchId | None
    holders: int
    where: str
    event: TraceEvent | None


@dataclass(slots=True)
class Committed:
    """A batch below some node's high watermark; ``at_epoch`` is that node's epoch."""

    id: BatchId
    crc: int
    last: int
    at_epoch: int
    where: str
    event: TraceEvent | None


@dataclass(slots=True)
class Election:
    """A leader at its election: ``tip`` is the last batch of its log then, if known."""

    epoch: int
    node: str
    epoch_start: int
    tip: BatchId | None
    event: TraceEvent
    voters: dict[int, str] = field(default_factory=dict)
    """Directory ids of the voters then in force on the node, if it reported them."""


START: BatchId = (-1, -1)
"""Stands before the first batch of a log."""


class _Highest(Generic[T]):
    """The highest of some offsets in all epochs below one, with its evidence."""

    def __init__(self, told: Iterable[tuple[int, int, T]]) -> None:
        """``told`` are (epoch, offset, evidence)."""
        self._epochs: list[int] = []
        self._best: list[tuple[int, T]] = []
        for epoch, offset, what in sorted(told, key=lambda each: each[:2]):
            if not self._best or offset > self._best[-1][0]:
                self._epochs.append(epoch)
                self._best.append((offset, what))

    def below(self, epoch: int) -> tuple[int, T | None]:
        """Return the highest offset of lower epochs, of equal ones the first; -1 for none."""
        place = bisect_left(self._epochs, epoch)
        return self._best[place - 1] if place else (-1, None)


class LogChain:
    """The batches of all logs, fed by traces and disk images in any order."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.batches: dict[BatchId, Batch] = {}
        self.committed: dict[int, Committed] = {}
        self.elections: list[Election] = []
        self.completeness_checked = 0
        """Elections whose log was compared with the commits before."""
        self.high_watermarks: dict[int, tuple[int, TraceEvent]] = {}
        """Per epoch, the highest high watermark seen by a node in it."""

    def report_to(self, findings: Findings) -> None:
        """Put findings from now on into ``findings``."""
        self.findings = findings

    def hold(
        self,
        where: str,
        bit: int,
        base: int,
        epoch: int,
        last: int,
        crc: int,
        before: BatchId | None,
        event: TraceEvent | None = None,
    ) -> None:
        """Note that ``where`` (node ``bit``) has this batch after ``before`` (None: unknown)."""
        batch = self.batches.get((base, epoch))
        if batch is None:
            self.batches[base, epoch] = Batch(last, crc, before, bit, where, event)
            return
        batch.holders |= bit
        if batch.crc != crc or batch.last != last:
            self._differ(batch, base, epoch, where, event, "has other content")
        elif before is not None:
            if batch.before is None:
                batch.before = before
            elif batch.before != before:
                self._differ(batch, base, epoch, where, event, "follows another batch")

    def _differ(
        self, batch: Batch, base: int, epoch: int, where: str, event: TraceEvent | None, how: str
    ) -> None:
        self.findings.add(
            "I8",
            f"Logs do not match: the batch at offset {base} of epoch {epoch} {how} on {where} "
            f"than on {batch.where}.",
            [e for e in (batch.event, event) if e is not None],
        )

    def commit(
        self,
        where: str,
        base: int,
        epoch: int,
        last: int,
        crc: int,
        at_epoch: int,
        event: TraceEvent | None,
    ) -> bool:
        """Note a batch below a high watermark; return whether it was not known as such."""
        known = self.committed.get(base)
        if known is None:
            self.committed[base] = Committed((base, epoch), crc, last, at_epoch, where, event)
            return True
        if known.id[1] != epoch or known.crc != crc or known.last != last:
            self.findings.add(
                "I10",
                f"Offset {base} below the high watermark holds a batch of epoch {epoch} on {where} "
                f"and another of epoch {known.id[1]} on {known.where}.",
                [e for e in (known.event, event) if e is not None],
            )
        elif at_epoch < known.at_epoch:
            known.at_epoch = at_epoch
        return False

    def check_leader_completeness(self) -> None:
        """I9: a leader's log holds all batches that were committed in lower epochs."""
        heights = _Highest(
            (epoch, value, event) for epoch, (value, event) in self.high_watermarks.items()
        )
        tips = _Highest((e.at_epoch, e.id[0], e) for e in self.committed.values())
        for election in self.elections:
            highest, witness = heights.below(election.epoch)
            self.completeness_checked += witness is not None
            if witness is not None and highest > election.epoch_start:
                self.findings.add(
                    "I9",
                    f"{election.node} became leader of epoch {election.epoch} with a log that ends "
                    f"at {election.epoch_start}, but {witness.node} had committed up to {highest} "
                    f"in epoch {witness.epoch}.",
                    [witness, election.event],
                )
                continue
            _, tip = tips.below(election.epoch)
            if tip is not None:
                self._check_tip(election, tip)

    def _check_tip(self, election: Election, committed: Committed) -> None:
        at = election.tip
        while at is not None and at[0] > committed.id[0]:
            batch = self.batches.get(at)
            at = None if batch is None else batch.before
        if at is not None and at != START and at != committed.id and at[0] == committed.id[0]:
            self.findings.add(
                "I9",
                f"{election.node} became leader of epoch {election.epoch} with a batch of epoch "
                f"{at[1]} at offset {at[0]}, where a batch of epoch {committed.id[1]} was "
                f"committed on {committed.where}.",
                [e for e in (committed.event, election.event) if e is not None],
            )
