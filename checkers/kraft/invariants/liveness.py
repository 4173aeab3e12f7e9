"""Liveness after the last fault: L1 to L8, as far as traces and messages show.

Each rule is judged only if the run lasted long enough after its last heal. The judged time ends
before the harness stops the nodes. A rule that needs more time is not checked.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import (
    BUSY,
    ENDED,
    MOST_ELECTIONS,
    MOST_REQUESTS,
    RECOVERED,
    RECOVERED_NS,
    SETTLED_NS,
    STAYS,
)
from kraftwreck.checkers.kraft.quorum_model.replica import Replica
from kraftwreck.checkers.kraft.recovery import last_heal
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent

_ALL = ("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8")


class _Watch(NamedTuple):
    """The time from the last heal to the end of the judged time, ns since the test began."""

    healed: int
    until: int

    @property
    def long_enough(self) -> bool:
        return self.until - self.healed >= RECOVERED_NS

    @property
    def short(self) -> str:
        return f"only {(self.until - self.healed) / 1e9:.1f} s were watched after the last fault"


@rule(
    "L1",
    "LeaderFollowed",
    "Within 30 s after the last fault all nodes follow one leader.",
    "T4",
    live=True,
)
@rule("L2", "Commits", "The leader's high watermark does not stay below its log end.", "T4")
@rule("L3", "BrokersCatchUp", "Brokers reach the high watermark.", "T4")
@rule("L4", "NoEndlessCandidacy", "No node stays prospective or candidate.", "T4")
@rule("L5", "OperationsEnd", "Operations that begin after the last fault end.", "T5")
@rule("L6", "ReconfigurationEnds", "A change of voters is eventually committed.", "T4")
@rule(
    "L7",
    "LeaderStays",
    "Without faults there are no more than three elections in ten seconds.",
    "T4",
)
@rule("L8", "NoBusyLoop", "No node sends more than 20,000 requests a second to one peer.", "T1")
def check(evidence: Evidence, report: Report) -> None:
    """Judge liveness."""
    run, trace = evidence.run, evidence.trace
    _requests(evidence, report)
    if not trace.count:
        return
    healed, open_faults = last_heal(run.faults)
    if open_faults:
        _all_unseen(report, "a fault never ended")
        return
    if run.ended is None:
        _all_unseen(report, "the run does not record when the judged time ended")
        return
    positions = [track.at_end for track in trace.tracks.values()]
    nodes = [node for node in positions if node.last is not None]
    if any(node.last is not None and evidence.moment(node.last) is None for node in nodes):
        _all_unseen(report, "clocks were not compared")
        return
    watch = _Watch(healed, run.ended)
    _leader(evidence, report, watch, nodes)
    _operations(evidence, report, watch)
    _elections(evidence, report, watch)


def _all_unseen(report: Report, why: str) -> None:
    for invariant in _ALL:
        report.unseen(invariant, why)


def _judge(
    report: Report, watch: _Watch, invariant: str, wrong: str | None, last: TraceEvent | None
) -> None:
    """Count a state that was reached. A missing one is ``wrong`` only after a time long enough."""
    if wrong is not None and not watch.long_enough:
        report.unseen(invariant, watch.short)
        return
    report.held(invariant)
    if wrong is not None:
        report.broken(invariant, wrong, [last] if last is not None else [], limit=RECOVERED)


def _leader(evidence: Evidence, report: Report, watch: _Watch, tracks: list[Replica]) -> None:
    """L1, L2, L3, L4, L6: at the end all follow one leader, and nothing waits."""
    leaders = [t for t in tracks if t.state == "leader"]
    newest = max(leaders, key=lambda t: t.epoch, default=None)
    followed = newest is not None and all(
        t is newest or (t.epoch == newest.epoch and t.state == "follower")
        for t in tracks
        if not _is_gone(t)
    )
    if not followed and not watch.long_enough:
        report.unseen("L1", watch.short)
        report.unseen("L4", watch.short)
    else:
        report.held("L1", len(tracks))
        report.held("L4", len(tracks))
        if not followed:
            _stuck(report, watch, tracks, newest)
    if newest is None or newest.last is None:
        for invariant in ("L2", "L3", "L6"):
            report.unseen(invariant, "there is no leader at the end")
        return
    last, wrong = newest.last, None
    if last.hw != last.leo and _still(evidence, newest, watch):
        wrong = (
            f"{newest.name} leads with log end {last.leo}, and its high watermark has stayed at "
            f"{last.hw} for {RECOVERED_NS / 1e9:.0f} s."
        )
    _judge(report, watch, "L2", wrong, last)
    _observers(evidence, report, watch, tracks, newest)
    if not evidence.trace.voter_changes:
        report.unseen("L6", "no voter was added or removed")
        return
    wrong = None
    if newest.voters_offset >= last.hw:
        wrong = (
            f"The voters of offset {newest.voters_offset} are not committed at the end (high "
            f"watermark {last.hw})."
        )
    _judge(report, watch, "L6", wrong, last)


def _is_gone(track: Replica) -> bool:
    return track.last is not None and track.last.kind in ("stop", "fatal")


def _stuck(report: Report, watch: _Watch, tracks: list[Replica], newest: Replica | None) -> None:
    """Report that the nodes did not agree in time."""
    since = f"{(watch.until - watch.healed) / 1e9:.0f} s after the last fault"
    for track in tracks:
        if track.state in ("prospective", "candidate") and track.last is not None:
            report.broken(
                "L4",
                f"{track.name} is {track.state} of epoch {track.epoch} at the end, {since}.",
                [track.last],
                limit=RECOVERED,
            )
    who = "no node leads" if newest is None else f"{newest.name} leads epoch {newest.epoch}"
    apart = [t for t in tracks if t is not newest and t.state != "follower" and not _is_gone(t)]
    states = ", ".join(f"{t.name} {t.state} of epoch {t.epoch}" for t in apart) or "all follow it"
    if newest is None or apart:
        told = [t.last for t in tracks if t.last is not None]
        report.broken("L1", f"{since} {who}; {states}.", told, limit=RECOVERED)


def _still(evidence: Evidence, track: Replica, watch: _Watch) -> bool:
    """Whether the high watermark has not moved for long enough, as far as that was watched."""
    moved = evidence.moment(track.moved)
    return moved is None or not watch.long_enough or moved < watch.until - RECOVERED_NS


def _observers(
    evidence: Evidence, report: Report, watch: _Watch, tracks: list[Replica], leader: Replica
) -> None:
    """L3: brokers, which only observe, know the leader's high watermark too."""
    voters = set(leader.voters) or set(evidence.names)
    observers = [t for t in tracks if t.id not in voters and not _is_gone(t)]
    if not observers or not watch.long_enough:
        report.unseen("L3", watch.short if observers else "no brokers in this run")
        return
    for track in observers:
        behind, wrong = leader.hw - max(track.hw, 0), None
        if behind > 0 and _still(evidence, track, watch):
            wrong = (
                f"{track.name}, an observer, is {behind} records behind the high watermark "
                f"{leader.hw} at the end."
            )
        _judge(report, watch, "L3", wrong, leader.last)


def _operations(evidence: Evidence, report: Report, watch: _Watch) -> None:
    """L5: operations that clients began after the last fault have ended in any way."""
    begun = [call for call in evidence.run.calls if call.invoked >= watch.healed]
    if not begun:
        report.unseen("L5", "no operation was begun after the last fault")
        return
    for call in begun:
        report.held("L5")
        if call.completed is None and watch.until - call.invoked > 2 * RECOVERED_NS:
            report.broken(
                "L5",
                f"Operation {call.f} began {(watch.until - call.invoked) / 1e9:.0f} s before the "
                "end and never completed.",
                operations=call.indices,
                limit=ENDED,
            )


def _elections(evidence: Evidence, report: Report, watch: _Watch) -> None:
    """L7: without faults, a leader stays."""
    begin = watch.healed + RECOVERED_NS
    if watch.until - begin < SETTLED_NS:
        report.unseen("L7", watch.short)
        return
    report.held("L7")
    elected = evidence.dated(election.event for election in evidence.trace.chain.elections)
    late = sorted((each for each in elected if begin <= each[0] <= watch.until), key=itemgetter(0))
    for place in range(len(late) - MOST_ELECTIONS):
        window = late[place : place + MOST_ELECTIONS + 1]
        if window[-1][0] - window[0][0] <= SETTLED_NS:
            report.broken(
                "L7",
                f"{len(window)} elections within {SETTLED_NS / 1e9:.0f} s, "
                f"{(window[0][0] - watch.healed) / 1e9:.0f} s after the last fault.",
                [event for _, event in window],
                limit=STAYS,
            )
            return


def _requests(evidence: Evidence, report: Report) -> None:
    """L8: no node exceeds :data:`MOST_REQUESTS` requests per second to a peer."""
    counts: dict[tuple[int, int, int], int] = {}
    for messages in evidence.messages.values():
        for message in messages:
            if message.request is not None and message.asker > 0:
                key = (message.asker, message.replier, message.time // 1_000_000_000)
                counts[key] = counts.get(key, 0) + 1
    report.held("L8", len(counts))
    for (asker, replier, second), count in counts.items():
        if count > MOST_REQUESTS:
            report.broken(
                "L8",
                f"{evidence.name(asker)} sent {count} requests to {evidence.name(replier)} in "
                f"second {second}.",
                limit=BUSY,
            )
