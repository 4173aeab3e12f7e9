"""The state of one replica, from its trace events so far."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kraftwreck.checkers.kraft.quorum_model.log_chain import START, BatchId
from kraftwreck.histories.trace import TraceEvent

NO_DIRECTORY = bytes(16).hex()
"""The directory id of a voter whose disk is unknown."""


FOREVER = 1 << 62


@dataclass(slots=True, eq=False)
class Replica:
    """One node's position, votes and log, over all its incarnations.

    ``end`` is the log end offset that follows from appends and truncations, None while unknown.
    ``unseen`` are ranges of offsets that were in the log at a start although their appends
    were not traced (the process died between writing and reporting).
    """

    name: str
    id: int
    until: int = FOREVER
    """When the judged time ends, by the node's monotonic clock (µs)."""
    _at_end: Replica | None = field(default=None, init=False)
    incarnation: int = 0
    seq: int = -1
    state: str = ""
    last: TraceEvent | None = None
    moved: TraceEvent | None = None
    """The last event, and the last one that moved the high watermark."""
    epoch_seen: int = -1
    """The highest epoch ever, on any disk."""
    gap: bool = False
    """Whether events of this node are missing."""
    since: int = 0
    """The time (µs of the node's clock) at which it entered its state."""
    epoch: int = -1
    leader: int = -1
    voted: int = -1
    votes: dict[int, tuple[int, TraceEvent]] = field(default_factory=dict)
    """Per epoch, the candidate the node voted for, and the event that shows it."""
    grown: bool = False
    """Whether this incarnation began with a longer or another log than was reported."""
    hw: int = -1
    max_hw: int = -1
    """Highest high watermark of this incarnation."""
    epoch_start: int = -1
    epoch_start_of: int = -1
    """Epoch whose leader this node was elected, and its first offset."""
    bases: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    crcs: list[int] = field(default_factory=list)
    end: int | None = 0
    unseen: list[tuple[int, int]] = field(default_factory=list)
    under_hw: int = 0
    """How many of the tracked batches were seen below the high watermark."""
    delivered: int | None = None
    """The offset that this incarnation delivers next to its state machine; None before the
    first one, -1 when it is unknown."""
    directory: str | None = None
    """The directory id of the disk in the last start event; None if it had none."""
    wiped: bool = False
    """Whether the disk was ever replaced by an empty one."""
    gone: dict[str | None, tuple[set[tuple[int, int]], list[tuple[int, int]]]] = field(
        default_factory=dict
    )
    """Per directory id of a replaced disk: the (base, epoch) of the batches it held, and the
    offsets it may have held without a trace."""
    given: dict[int, dict[str | None, int]] = field(default_factory=dict)
    """Per epoch and directory, the candidate the node voted for, wiped disks included."""
    voters: dict[int, str] = field(default_factory=dict)
    """The voters in force by the node's last report: directory ids by node id."""
    voters_offset: int = -1
    level: int = 0
    """Offset of the record with these voters, and kraft.version."""
    installed: int = -1
    """The end of the last snapshot it installed; this is committed whatever its source."""
    loaded: bool = False
    """Whether this process has loaded a snapshot."""
    fetched: bool = False
    """Whether it has appended from the leader that it follows."""

    @property
    def bit(self) -> int:
        """Its place in a bit set of nodes."""
        return 1 << self.id

    def pass_end(self) -> None:
        """Keep the position: the judged time ends before the next event."""
        self._at_end = replace(self)
        self.until = FOREVER

    @property
    def at_end(self) -> Replica:
        """The position when the judged time ended, the present one until then; its log is the
        present one in any case."""
        return self._at_end or self

    def restart(self, leo: int) -> None:
        """Begin a new incarnation with a log that ends at ``leo``."""
        self.grown = self.end is None or leo > self.end
        if self.end is None or leo > self.end:
            self.unseen.append((self.end or 0, leo))
        elif leo < self.end:
            self.cut(leo)
        self.end = leo
        self.hw = self.max_hw = -1
        self.under_hw = 0
        self.delivered = None
        self.epoch_start_of = -1
        self.loaded = self.fetched = False

    def replaced(self, begin: int, leo: int) -> None:
        """Note that the log may have changed from offset ``begin`` up to its end ``leo``."""
        self.cut(begin)
        self.unseen.append((begin, leo))
        self.end = leo
        self.grown = True

    def wipe(self) -> None:
        """Begin with a new, empty disk: the node is another replica without promises."""
        self.wiped = True
        held = set(zip(self.bases, self.epochs, strict=True))
        self.gone[self.directory] = held, list(self.unseen)
        self.votes = {}
        self.epoch = self.voted = self.leader = -1
        self.cut(0)
        self.unseen = []
        self.voters = {}
        self.voters_offset = -1

    def begin_at(self, offset: int) -> None:
        """Empty the log and continue at ``offset``, the end of a snapshot."""
        self.cut(0)
        self.bases, self.epochs, self.lasts, self.crcs = [], [], [], []
        self.unseen = [(0, offset)]
        self.under_hw = 0
        self.end = offset

    def forget(self) -> None:
        """Forget all that missing events may have changed."""
        self.gap = True
        self.end = None
        self.delivered = -1
        self.state = ""

    def push(self, base: int, epoch: int, last: int, crc: int) -> BatchId | None:
        """Append a batch; return the batch before it, None if unknown."""
        before: BatchId | None
        if not self.bases:
            before = START if base == 0 else None
        elif self.lasts[-1] + 1 == base:
            before = (self.bases[-1], self.epochs[-1])
        else:
            before = None
        self.bases.append(base)
        self.epochs.append(epoch)
        self.lasts.append(last)
        self.crcs.append(crc)
        self.end = last + 1
        return before

    def cut(self, to: int) -> None:
        """Remove the batches that end at or after offset ``to``."""
        while self.lasts and self.lasts[-1] >= to:
            self.bases.pop()
            self.epochs.pop()
            self.lasts.pop()
            self.crcs.pop()
        self.under_hw = min(self.under_hw, len(self.bases))
        self.end = to

    def first_at(self, offset: int) -> int | None:
        """Return the place of the first batch that ends at or after ``offset``, None if none."""
        place = bisect_left(self.lasts, offset)
        return place if place < len(self.lasts) else None

    def tip(self) -> BatchId | None:
        """The last batch, if the log is known up to its end."""
        if not self.bases:
            return START if self.end == 0 else None
        if self.lasts[-1] + 1 != self.end:
            return None
        return (self.bases[-1], self.epochs[-1])

    @property
    def votes_itself(self) -> bool:
        """Whether the node is one of the voters that it reported; True if it reported none."""
        return not self.voters or self.voters.get(self.id) in (self.directory, NO_DIRECTORY)

    def has_delivered(self, end: int) -> None:
        """Note that its state machine has everything below ``end``, from a snapshot."""
        if self.delivered is None or 0 <= self.delivered < end:
            self.delivered = end

    def is_one_of(self, voters: Mapping[int, str]) -> bool:
        """Return whether this node, with its present disk, may be one of ``voters``."""
        wanted = voters.get(self.id)
        return wanted is not None and (
            wanted == NO_DIRECTORY or self.directory is None or wanted == self.directory
        )

    def voted_with(self, voters: Mapping[int, str], base: int, epoch: int, last: int) -> bool:
        """Return whether one of ``voters`` is a replaced disk of this node that held the batch:
        its earlier acknowledgements count."""
        wanted = voters.get(self.id)
        if wanted is None:
            return False
        return any(
            (base, epoch) in held or any(begin <= last < end for begin, end in unseen)
            for directory, (held, unseen) in self.gone.items()
            if wanted in (NO_DIRECTORY, directory)
        )

    def may_hold(self, offset: int) -> bool:
        """Return whether ``offset`` may be in the log without a trace."""
        return any(begin <= offset < end for begin, end in self.unseen)

    def votes_in(self, epoch: int) -> dict[str | None, int]:
        """Return the candidate of ``epoch`` that each of its disks voted for."""
        return self.given.get(epoch, {})
