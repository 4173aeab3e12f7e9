"""The fetches of a broker as a follower: one in flight for each leader."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.replication.effects import AskOffsets, FetchFrom
from kraftwreck.nodes.replication.events import FetchAnswered, FetchPart, OffsetsAnswered
from kraftwreck.nodes.replication.following import BACKOFF_US, NEVER, Following
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition, Surroundings

MAX_WAIT_MS: Final = 500
"""``replica.fetch.wait.max.ms``."""


class Fetchers:
    """The partitions that this broker follows, by leader, and the requests in flight."""

    def __init__(self, with_: Surroundings) -> None:
        self._with = with_
        self._correlations = 0
        self._following: dict[PartitionKey, Following] = {}
        self._leaders: dict[int, dict[PartitionKey, Following]] = {}
        self._fetches: dict[int, FetchFrom] = {}
        self._asked: dict[int, AskOffsets] = {}
        self._busy: set[int] = set()

    @property
    def deadline(self) -> int:
        """The time at which the next fetch is due, µs."""
        due = NEVER
        for leader, parts in self._leaders.items():
            if leader not in self._busy:
                due = min(due, *(each.due for each in parts.values()))
        return due

    def follow(self, partition: Partition) -> None:
        """Follow the leader that the partition has now, or none."""
        assignment = partition.assignment
        old = self._following.get(partition.key)
        follows = partition.log is not None and not partition.leading and assignment.leader >= 0
        if old is not None:
            same = (old.leader, old.epoch) == (assignment.leader, assignment.leader_epoch)
            if follows and same:
                return
            self.forget(partition.key)
        if follows:
            new = self._following[partition.key] = Following(partition)
            self._leaders.setdefault(new.leader, {})[partition.key] = new

    def forget(self, key: PartitionKey) -> None:
        """Follow nobody for this partition; answers in flight are ignored."""
        old = self._following.pop(key, None)
        if old is not None:
            parts = self._leaders[old.leader]
            del parts[key]
            if not parts:
                del self._leaders[old.leader]

    def flushed(self, key: PartitionKey) -> None:
        """Go on with a partition whose fetch waited for a flush."""
        each = self._following.get(key)
        if each is not None:
            each.flushed(self._with.now)

    def delay(self, key: PartitionKey) -> None:
        """Fetch this partition later, since its batches cannot be written now.

        The rest of its log may be durable. Then no flush follows, for which a fetch could wait.
        """
        each = self._following.get(key)
        if each is not None:
            each.due, each.held = self._with.now + BACKOFF_US, False

    def fetched(self, event: FetchAnswered) -> None:
        """Use a leader's answer."""
        sent = self._fetches.pop(event.correlation, None)
        if sent is None:
            return
        self._busy.discard(sent.leader)
        asked = {part.key: part for part in sent.parts}
        now = self._with.now
        answers = {part.key: part for part in event.parts or ()}
        for key, request in asked.items():
            each = self._owner(key, sent.leader, request)
            if each is None:
                continue
            if key in answers:
                each.answered(request, answers[key], now)
                if answers[key].batches:
                    self._go_last(sent.leader, key)
            elif event.parts is None:
                each.due = now + BACKOFF_US
            if each.partition.log is None:
                self.forget(key)

    def offsets(self, event: OffsetsAnswered) -> None:
        """Use a leader's log starts and ends."""
        sent = self._asked.pop(event.correlation, None)
        if sent is None:
            return
        self._busy.discard(sent.leader)
        epochs = dict(sent.parts)
        now = self._with.now
        answers = {part[0]: part[1:] for part in event.parts or ()}
        for key, epoch in epochs.items():
            each = self._following.get(key)
            if each is None or each.leader != sent.leader:
                continue
            if key in answers:
                each.offsets(epoch, *answers[key], now)
            else:
                each.due = now + BACKOFF_US
            if each.partition.log is None:
                self.forget(key)

    def tick(self) -> None:
        """Send the requests that are due."""
        now = self._with.now
        for leader, parts in self._leaders.items():
            if leader in self._busy:
                continue
            due = [each for each in parts.values() if each.due <= now and each.may_fetch()]
            asks = tuple((each.partition.key, each.epoch) for each in due if each.asks)
            if not due:
                continue
            self._correlations += 1
            self._busy.add(leader)
            if asks:
                question = AskOffsets(leader, self._correlations, asks)
                self._asked[self._correlations] = question
                self._with.effects.append(question)
            else:
                requests = tuple(each.request() for each in due)
                fetch = FetchFrom(leader, self._correlations, MAX_WAIT_MS, requests)
                self._fetches[self._correlations] = fetch
                self._with.effects.append(fetch)

    def _go_last(self, leader: int, key: PartitionKey) -> None:
        """Ask for a partition after the others of its leader: an answer has room for few."""
        parts = self._leaders[leader]
        parts[key] = parts.pop(key)

    def _owner(self, key: PartitionKey, leader: int, request: FetchPart) -> Following | None:
        each = self._following.get(key)
        if each is None or each.leader != leader or each.epoch != request.leader_epoch:
            return None
        return each
