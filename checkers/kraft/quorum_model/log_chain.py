"""All logs of a run as one tree of batches, and its committed part.

A batch is known by (base offset, epoch). By LogMatching (I8) that identifies its bytes and all
batches before it. So one predecessor per batch is enough to compare whole logs, and a log is
known by its last batch. Ids are those of KRAFT's invariants: I8 LogMatching, I9
LeaderCompleteness, I10 CommittedStable, I11 CommittedOnMajority.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kraftwreck.histories.trace import TraceEvent

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
    lacks: bool = False
    """Whether its log was found to lack a commit of an older epoch."""


START: BatchId = (-1, -1)
"""Stands before the first batch of a log."""


Finding = tuple[str, list[TraceEvent]]
"""An explanation, and the events that show it."""
Add = Callable[[str, str, list[TraceEvent]], None]
"""Reports a finding: rule, explanation, events."""


class LogChain:
    """The batches of all logs, fed by traces and disk images in any order. ``add`` is called with
    what breaks a rule."""

    def __init__(self, add: Add) -> None:
        self.add = add
        self.batches: dict[BatchId, Batch] = {}
        self.committed: dict[int, Committed] = {}
        self.end = 0
        """The offset after the last record known to be committed."""
        self._epochs: dict[int, int] = {0: 0}
        """The epochs of committed batches by their end."""
        self.elections: list[Election] = []
        self.high_watermarks: dict[int, tuple[int, TraceEvent]] = {}
        """Per epoch, the highest high watermark seen by a node in it."""
        self._tips: dict[int, Committed] = {}
        """The last batch committed in each epoch."""

    def epoch_before(self, offset: int) -> int | None:
        """Return the epoch of the committed batch that ends at ``offset``, -1 if one goes past it;
        None if neither is known."""
        known = self._epochs.get(offset)
        if known is not None or offset > self.end:
            return known
        within = any(e.id[0] < offset <= e.last for e in self.committed.values())
        return -1 if within else None

    def appended(self, entry: Committed) -> TraceEvent | None:
        """Return the first event that shows a committed batch in a log, None without one."""
        batch = self.batches.get(entry.id)
        return None if batch is None else batch.event

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
        self.add(
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
            known = Committed((base, epoch), crc, last, at_epoch, where, event)
            self.committed[base] = known
            self._epochs[last + 1] = epoch
            self.end = max(self.end, last + 1)
            self._tip(known)
            return True
        if known.id[1] != epoch or known.crc != crc or known.last != last:
            self.add(
                "I10",
                f"Offset {base} below the high watermark holds a batch of epoch {epoch} on {where} "
                f"and another of epoch {known.id[1]} on {known.where}.",
                [e for e in (known.event, event) if e is not None],
            )
        elif at_epoch < known.at_epoch:
            known.at_epoch = at_epoch
            self._tip(known)
        return False

    def _tip(self, entry: Committed) -> None:
        best = self._tips.get(entry.at_epoch)
        if best is None or best.id[0] < entry.id[0]:
            self._tips[entry.at_epoch] = entry

    def lacking(self, election: Election) -> Finding | None:
        """Return which batch of the known commits in older epochs a leader lacks, None if none."""
        epoch = election.epoch
        older = [(at[0], -e, at[1]) for e, at in self.high_watermarks.items() if e < epoch]
        highest, _, witness = max(older, key=lambda each: each[:2], default=(-1, 0, None))
        if witness is not None and highest > election.epoch_start:
            return (
                f"{election.node} became leader of epoch {epoch} with a log that ends at "
                f"{election.epoch_start}, but {witness.node} had committed up to {highest} in "
                f"epoch {witness.epoch}.",
                [witness, election.event],
            )
        tips = (tip for e, tip in self._tips.items() if e < epoch)
        committed = max(tips, key=lambda tip: tip.id[0], default=None)
        at = election.tip
        if committed is None:
            return None
        while at is not None and at[0] > committed.id[0]:
            batch = self.batches.get(at)
            at = None if batch is None else batch.before
        if at in (None, START, committed.id) or at is None or at[0] != committed.id[0]:
            return None
        return (
            f"{election.node} became leader of epoch {epoch} with a batch of epoch {at[1]} at "
            f"offset {at[0]}, where a batch of epoch {committed.id[1]} was committed on "
            f"{committed.where}.",
            [e for e in (committed.event, election.event) if e is not None],
        )
