"""A leader's knowledge of the other replicas, and the ISR with the change of it in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraftwreck.nodes.replication.effects import Proposal
from kraftwreck.nodes.replication.events import Peer

UNKNOWN = -1


@dataclass(slots=True)
class Remote:
    """Another replica as its fetches show it. ``caught_up`` is the last time (µs) at which it had
    all that the leader had."""

    caught_up: int
    end: int = UNKNOWN
    start: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    fetched_at: int = 0
    leader_end_then: int = 1 << 62

    def fetched(
        self, offset: int, log_start: int, broker_epoch: int, leader_end: int, now: int
    ) -> None:
        """Note a fetch at ``offset`` whose history does not diverge from the leader's."""
        if offset >= leader_end:
            self.caught_up = max(self.caught_up, now)
        elif offset >= self.leader_end_then:
            self.caught_up = max(self.caught_up, self.fetched_at)
        self.end = offset
        self.start = log_start
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.leader_end_then = leader_end

    def is_caught_up(self, leader_end: int, now: int, lag_us: int) -> bool:
        """Return whether the replica is at the leader's end, or was not long ago."""
        return self.end == leader_end or now - self.caught_up <= lag_us

    def is_eligible(self, peer: Peer | None) -> bool:
        """Return whether the metadata allows the process that fetches in an ISR (KIP-841)."""
        return (
            peer is not None and peer.eligible and self.broker_epoch in (UNKNOWN, peer.epoch)
        )  # fmt: skip


@dataclass(slots=True)
class Pending:
    """A proposed change that the controller may or may not have made.

    ``maximal`` holds the members of the ISR before it and of the one proposed (KIP-497).
    """

    proposal: Proposal
    maximal: frozenset[int]


class InSync:
    """The ISR of a partition that this broker leads."""

    __slots__ = ("isr", "pending", "remotes")

    def __init__(self) -> None:
        self.isr: tuple[int, ...] = ()
        self.pending: Pending | None = None
        self.remotes: dict[int, Remote] = {}

    @property
    def maximal(self) -> frozenset[int]:
        """All that may be in the ISR now: those committed, and those of a change in flight."""
        return frozenset(self.isr) if self.pending is None else self.pending.maximal

    def led_anew(
        self, replicas: tuple[int, ...], own: int, now: int, lag_us: int, *, keep: bool
    ) -> None:
        """Begin a leader epoch. Replicas of the ISR get a lag of time before they are removed.

        ``keep``: nobody else led since, so what this broker knows of the replicas is still true.
        """
        old = self.remotes if keep else {}
        self.remotes = {
            each: old.get(each) or Remote(now if each in self.isr else now - lag_us - 1)
            for each in replicas
            if each != own
        }

    def reassigned(self, replicas: tuple[int, ...], own: int, now: int, lag_us: int) -> None:
        """Follow a change of the replicas within a leader epoch."""
        self.led_anew(replicas, own, now, lag_us, keep=True)

    def members(
        self, isr: tuple[int, ...], own: int, peers: Mapping[int, Peer]
    ) -> tuple[tuple[int, int], ...]:
        """Return ``isr`` with the broker epochs that the fetches carried (KIP-903)."""
        ours = peers[own].epoch if own in peers else UNKNOWN
        return tuple(
            (each, ours if each == own else self.remotes[each].broker_epoch)
            for each in isr
            if each == own or each in self.remotes
        )
