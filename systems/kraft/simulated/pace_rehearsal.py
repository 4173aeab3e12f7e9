"""A follower that is always a little behind its leader, and one that stops (D15, L13).

With ``commit.mode=quorum`` a follower may always lack the newest records without being late. Few
runs are busy enough for that, so a leader gets an ISR of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraftwreck.checkers.kraft.limits import LATE_US
from kraftwreck.nodes.replication.in_sync import InSync, Remote
from kraftwreck.nodes.replication.quorum_commit import QuorumCommit

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
