"""Upgrades of kraft.version that are refused without a reason: C22 MembershipAnswered.

A leader of a static quorum that has committed a record of its epoch must allow a higher
kraft.version once it knows the disk of every voter in that epoch (KIP-853).
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.standing import Standing
from kraftwreck.checkers.kraft.limits import STEP_NS
from kraftwreck.checkers.kraft.quorum_model.transitions import LEADER
from kraftwreck.histories.message import Message
from kraftwreck.nodes.protocol import errors

KRAFT_FEATURE = "kraft.version"


def raises_kraft_version(body: Any) -> bool:
    """Whether an UpdateFeatures requests kraft.version 1, and nothing else."""
    updates = body["feature_updates"] if isinstance(body, dict) else []
    return [(u["feature"], u["max_version_level"], u["upgrade_type"]) for u in updates] == [
        (KRAFT_FEATURE, 1, 1)
    ]


def refused_in_vain(evidence: Evidence, standing: Standing, message: Message) -> str | None:
    """Return why an upgrade should have succeeded, None if there may be a reason against it."""
    stood, counted = standing.positions(message), standing.voters(message)
    if len(stood) != 1 or stood[0].state != LEADER or len(counted) != 1 or counted[0][1] != 0:
        return None
    reign = message.replier, stood[0].epoch
    told = {
        update.request.voter_id
        for update in evidence.of("UpdateRaftVoter")
        if (update.replier, update.request.current_leader_epoch) == reign
        and update.response is not None
        and update.response.error == errors.NONE
        and update.time < message.sent - STEP_NS
        and any(update.request.directory)
        and update.request.min_kraft_version <= 1 <= update.request.max_kraft_version
    }
    if {voter for voter, _ in counted[0][0]} - told - {message.replier}:
        return None
    if not _has_committed(evidence, reign, message.sent - STEP_NS):
        return None
    return "with INVALID_UPDATE_VERSION, although all voters had sent it their directory ids."


def _has_committed(evidence: Evidence, reign: tuple[int, int], time: int) -> bool:
    """Whether the leader of an epoch, (node id, epoch), had reported a high watermark."""
    node, epoch = evidence.name(reign[0]), reign[1]
    marks = (event for event in evidence.run.events if event.kind == "hw")
    return any(
        (event.node, event.epoch, event.state) == (node, epoch, LEADER) and at < time
        for at, event in evidence.dated(marks)
    )
