"""An operator's voter changes: requested until they are in force, whatever is lost."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.capabilities import MemberChange
from kraftwreck.harness.client import Answer, Call
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.systems.kraft.faults.voter_changes import HASTY, Members, Pause, carry_out

IDS = {"n1": 1, "n2": 2, "n3": 3}
OLD, NEW = b"o" * 16, b"n" * 16


class Quorum:
    """Answers as a quorum led by ``leader`` would; ``failing`` are errors to give first."""

    def __init__(self, voters: dict[int, bytes], leader: str = "n2") -> None:
        self.voters = voters
        self.leader = leader
        self.failing: list[int | str] = []
        self.committed = [10]
        """The committed ends by call, the last one for ever. The log ends at 10."""
        self.epoch = 1
        self.asked: list[str] = []
        self.calls: list[Call] = []
        self.unlisted: set[int] = set()
        """Replicas that the leader lists neither as voters nor as observers."""
        self.pauses = 0

    def members(self, directory: bytes = OLD) -> Members:
        endpoints = {name: Endpoint(name, 9093) for name in IDS}
        return Members(IDS, endpoints, "cluster", lambda _: directory)

    def answer(self, call: Call) -> Answer:
        self.calls.append(call)
        if call.request.api == "DescribeQuorum":
            return Answer("ok", self._describe(call.node))
        self.asked.append(f"{call.request.api} {call.request.body['voter_id']}")
        assert call.node == self.leader
        failure = self.failing.pop(0) if self.failing else errors.NONE
        adds = call.request.api == "AddRaftVoter"
        if failure == errors.NONE and adds and call.request.body["voter_id"] in self.voters:
            failure = errors.DUPLICATE_VOTER
        if isinstance(failure, str):
            return Answer("lost", {}, failure)
        if failure == errors.NONE:
            node, disk = call.request.body["voter_id"], call.request.body["voter_directory_id"]
            if adds:
                self.voters[node] = disk
            else:
                assert self.voters.pop(node) == disk
        return Answer("ok", {"error_code": failure})

    def _describe(self, node: str) -> dict[str, Any]:
        replicas = [
            {"replica_id": i, "replica_directory_id": d, "log_end_offset": 10}
            for i, d in {**dict.fromkeys(IDS.values(), OLD), **self.voters}.items()
        ]
        leads = node == self.leader
        committed = self.committed.pop(0) if leads and self.committed[1:] else self.committed[0]
        partition = {
            "error_code": errors.NONE if leads else errors.NOT_LEADER_OR_FOLLOWER,
            "leader_id": IDS.get(self.leader, -1),
            "leader_epoch": self.epoch,
            "high_watermark": committed,
            "current_voters": [r for r in replicas if r["replica_id"] in self.voters],
            "observers": [
                r for r in replicas if r["replica_id"] not in {*self.voters, *self.unlisted}
            ],
        }
        return {"error_code": errors.NONE, "topics": [{"partitions": [partition]}]}

    def run(
        self,
        action: Any,
        node: str,
        directory: bytes = OLD,
        limit: int = 100,
        following: MemberChange | None = None,
    ) -> Any:
        change = MemberChange(action, node)
        steps = carry_out(change, self.members(directory), lambda: following)
        step = next(steps)
        for _ in range(limit):
            try:
                if isinstance(step, Pause):
                    self.pauses += 1
                    step = next(steps)
                else:
                    step = steps.send(self.answer(step))
            except StopIteration as stop:
                return stop.value
        return None


def test_a_node_is_removed_and_added_back() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    assert quorum.run("remove", "n3").result == "done"
    assert quorum.voters == {1: OLD, 2: OLD}
    assert quorum.run("add", "n3").result == "done"
    assert quorum.voters == {1: OLD, 2: OLD, 3: OLD}
    assert quorum.asked == ["RemoveRaftVoter 3", "AddRaftVoter 3"]


def test_voter_changes_already_in_force_are_not_requested() -> None:
    quorum = Quorum({1: OLD, 2: OLD})
    assert quorum.run("remove", "n3").attempts == 0
    assert quorum.run("add", "n1").attempts == 0
    assert quorum.asked == []


def test_a_node_with_a_new_disk_takes_the_place_of_its_old_self() -> None:
    """At first it is added beside its old disk, until the quorum refuses that."""
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.failing = [errors.REQUEST_TIMED_OUT]
    assert quorum.run("add", "n3", NEW).result == "done"
    assert quorum.asked == [
        "AddRaftVoter 3",
        "AddRaftVoter 3",
        "RemoveRaftVoter 3",
        "AddRaftVoter 3",
    ]
    assert quorum.voters[3] == NEW


def test_an_old_disk_is_removed_although_the_quorum_refuses_nothing_clearly() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.failing = [errors.REQUEST_TIMED_OUT] * HASTY
    assert quorum.run("add", "n3", NEW).result == "done"
    assert quorum.asked == [*["AddRaftVoter 3"] * HASTY, "RemoveRaftVoter 3", "AddRaftVoter 3"]


def test_after_errors_and_lost_answers_it_looks_and_asks_again() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.failing = [errors.REQUEST_TIMED_OUT, "timed out", errors.NOT_LEADER_OR_FOLLOWER]
    ended = quorum.run("remove", "n1")
    assert (ended.result, ended.attempts) == ("done", 4)
    assert ended.errors == [errors.REQUEST_TIMED_OUT, errors.NOT_LEADER_OR_FOLLOWER]
    assert quorum.pauses == 3


def test_uncommitted_voter_changes_are_not_done() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.failing = ["timed out"]
    quorum.committed = [9, 9, 9, 10]
    quorum.voters.pop(3)
    assert quorum.run("add", "n3").result == "done"
    assert quorum.asked == ["AddRaftVoter 3", "AddRaftVoter 3"]
    assert quorum.pauses == 1 + 1, "after the lost answer, and until it is committed"
    quorum.committed = [9]
    assert quorum.run("add", "n3", limit=40) is None
    assert quorum.asked[2:] == []


def test_a_leader_that_removes_itself_is_asked_until_that_is_committed() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.committed = [10, 9, 10]
    assert quorum.run("remove", "n2").result == "done"
    assert quorum.pauses == 1


@pytest.mark.parametrize("error", [errors.UNSUPPORTED_VERSION, errors.INVALID_REQUEST])
def test_a_refusal_for_good_ends_it(error: int) -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.failing = [error]
    ended = quorum.run("remove", "n1")
    assert ended.as_evidence() == {
        "action": "remove",
        "node": "n1",
        "result": "refused",
        "attempts": 1,
        "errors": [error],
    }


def test_two_voters_are_not_made_one() -> None:
    quorum = Quorum({1: OLD, 2: OLD})
    assert quorum.run("remove", "n1").result == "refused"
    assert quorum.asked == []


def test_without_a_leader_it_waits_for_ever() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD}, leader="nobody")
    assert quorum.run("remove", "n1", limit=40) is None
    assert quorum.pauses >= 9


def test_an_operator_without_patience_asks_for_the_next_change_before_this_one_is_committed() -> (
    None
):
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.committed = [9, 9, 9, 10]
    quorum.failing = [errors.NONE, errors.REQUEST_TIMED_OUT, errors.REQUEST_TIMED_OUT]
    changed = quorum.run("remove", "n1", following=MemberChange("add", "n1"))
    assert changed.result == "done"
    assert quorum.asked == ["RemoveRaftVoter 1", "AddRaftVoter 1", "AddRaftVoter 1"]
    assert 1 not in quorum.voters


def test_a_quorum_that_grants_the_next_change_has_committed_this_one() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.committed = [9]
    changed = quorum.run("remove", "n1", following=MemberChange("add", "n1"))
    assert changed.result == "done"
    assert quorum.asked == ["RemoveRaftVoter 1", "AddRaftVoter 1"]


def test_unneeded_or_impossible_voter_changes_are_not_requested() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.committed = [9, 9, 10]
    quorum.run("remove", "n1", following=MemberChange("remove", "n3"))
    assert quorum.asked == ["RemoveRaftVoter 1"], "two voters are the fewest"
    quorum.committed = [9, 9, 10]
    quorum.run("add", "n1", following=MemberChange("add", "n3"))
    assert quorum.asked == ["RemoveRaftVoter 1", "AddRaftVoter 1"]


def test_a_leader_in_neither_list_may_have_committed_nothing() -> None:
    """It has removed itself, and its log end is not known."""
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.unlisted = {2}
    assert quorum.run("remove", "n2", limit=40) is None
    assert quorum.asked == ["RemoveRaftVoter 2"]


def test_the_versions_of_requests_have_all_fields_that_are_used() -> None:
    quorum = Quorum({1: OLD, 2: OLD, 3: OLD})
    quorum.run("add", "n3", NEW)
    asked = {call.request.api: call.request for call in quorum.calls}
    assert asked.keys() == {"DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter"}
    for api, request in asked.items():
        name = f"{api}Request"
        found, _ = decode(name, request.version, encode(name, request.version, request.body))
        assert found == {**found, **request.body}
    view, version = quorum._describe("n2"), asked["DescribeQuorum"].version
    name = "DescribeQuorumResponse"
    found, _ = decode(name, version, encode(name, version, view))
    assert found["topics"][0]["partitions"][0]["current_voters"][0]["replica_directory_id"] == OLD
