"""Fetches that the leader has not answered yet (long polls), and how it answers each.

The leader answers a parked fetch when the log grows past its offset, when the high watermark moves
past the fetcher's, when leadership is lost, or at its timeout. At the timeout it sends the answer
that it computed on arrival (KAFKA-15100).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraftwreck.nodes.consensus.effects import Reply
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.member import Member
from kraftwreck.nodes.consensus.kraft.messages import FetchRequest, FetchResponse
from kraftwreck.nodes.consensus.kraft.states import NEVER
from kraftwreck.nodes.protocol import errors

MAX_PARKED: Final = 1000
"""Fetches parked at a leader. Beyond that, the oldest is answered as if it had timed out."""
MAX_BYTES: Final = 8 << 20
"""Bytes of records in one answer, whatever limit the request names; one batch always fits."""


@dataclass(slots=True)
class Parked:
    """One unanswered fetch; ``deadline`` in microseconds."""

    token: int
    request: FetchRequest
    deadline: int
    response: FetchResponse


def fetch_error(replica: Member, partition_error: int, error: int = errors.NONE) -> FetchResponse:
    """Return a Fetch answer with only error, leader and epoch."""
    return FetchResponse(
        error,
        partition_error,
        replica.leader_id,
        replica.epoch,
        -1,
        -1,
        -1,
        -1,
        -1,
        -1,
        b"",
        replica.leader_endpoint,
    )


@dataclass(slots=True, frozen=True)
class Verdict:
    """The result of comparing a fetch offset with the leader's log: at most one field is set.

    ``diverging`` is the ``(epoch, end offset)`` where the logs diverge, ``snapshot`` the id ``(end
    offset, epoch)`` of the snapshot to fetch instead.
    """

    diverging: tuple[int, int] | None = None
    snapshot: tuple[int, int] | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the fetcher's log is a prefix of this one."""
        return self.diverging is None and self.snapshot is None


VALID = Verdict()


def validate(replica: Member, offset: int, last_epoch: int) -> Verdict:
    """Compare a fetcher's ``(offset, last epoch)`` with this log (KRAFT 2.6)."""
    log, snapshots = replica.log, replica.snapshots
    latest = snapshots[-1].id if snapshots else None
    if offset == 0 and latest is not None and latest != (0, 0):
        return Verdict(snapshot=latest)
    if offset == 0 and log.start_offset == 0:
        return VALID
    if latest is not None:
        earliest = snapshots[0]
        behind = offset < log.start_offset or last_epoch < earliest.epoch
        foreign = offset == log.start_offset and last_epoch != earliest.epoch
        if behind or foreign:
            return Verdict(snapshot=latest)
    end, epoch = log.end_offset_for_epoch(last_epoch)
    if latest is not None and (end, last_epoch) == snapshots[0].id:
        epoch = last_epoch  # The log begins at the end of a snapshot of this very epoch.
    if epoch != last_epoch or end < offset:
        return Verdict(diverging=(epoch, end))
    return VALID


def answer(replica: Member, request: FetchRequest, verdict: Verdict = VALID) -> FetchResponse:
    """Answer ``request`` now; ``verdict`` is the result of :func:`validate`."""
    response = fetch_error(replica, errors.NONE)
    response.log_start_offset = replica.log.start_offset
    if verdict.diverging is not None:
        response.diverging_epoch, response.diverging_end = verdict.diverging
    elif verdict.snapshot is not None:
        response.snapshot_end, response.snapshot_epoch = verdict.snapshot
    else:
        allowed = min(request.max_bytes, MAX_BYTES)
        response.records = replica.log.read(request.fetch_offset, allowed)
    response.high_watermark = replica.high_watermark
    return response


class ParkedFetches:
    """All parked fetches of a leader, in order of arrival."""

    __slots__ = ("_parked", "next_deadline")

    def __init__(self) -> None:
        self._parked: list[Parked] = []
        self.next_deadline = NEVER

    def park(self, replica: Member, parked: Parked) -> None:
        """Park a fetch for which there is nothing new."""
        self._parked.append(parked)
        if len(self._parked) > MAX_PARKED:
            first = self._parked.pop(0)
            replica.effects.append(Reply(first.token, first.response))
        self.next_deadline = min(self.next_deadline, parked.deadline)

    def _keep(self, parked: list[Parked]) -> None:
        self._parked = parked
        self.next_deadline = min((p.deadline for p in parked), default=NEVER)

    def complete(self, replica: Member, *, high_watermark_changed: bool) -> None:
        """Answer the fetches that have news: a longer log or a higher high watermark."""
        if not isinstance(replica.state, Leader) or not self._parked:
            return
        kept: list[Parked] = []
        end = replica.log.end_offset
        for parked in self._parked:
            request = parked.request
            news = end > request.fetch_offset or (
                high_watermark_changed and replica.high_watermark > request.high_watermark
            )
            if news:
                # The log may have been cleaned past the offset since the fetch arrived.
                verdict = validate(replica, request.fetch_offset, request.last_fetched_epoch)
                replica.effects.append(Reply(parked.token, answer(replica, request, verdict)))
            else:
                kept.append(parked)
        self._keep(kept)

    def expire(self, replica: Member) -> None:
        """Answer the fetches that have timed out."""
        if self.next_deadline > replica.now:
            return
        kept = []
        for parked in self._parked:
            if parked.deadline <= replica.now:
                replica.effects.append(Reply(parked.token, parked.response))
            else:
                kept.append(parked)
        self._keep(kept)

    def fail_all(self, replica: Member) -> None:
        """Answer all parked fetches: this node no longer leads."""
        parked, self._parked = self._parked, []
        self.next_deadline = NEVER
        for fetch in parked:
            response = fetch_error(replica, errors.NOT_LEADER_OR_FOLLOWER)
            replica.effects.append(Reply(fetch.token, response))
