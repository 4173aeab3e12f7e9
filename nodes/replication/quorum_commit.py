"""The commit rule of a topic with ``commit.mode=quorum``: a majority of the replicas commits.

The invariant is that of every topic: each member of the committed ISR has all records below the
high watermark. Two rules differ. The ISR commits nothing while it is smaller than a majority of the
replicas. And the leader removes a member as soon as a majority has kept a record for
:data:`LATE_US` that this member lacks, where other topics wait for ``replica.lag.time.max.ms``. The
high watermark passes the removed member only once the controller has answered that the removal is
committed. So a slow follower delays a record by one AlterPartition at most, and any leader elected
from the ISR still has all acknowledged records.

A removed member returns when it has kept pace for :data:`STEADY_US`, so that a follower which is
slow now and then does not delay a record each time. It returns at once if the ISR is smaller than a
majority, or if it is ahead of the followers that make up the majority: then one of those has
failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraftwreck.nodes.replication.in_sync import InSync
from kraftwreck.nodes.replication.timers import NEVER

LATE_US: Final = 50_000
"""How long a member of the ISR may lack a record that a majority has: many fetches within a data
centre, and less than a producer notices."""
STEADY_US: Final = 5_000_000
"""How long a removed member must keep pace before it returns."""


def majority(replicas: int) -> int:
    """Return the smallest number of ``replicas`` that is more than half of them."""
    return replicas // 2 + 1


def least_in_sync(replicas: int, adding: int, min_insync: int, *, quorum: bool) -> int:
    """Return the size below which the ISR of a partition acknowledges nothing.

    ``adding`` of the ``replicas`` are new ones of a reassignment, which make no majority larger
    before it ends. ``min_insync`` is ``min.insync.replicas``, which ``commit.mode=quorum`` ignores.
    """
    return majority(replicas - adding) if quorum else min(min_insync, replicas)


@dataclass(slots=True)
class Pace:
    """How far a follower is behind the majority; times are µs.

    Since ``since`` it lacks records below ``target``, which a majority had then; None: it has all
    that a majority has. ``late_at`` is the last time at which it was late.
    """

    late_at: int
    since: int | None = None
    target: int = 0

    def observe(self, end: int, reached: int, now: int) -> None:
        """Compare the follower's log end with ``reached``, the end that a majority has."""
        if self.is_late(now):
            self.late_at = now
        if end >= reached:
            self.since = None
        elif self.since is None or end >= self.target:
            self.since, self.target = now, reached

    def is_late(self, now: int) -> bool:
        """Return whether a majority has left the follower behind."""
        return self.since is not None and now - self.since > LATE_US

    def is_steady(self, now: int) -> bool:
        """Return whether the follower has kept pace for long enough to return."""
        return not self.is_late(now) and now - self.late_at > STEADY_US


class QuorumCommit:
    """The paces of the followers of one partition that this broker leads."""

    __slots__ = ("_paces", "timer")

    def __init__(self) -> None:
        self._paces: dict[int, Pace] = {}
        self.timer = NEVER
        """When the next look at this partition is due by :class:`Timers`."""

    def led_anew(self) -> None:
        """Begin to lead: nothing is known of the followers."""
        self._paces.clear()

    def observe(self, in_sync: InSync, vouched: int, least: int, now: int) -> int:
        """Compare all followers with the majority; return when a member will be late, or NEVER.

        ``vouched`` is the offset below which the leader itself may acknowledge, ``least`` the size
        of a majority.
        """
        followers = _followers_end(in_sync, least)
        if followers is None:
            return NEVER
        reached, due = min(followers, vouched), NEVER
        for broker, remote in in_sync.remotes.items():
            pace = self._paces.get(broker)
            if pace is None:
                late_at = -STEADY_US - 1 if broker in in_sync.isr else now
                pace = self._paces[broker] = Pace(late_at)
            pace.observe(remote.end, reached, now)
            if broker in in_sync.isr and pace.since is not None:
                due = min(due, pace.since + LATE_US + 1)
        return due

    def without_late(self, in_sync: InSync, now: int) -> tuple[int, ...]:
        """Return the ISR without the members that a majority of the replicas has left behind."""
        return tuple(
            broker
            for broker in in_sync.isr
            if broker not in self._paces or not self._paces[broker].is_late(now)
        )

    def may_return(self, broker: int, in_sync: InSync, least: int, now: int) -> bool:
        """Return whether a follower that has all committed records may join the ISR now."""
        followers = _followers_end(in_sync, least)
        if followers is None or in_sync.remotes[broker].end > followers:
            return True
        pace = self._paces.get(broker)
        return pace is not None and pace.is_steady(now)


def _followers_end(in_sync: InSync, least: int) -> int | None:
    """Return the offset that enough followers of the ISR have reached to make up a majority of
    size ``least`` with the leader; None if the ISR is smaller."""
    wanted = least - 1
    ends = sorted(
        (in_sync.remotes[each].end for each in in_sync.isr if each in in_sync.remotes), reverse=True
    )
    if len(ends) < wanted:
        return None
    return ends[wanted - 1] if wanted > 0 else NEVER
