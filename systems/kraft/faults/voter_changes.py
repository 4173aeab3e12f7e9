"""Change the voters of a dynamic quorum (KIP-853) like an operator with an admin client.

A change is a goal, "this node votes" or "this node does not". So it can be retried after a lost
response. The steps are: query the leader and the voters (DescribeQuorum), request what is missing
(AddRaftVoter, RemoveRaftVoter), query again. The coroutine yields requests and pauses. Real clients
drive it with sockets and clocks, the simulator in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kraftwreck.harness.capabilities import MemberChange
from kraftwreck.harness.client import Answer, Call
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.request import KafkaRequest

DESCRIBE_VERSION: Final = 2
"""The first version with directory ids."""

ADD_VERSION: Final = 1
REMOVE_VERSION: Final = 0
LISTENER: Final = "CONTROLLER"
TIMEOUT_MS: Final = 5000
PAUSE_MS: Final = 300
FEWEST_VOTERS: Final = 2
"""A removal that would leave fewer voters is refused: a single voter is not worth testing."""

HASTY: Final = 10
"""How often a new disk is added beside the old one at most, until the quorum refuses that."""

_QUESTION: Final = {
    "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
}
_UNKNOWN_END: Final = 2**63 - 1
_FINAL: Final = frozenset(
    {errors.UNSUPPORTED_VERSION, errors.INVALID_REQUEST, errors.INCONSISTENT_CLUSTER_ID}
)
"""Refusals that a retry cannot change."""


@dataclass(slots=True, frozen=True)
class Members:
    """The cluster as the operator knows it: node ids and quorum endpoints by name, cluster id, and
    a function that returns the directory id of a node's current disk."""

    ids: Mapping[str, int]
    endpoints: Mapping[str, Endpoint]
    cluster_id: str
    directory: Callable[[str], bytes]


@dataclass(slots=True)
class Pause:
    """Wait before the next step."""

    ms: int = PAUSE_MS


@dataclass(slots=True)
class Changed:
    """How a change ended: ``result`` is ``done``, or ``refused`` if it is impossible; ``errors``
    are the error codes that the quorum returned."""

    change: MemberChange
    result: Literal["done", "refused"]
    attempts: int
    errors: list[int] = field(default_factory=list)

    def as_evidence(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "action": self.change.action,
            "node": self.change.node,
            "result": self.result,
            "attempts": self.attempts,
            "errors": self.errors,
        }


Steps = Generator[Call | Pause, Answer | None, Changed]


@dataclass(slots=True)
class _View:
    """The view of the leader ``node`` of ``epoch``: the directory ids of the voters, committed or
    not, its log end offset and its high watermark."""

    node: str
    voters: dict[int, bytes]
    epoch: int
    end: int
    committed: int


def carry_out(
    change: MemberChange,
    members: Members,
    following: Callable[[], MemberChange | None] = lambda: None,
) -> Steps:
    """Carry ``change`` out; return when it is done or finally refused.

    It is done when it is committed: an uncommitted change may be lost with the leader, and the
    next one could then leave no majority. If that takes long, the ``following`` change is requested
    early, like an impatient operator would: a quorum refuses it until the previous change is
    committed (KIP-853).
    """
    node_id = members.ids[change.node]
    done = Changed(change, "done", 0)
    asked = 0
    seen: _View | None = None
    while True:
        view = yield from _look(members, asked)
        asked += 1
        if view is None:
            yield Pause()
            continue
        hasty = done.attempts < HASTY and errors.DUPLICATE_VOTER not in done.errors
        step = _next_step(change, node_id, view, members, hasty=hasty)
        if step == "done":
            if seen is None or (seen.node, seen.epoch) != (view.node, view.epoch):
                seen = view
            if view.committed >= seen.end:
                return done
            if (yield from _hurry(following(), view, members)):
                return done
            yield Pause()
            continue
        seen = None
        if step == "refuse":
            done.result = "refused"
            return done
        done.attempts += 1
        answer = yield step
        assert answer is not None
        error = answer.response["error_code"] if answer.status == "ok" else None
        if error is not None and error != errors.NONE:
            done.errors = [*done.errors[-9:], error]
        if error in _FINAL:
            done.result = "refused"
            return done
        if error != errors.NONE:
            yield Pause()


def _hurry(
    change: MemberChange | None, view: _View, members: Members
) -> Generator[Call | Pause, Answer | None, bool]:
    """Request ``change`` once; return whether the quorum granted it and so committed the previous
    change."""
    if change is None:
        return False
    step = _next_step(change, members.ids[change.node], view, members)
    if not isinstance(step, Call):
        return False
    answer = yield step
    return (
        answer is not None
        and answer.status == "ok"
        and answer.response["error_code"] == errors.NONE
    )


def _next_step(
    change: MemberChange, node_id: int, view: _View, members: Members, *, hasty: bool = False
) -> Call | Literal["done", "refuse"]:
    """Return the next request. A ``hasty`` operator adds a node's new disk while the old one still
    votes, which a quorum refuses (DUPLICATE_VOTER): two replicas cannot change at once."""
    voting = view.voters.get(node_id)
    if change.action == "remove":
        if voting is None:
            return "done"
        if len(view.voters) <= FEWEST_VOTERS:
            return "refuse"
        return _remove(view.node, node_id, voting, members)
    present = members.directory(change.node)
    if voting == present:
        return "done"
    if voting is not None and not hasty:
        return _remove(view.node, node_id, voting, members)
    return _add(view.node, change.node, present, members)


def _look(members: Members, asked: int) -> Generator[Call | Pause, Answer | None, _View | None]:
    """Ask all controllers in turn; return the view of the leader, None if there is none."""
    names: Sequence[str] = tuple(members.endpoints)
    for place in range(len(names)):
        node = names[(asked + place) % len(names)]
        answer = yield Call(node, KafkaRequest("DescribeQuorum", DESCRIBE_VERSION, _QUESTION), 1000)
        if answer is None or answer.status != "ok" or answer.response["error_code"] != errors.NONE:
            continue
        for topic in answer.response["topics"]:
            for partition in topic["partitions"]:
                leads = partition["leader_id"] == members.ids[node]
                if partition["error_code"] == errors.NONE and leads:
                    return _view(node, partition)
    return None


def _view(node: str, partition: Mapping[str, Any]) -> _View:
    voters = partition["current_voters"]
    # A leader that removed itself may be in neither list; the next leader will be.
    replicas = [*voters, *partition["observers"]]
    leader = [r for r in replicas if r["replica_id"] == partition["leader_id"]]
    return _View(
        node,
        {v["replica_id"]: bytes(v["replica_directory_id"]) for v in voters},
        partition["leader_epoch"],
        max((r["log_end_offset"] for r in leader), default=_UNKNOWN_END),
        partition["high_watermark"],
    )


def _add(leader: str, node: str, directory: bytes, members: Members) -> Call:
    endpoint = members.endpoints[node]
    body = {
        "cluster_id": members.cluster_id,
        "timeout_ms": TIMEOUT_MS,
        "voter_id": members.ids[node],
        "voter_directory_id": directory,
        "listeners": [{"name": LISTENER, "host": endpoint.host, "port": endpoint.port}],
        "ack_when_committed": True,
    }
    return Call(leader, KafkaRequest("AddRaftVoter", ADD_VERSION, body), TIMEOUT_MS)


def _remove(leader: str, node_id: int, directory: bytes, members: Members) -> Call:
    body = {
        "cluster_id": members.cluster_id,
        "voter_id": node_id,
        "voter_directory_id": directory,
    }
    return Call(leader, KafkaRequest("RemoveRaftVoter", REMOVE_VERSION, body), TIMEOUT_MS)
