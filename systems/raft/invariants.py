"""The invariants of Raft, checked on one member after each of its steps (``docs/raft.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.consensus.raft.messages import AppendEntriesResponse, RequestVoteResponse
from kraftwreck.nodes.consensus.raft.states import Candidate, Leader


class BrokenError(AssertionError):
    """An invariant does not hold; the text begins with its name."""


@dataclass(slots=True)
class Seen:
    """A member once the durable effects of its last step are complete.

    ``life`` counts the starts of its process. ``saved`` are the term and the vote (-1: none) on its
    disk, ``flushed_end`` is the end offset of what a crash cannot take from its log. ``applied``
    are the records that its state machine was given since the start, with their offsets.
    """

    id: int
    life: int
    core: RaftCore
    saved: tuple[int, int]
    flushed_end: int
    applied: Sequence[tuple[int, bytes]] = ()


class Invariants:
    """Everything ever seen of a group: leaders, votes, entries, committed entries.

    Every method raises :class:`BrokenError`.
    """

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.entries: dict[tuple[int, int], tuple[Any, ...]] = {}
        self.committed: dict[int, tuple[Any, ...]] = {}
        self.committed_in: dict[int, int] = {}
        """The term of the member that first saw an entry committed, by offset."""
        self._terms: dict[int, int] = {}
        self._commits: dict[int, tuple[int, int]] = {}
        self._logs: dict[int, tuple[Any, ...]] = {}
        self._checked: dict[int, tuple[int, int, int]] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        self._applied: dict[int, tuple[int, int]] = {}
        self._records: dict[int, bytes] = {}
        self._rounds: dict[int, tuple[int, int, int, int]] = {}
        """Of each member that leads: its life and term, the last read that was seen, and the last
        round of which a request was sent."""

    def step(self, seen: Seen) -> None:
        """Check a member after a step."""
        self._promises(seen)
        self._log(seen)
        self._leader(seen)
        self._reads(seen)
        self._commit(seen)
        self._machine(seen)

    def sends(self, seen: Seen, message: Any) -> None:
        """Check a message of a member: it acknowledges only what its disk has."""
        if isinstance(message, AppendEntriesResponse) and message.success:
            match, end = message.match_offset, seen.flushed_end
            if match > end:
                raise BrokenError(f"durable entries: {seen.id} acknowledges {match} of {end}")
        elif isinstance(message, RequestVoteResponse) and message.term > seen.saved[0] > 0:
            raise BrokenError(f"durable promises: {seen.id} answers with a newer term")

    def _promises(self, seen: Seen) -> None:
        core, i = seen.core, seen.id
        if core.term < self._terms.get(i, 0):
            raise BrokenError(f"term: member {i} falls from {self._terms[i]} to {core.term}")
        self._terms[i] = core.term
        if seen.saved != (core.term, core.voted_for):
            raise BrokenError(f"durable promises: {seen.saved}, not {(core.term, core.voted_for)}")
        if core.voted_for >= 0:
            first = self.votes.setdefault((i, core.term), core.voted_for)
            if first != core.voted_for:
                raise BrokenError(f"one vote: member {i} votes twice in term {core.term}")

    def _log(self, seen: Seen) -> None:
        log, i = seen.core.log, seen.id
        known = (seen.life, log.start_offset, log.end_offset, log.last_epoch)
        if self._logs.get(i) == known:
            return
        self._logs[i] = known
        begin, before = self._unchanged(seen)
        for _, header in log.batches_between(begin, log.end_offset):
            place = (header.base_offset, header.epoch)
            first = header.base_offset == log.start_offset
            entry = self.entries.setdefault(place, (header.crc, header.last_offset, before, first))
            if entry[:2] != (header.crc, header.last_offset):
                raise BrokenError(f"log matching: two entries {place}")
            if not first and not entry[3] and entry[2] != before:
                raise BrokenError(f"log matching: {before} and {entry[2]} before {place}")
            if entry[3] and not first:
                self.entries[place] = (*entry[:2], before, False)
            before = place
        if before:
            self._checked[i] = (seen.life, *before)

    def _unchanged(self, seen: Seen) -> tuple[int, tuple[()] | tuple[int, int]]:
        """Return the first offset of a log that is not checked yet, and the entry before.

        A log changes at its end only: if the last checked entry is still there, so are all before.
        """
        log = seen.core.log
        life, offset, epoch = self._checked.get(seen.id, (-1, 0, 0))
        header = log.header_at(offset) if life == seen.life and offset >= log.start_offset else None
        if header is None or (header.base_offset, header.epoch) != (offset, epoch):
            return log.start_offset, ()
        return header.last_offset + 1, (offset, epoch)

    def _leader(self, seen: Seen) -> None:
        core, i = seen.core, seen.id
        state = core.state
        if isinstance(state, Candidate) and core.voted_for != i:
            raise BrokenError(f"one vote: candidate {i} has not voted for itself")
        if not isinstance(state, Leader):
            return
        if self.leaders.setdefault(core.term, i) != i:
            raise BrokenError(
                f"election safety: {self.leaders[core.term]} and {i} lead {core.term}"
            )
        term, end = self._ends.get(i, (-1, 0))
        if term == core.term and core.log.end_offset < end:
            raise BrokenError(
                f"leader append-only: the log of {i} shrinks to {core.log.end_offset}"
            )
        self._ends[i] = (core.term, core.log.end_offset)
        if state.flushed_offset > seen.flushed_end:
            raise BrokenError(f"durable entries: leader {i} counts more than its disk has")
        if term != core.term:
            self._complete(seen)

    def _reads(self, seen: Seen) -> None:
        """A read waits for a round whose first request is sent after it has begun."""
        core, i, state = seen.core, seen.id, seen.core.state
        if not isinstance(state, Leader):
            return
        life, term, last, sent = self._rounds.get(i, (-1, -1, 0, 0))
        if (life, term) != (seen.life, core.term):
            last = sent = 0
        for read in state.reads:
            if read.number > last and read.round <= sent:
                raise BrokenError(
                    f"linearizable reads: read {read.number} of {i} waits for round {read.round},"
                    f" whose requests were sent before it began"
                )
        last = max((read.number for read in state.reads), default=last)
        sent = max((each.round_sent for each in state.progress.values()), default=0)
        self._rounds[i] = seen.life, core.term, last, sent

    def _complete(self, seen: Seen) -> None:
        core = seen.core
        for offset, (epoch, crc) in self.committed.items():
            held = core.log.header_at(offset) if offset >= core.log.start_offset else None
            lacks = held is None or (held.epoch, held.crc) != (epoch, crc)
            # A later leader may commit what a slower winner of an earlier election never had.
            earlier = self.committed_in[offset] < core.term
            if lacks and offset >= core.log.start_offset and earlier:
                raise BrokenError(f"leader completeness: {seen.id} lacks {offset} in {core.term}")

    def _commit(self, seen: Seen) -> None:
        core, i = seen.core, seen.id
        life, before = self._commits.get(i, (0, 0))
        if life != seen.life:
            before = 0
        if core.commit_offset < before:
            raise BrokenError(f"monotonic commit: {before} to {core.commit_offset} on {i}")
        if core.commit_offset > before:
            start = max(before, core.log.start_offset)
            for _, header in core.log.batches_between(start, core.commit_offset):
                entry = (header.epoch, header.crc)
                self.committed_in.setdefault(header.base_offset, core.term)
                if self.committed.setdefault(header.base_offset, entry) != entry:
                    raise BrokenError(f"state machine safety: two entries committed at {header}")
        self._commits[i] = (seen.life, core.commit_offset)

    def _machine(self, seen: Seen) -> None:
        life, count = self._applied.get(seen.id, (0, 0))
        count = count if life == seen.life else 0
        for offset, record in seen.applied[count:]:
            if self._records.setdefault(offset, record) != record:
                raise BrokenError(f"state machine safety: two records applied at {offset}")
        self._applied[seen.id] = (seen.life, len(seen.applied))
