"""A follower that is always a little behind its leader, and one that stops (D15, L13).

A follower may always lack the newest records without being late, with ``commit.mode=quorum`` and by
``replica.lag.time.max.ms``. Few runs are busy enough for that, so a leader gets an ISR of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraftwreck.checkers.kraft.limits import LATE_US
from kraftwreck.nodes.replication.in_sync import InSync, Remote
from kraftwreck.nodes.replication.quorum_commit import QuorumCommit

REHEARSED_LAG_US: Final = 1_000_000
"""The time that a follower of the rehearsal may lag behind."""
STEP_US: Final = 10_000
"""How often a follower fetches in a rehearsal. The log gets a record each time."""
STEADY_STEPS: Final = 100
BEHIND: Final = 2
"""Records that the follower always lacks."""
MAJORITY: Final = 2
"""Of the three replicas of the rehearsal."""


def wrong_paces() -> Iterator[str]:
    """Yield how a leader misjudges a follower that keeps pace a little behind, and then stops."""
    quorum, in_sync = QuorumCommit(), InSync()
    in_sync.isr = (1, 2, 3)
    fast, slow = Remote(0), Remote(0)
    in_sync.remotes = {2: fast, 3: slow}
    stopped_at = STEADY_STEPS * STEP_US
    for step in range(STEADY_STEPS + 2 * LATE_US // STEP_US):
        now = step * STEP_US
        fast.end = step
        slow.end = max(0, min(step, STEADY_STEPS) - BEHIND)
        quorum.observe(in_sync, step, MAJORITY, now)
        keeps = 3 in quorum.without_late(in_sync, now)
        if not keeps and now <= stopped_at + LATE_US - BEHIND * STEP_US:
            yield f"would remove a follower that keeps pace {BEHIND} records behind"
            return
        if keeps and now > stopped_at + LATE_US + STEP_US:
            yield f"would keep a follower that has stopped {(now - stopped_at) / 1000:.0f} ms ago"
            return


def wrong_lags(lag_us: int) -> Iterator[str]:
    """Yield how a leader misjudges a follower by the time that it may lag behind.

    It always has what the leader had at its last fetch, and then stops.
    """
    begin, steps = 1_000_000_000, 3 * lag_us // STEP_US
    follower = Remote(begin)
    for step in range(2 * steps):
        now = begin + step * STEP_US
        if step <= steps:
            follower.fetched(step, 0, 1, step + 1, now)
            if not follower.is_caught_up(step + 1, now, lag_us):
                yield "would remove a follower that has all that the leader had at its last fetch"
                return
        elif step > steps + lag_us // STEP_US + 1:
            if follower.is_caught_up(step, now, lag_us):
                yield f"would keep a follower that has stopped {(step - steps) * STEP_US} us ago"
            return
