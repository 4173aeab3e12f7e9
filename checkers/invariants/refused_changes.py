"""Changes of the quorum that are put off though nothing is in their way: C22 MembershipAnswered.

A leader refuses to remove a voter at once (REQUEST_TIMED_OUT) while another change is in flight,
before anything of its epoch is committed, or while the voters in force are not (KIP-853). It
refuses to raise kraft.version while it has not heard of every voter's disk in its epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import Any

from checkers.invariants.evidence import Evidence
from checkers.invariants.standing import LEADER, STEP_NS, Position, Standing
from checkers.recorded.clocks import fastest
from histories.message import Message
from nodes.protocol import errors

KRAFT_FEATURE = "kraft.version"
REQUEST_TIMEOUT_MS = 2_000
_CHANGES = ("AddRaftVoter", "RemoveRaftVoter")


class RefusedChanges:
    """Judges refusals of leaders that could have done what they were asked for."""

    def __init__(self, evidence: Evidence, standing: Standing) -> None:
        self._evidence = evidence
        self._standing = standing
        timeout = evidence.setting("request_timeout_ms", REQUEST_TIMEOUT_MS) * 1_000_000
        self._timeout = int(timeout * fastest(evidence.run.test))

    def removal(self, message: Message) -> str | None:
        """Return why a removal should not have been put off, None if it may have to be."""
        stood = self._standing.positions(message)
        if not self._leads(stood) or message.time - message.sent > self._timeout // 2:
            return None  # It may have been taken up, and given up in the end.
        if not self._settled(message, stood[0].epoch) or self._others(message):
            return None
        return "with REQUEST_TIMED_OUT at once, and no other change was in flight."

    def upgrade(self, message: Message) -> str | None:
        """Return why kraft.version should have been raised, None if there may be a reason."""
        stood = self._standing.positions(message)
        counted = self._standing.voters(message)
        if not self._leads(stood) or len(counted) != 1 or counted[0][1] != 0:
            return None
        epoch = stood[0].epoch
        if not self._settled(message, epoch) or self._others(message):
            return None
        told = {
            update.request.voter_id
            for update in self._evidence.of("UpdateRaftVoter")
            if (update.replier, update.request.current_leader_epoch) == (message.replier, epoch)
            and update.response is not None
            and update.response.error == errors.NONE
            and update.time < message.sent - STEP_NS
            and any(update.request.directory)
            and update.request.min_kraft_version <= 1 <= update.request.max_kraft_version
        }
        if {voter for voter, _ in counted[0][0]} - told - {message.replier}:
            return None
        return "with INVALID_UPDATE_VERSION, and all voters had told it of their disks."

    def _leads(self, stood: list[Position]) -> bool:
        """Whether the node led one epoch all the time."""
        return len(stood) == 1 and stood[0].state == LEADER

    def _settled(self, message: Message, epoch: int) -> bool:
        """Whether the leader had committed something of its epoch, and the voters in force."""
        times, marks = self._marks.get((message.replier, epoch), ([], []))
        place = bisect_right(times, message.sent - STEP_NS)
        if not place:
            return False
        times_of_sets, offsets = self._sets.get(message.replier, ([], []))
        last = bisect_right(times_of_sets, message.time + STEP_NS)
        return last == 0 or offsets[last - 1] < marks[place - 1]

    def _others(self, message: Message) -> bool:
        """Whether the leader may have had another change of the voters in flight."""
        for api in _CHANGES:
            for other in self._evidence.of(api):
                if other is message or other.replier != message.replier:
                    continue
                if other.request is None or other.response is None:
                    if other.sent <= message.time:
                        return True
                elif (
                    other.sent <= message.time + STEP_NS
                    and other.time >= message.sent - STEP_NS - self._linger(other.request)
                ):
                    return True
        return False

    def _linger(self, request: Any) -> int:
        """Return for how long (ns) after its answer a change may be in flight."""
        if isinstance(request, dict):
            soon = not request.get("ack_when_committed", True)
        else:
            soon = not getattr(request, "ack_when_committed", True)
        return 4 * self._timeout if soon else 0

    @cached_property
    def _marks(self) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
        """Per leader (node id, epoch) when (ns) its high watermark moved, and where to."""
        ids = {name: node for node, name in self._evidence.names.items()}
        found: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for event in self._evidence.run.events:
            if event.kind == "hw" and event.state == LEADER and event.node in ids:
                at = self._evidence.moment(event)
                if at is not None:
                    times, marks = found.setdefault((ids[event.node], event.epoch), ([], []))
                    times.append(at)
                    marks.append(event.hw)
        return found

    @cached_property
    def _sets(self) -> dict[int, tuple[list[int], list[int]]]:
        """Per node when (ns) it began to count by a voter set, and the offset of that."""
        ids = {name: node for node, name in self._evidence.names.items()}
        found: dict[int, tuple[list[int], list[int]]] = {}
        for event in self._evidence.run.events:
            if event.kind == "voters" and event.node in ids:
                at = self._evidence.moment(event)
                if at is not None:
                    times, offsets = found.setdefault(ids[event.node], ([], []))
                    times.append(at)
                    offsets.append(event.detail["offset"])
        return found


def raises_kraft_version(body: Any) -> bool:
    """Whether an UpdateFeatures asks for kraft.version 1, and nothing else."""
    updates = body["feature_updates"] if isinstance(body, dict) else []
    return [(u["feature"], u["max_version_level"], u["upgrade_type"]) for u in updates] == [
        (KRAFT_FEATURE, 1, 1)
    ]
