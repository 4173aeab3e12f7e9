"""How soon followers learn of a commit: L9 CommitIsHeard.

A leader answers waiting fetches as soon as its high watermark has moved. If it does not, followers
learn of a commit only when the wait of their fetch ends. L9 is judged only where nothing disturbs
the cluster, and only in the simulator, which knows the speed of links and disks. One late answer
proves nothing: of a faulty follower's answers most are late. Fetches that diverge or need a
snapshot must be answered at once too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import (
    CALM_NS,
    FETCH_MAX_BYTES,
    FETCH_MAX_WAIT_MS,
    FOLLOWED_US,
    NEWS,
)
from kraftwreck.checkers.kraft.quorum_model.fetching import is_plain
from kraftwreck.checkers.kraft.recorded.settings import setting
from kraftwreck.checkers.kraft.recorded.timeline import Timeline
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.checkers.suspicion import in_virtual_time
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent

DOWNLOAD = "download"
FEWEST = 8
FEWEST_ELSEWHERE = 3
_US = 1000
_LINGERING = frozenset(("partition", "network", "disk"))
"""Faults with effects after their end: messages under way, or a flush in progress."""
_MOVES = frozenset(("state", "start", "truncate", "install", "voters", "resign"))
NOT_SIMULATED = "only the simulator knows how slow links and disks are"


@rule(
    "L9",
    "CommitIsHeard",
    "In quiet times, followers that fetch no snapshot learn of most commits, and of a new leader,"
    " within some round trips.",
    "T4",
    nothing=f"fewer than {FEWEST} commits in quiet times that a follower waited for",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge L9."""
    bound = _bound(evidence.run.test)
    if bound is None:
        report.unseen("L9", NOT_SIMULATED)
        return
    calm = _Calm(evidence)
    followers, commits = _positions(evidence)
    quiet = [each for each in commits if calm.around(each[0] - CALM_NS, each[0] + bound)]
    for node, positions in followers.items():
        _follower(evidence, report, node, positions, quiet, bound)
    _elsewhere(evidence, report, calm, bound)


def _follower(
    evidence: Evidence,
    report: Report,
    node: str,
    told: Timeline[TraceEvent],
    quiet: list[tuple[int, str, TraceEvent]],
    bound: int,
) -> None:
    """A follower learns of most commits in time."""
    whole = _fetches_all(evidence.run.test)
    late: list[TraceEvent] = []
    judged = 0
    for at, leader, event in quiet:
        now = told.at(at)
        if node == leader or now is None:
            continue
        knows = now.state == "follower" and now.epoch == event.epoch and now.hw >= 0
        if not knows or now.hw >= event.hw or not (whole or now.leo >= event.hw):
            continue
        meanwhile = told.during(at, at + bound)
        if any(each.kind == DOWNLOAD for each in meanwhile):
            continue  # It fetches a snapshot, and learns of no commit meanwhile.
        judged += 1
        if all(each.hw < event.hw for each in meanwhile):
            late.append(event)
    if judged < FEWEST:
        return
    report.held("L9", judged)
    if len(late) * 2 > judged:
        report.broken(
            "L9",
            f"{len(late)} of {judged} times {node} learned of a commit more than "
            f"{bound / 1e6:.0f} ms late, although nothing was wrong; the first was the high "
            f"watermark {late[0].hw} of {late[0].node}.",
            [late[0]],
            limit=NEWS,
        )


def _elsewhere(evidence: Evidence, report: Report, calm: _Calm, bound: int) -> None:
    """A fetch that diverges, or needs a snapshot, is answered without waiting in purgatory."""
    late: list[Message] = []
    judged = 0
    for message in evidence.of("Fetch"):
        answer = message.response
        if not message.is_exchange or is_plain(answer):
            continue
        if not calm.undisturbed(message.sent, message.time):
            continue
        judged += 1
        if message.time - message.sent > bound:
            late.append(message)
    if judged >= FEWEST_ELSEWHERE:
        report.held("L9", judged)
        if len(late) * 2 > judged:
            wait = (late[0].time - late[0].sent) / 1e6
            report.broken(
                "L9",
                f"{len(late)} of {judged} fetches that diverge or need a snapshot were not "
                f"answered at once: that of {evidence.name(late[0].asker)} at offset "
                f"{late[0].request.fetch_offset} after {wait:.0f} ms.",
                limit=NEWS,
            )


def _fetches_all(test: dict[str, Any]) -> bool:
    """Whether one fetch returns all records."""
    return setting(test, "fetch_max_bytes", FETCH_MAX_BYTES) >= FETCH_MAX_BYTES


def _bound(test: dict[str, Any]) -> int | None:
    """Return the longest delay (ns) of a commit's news; None if a waiting fetch is no slower."""
    knobs = test.get("knobs")
    if not in_virtual_time(test) or not isinstance(knobs, dict):
        return None
    if len(test.get("controllers") or ()) == 1:
        return None  # It commits at once, and its own disk, with snapshots to write, delays it.
    disk = int(knobs["fsync_max"]) * int(knobs["slow_factor"])
    bound = 3 * int(knobs["latency_max"]) + 4 * disk + FOLLOWED_US
    wait = setting(test, "fetch_max_wait_ms", FETCH_MAX_WAIT_MS) * 1000
    return bound * _US if bound < wait * 2 // 3 else None


class _Calm:
    """Times when nothing was wrong: no fault, no restart, no change of leader or voters."""

    def __init__(self, evidence: Evidence) -> None:
        spans: list[tuple[int, int]] = []
        begun: dict[int, int] = {}
        for fault in evidence.run.faults:
            if fault.phase == "start":
                begun[fault.id] = fault.time
            else:
                # Delayed or repeated messages arrive after the end and hold up all behind them.
                later = CALM_NS if fault.kind in _LINGERING else 0
                spans.append((begun.pop(fault.id, fault.time), fault.done + later))
        spans.extend((time, 1 << 62) for time in begun.values())
        spans.sort()
        self._begins = [begin for begin, _ in spans]
        # By beginning: the latest end of all faults that began no later.
        self._until = list(accumulate((end for _, end in spans), max))
        moves = (event for event in evidence.run.events if event.kind in _MOVES)
        self._moments = sorted(at for at, _ in evidence.dated(moves))

    def undisturbed(self, begin: int, end: int) -> bool:
        """Whether no fault is active at any time from ``begin`` to ``end``."""
        place = bisect_right(self._begins, end)
        return begin >= 0 and (place == 0 or self._until[place - 1] < begin)

    def around(self, begin: int, end: int) -> bool:
        """Whether nothing is wrong and nothing changes from ``begin`` to ``end``."""
        if not self.undisturbed(begin, end):
            return False
        place = bisect_left(self._moments, begin)
        return place >= len(self._moments) or self._moments[place] > end


_Positions = dict[str, Timeline[TraceEvent]]


def _positions(evidence: Evidence) -> tuple[_Positions, list[tuple[int, str, TraceEvent]]]:
    """Return each node's appends, high watermarks and beginnings of snapshot fetches, and the
    high watermarks of leaders in order."""
    nodes: _Positions = {}
    commits = []
    kept = (e for e in evidence.run.events if e.kind in ("hw", "append", DOWNLOAD))
    for at, event in evidence.dated(kept):
        nodes.setdefault(event.node, Timeline()).note(at, event)
        if event.kind == "hw" and event.state == "leader":
            commits.append((at, event.node, event))
    return nodes, commits
