"""The operator's thread: one change after the other, and honest about those that cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.harness.capabilities import MemberChange
from kraftwreck.harness.client import Answer, Call
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.systems.kraft.faults.voter_changes import Members
from kraftwreck.systems.kraft.remote.admin import RemoteAdmin
from tests.waiting import LIMIT_S, wait_until

IDS = {"n1": 1, "n2": 2, "n3": 3, "n4": 4}
DISK = {name: bytes([number]) * 16 for name, number in IDS.items()}
MEMBERS = Members(IDS, {name: Endpoint(name, 9093) for name in IDS}, "c", lambda name: DISK[name])


class Quorum:
    """n1 leads; ``refusals`` are the error codes of the next changes."""

    def __init__(self, *voters: int) -> None:
        self.voters = set(voters)
        self.refusals: list[int] = []
        self.asked: list[tuple[str, int]] = []

    def __call__(self, call: Call) -> Answer:
        if call.request.api == "DescribeQuorum":
            voters = [
                {"replica_id": v, "replica_directory_id": bytes([v]) * 16, "log_end_offset": 5}
                for v in self.voters
            ]
            partition = {
                "error_code": 0,
                "leader_id": 1,
                "leader_epoch": 1,
                "high_watermark": 5,
                "current_voters": voters,
                "observers": [],
            }
            return Answer("ok", {"error_code": 0, "topics": [{"partitions": [partition]}]})
        voter = call.request.body["voter_id"]
        self.asked.append((call.request.api, voter))
        error = self.refusals.pop(0) if self.refusals else 0
        if error == 0:
            (self.voters.add if call.request.api == "AddRaftVoter" else self.voters.discard)(voter)
        return Answer("ok", {"error_code": error})


def ended(admin: RemoteAdmin) -> list[dict[str, Any]]:
    wait_until(lambda: admin.open == 0)
    return admin.take_ended()


def test_changes_are_carried_out_in_order() -> None:
    quorum = Quorum(1, 2, 3)
    admin = RemoteAdmin(MEMBERS, quorum)
    admin.ask([MemberChange("remove", "n2"), MemberChange("add", "n4")])
    admin.ask([MemberChange("add", "n2")])
    results = ended(admin)
    assert [(r["action"], r["node"], r["result"]) for r in results] == [
        ("remove", "n2", "done"),
        ("add", "n4", "done"),
        ("add", "n2", "done"),
    ]
    assert quorum.asked == [("RemoveRaftVoter", 2), ("AddRaftVoter", 4), ("AddRaftVoter", 2)]
    assert admin.take_ended() == [], "told once"
    admin.close()


def test_a_change_that_fails_is_asked_for_again() -> None:
    quorum = Quorum(1, 2)
    quorum.refusals = [7]
    admin = RemoteAdmin(MEMBERS, quorum)
    admin.ask([MemberChange("add", "n3")])
    (result,) = ended(admin)
    assert (result["result"], result["attempts"], result["errors"]) == ("done", 2, [7])
    admin.close()


def broken(call: Call) -> Answer:
    raise ValueError("no such api")


def test_an_operator_that_cannot_go_on_says_so() -> None:
    admin = RemoteAdmin(MEMBERS, broken)
    admin.ask([MemberChange("add", "n3")])
    match = "voters cannot be changed: ValueError: no such api"
    with pytest.raises(RemoteError, match=match):
        wait_until(lambda: bool(admin.take_ended()))
    with pytest.raises(RemoteError, match=match):
        admin.ask([MemberChange("add", "n4")])
    assert admin.open > 0, "it is not there"
    admin.close()


@pytest.mark.parametrize("before", [lambda admin: None, lambda admin: admin.ask([])])
def test_closing_ends_the_thread_whatever_is_open(
    before: Callable[[RemoteAdmin], None],
) -> None:
    asked = threading.Event()

    def nobody(call: Call) -> Answer:
        asked.set()
        return Answer("refused", error="connection refused")

    admin = RemoteAdmin(MEMBERS, nobody)
    before(admin)
    admin.ask([MemberChange("remove", "n2")])
    assert asked.wait(LIMIT_S)
    admin.close()
    assert "admin" not in [thread.name for thread in threading.enumerate()]
    assert admin.open == 1
