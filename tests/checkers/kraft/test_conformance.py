"""The reference model accepts a legal life of a quorum, and refuses each illegal step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import find
from kraftwreck.histories.trace import TraceEvent

DISK = {1: "a" * 32, 2: "b" * 32, 3: "c" * 32}
Position = dict[str, Any]
FRESH: Position = {
    "state": "unattached", "epoch": 0, "leader": -1, "voted": -1, "leo": 0, "hw": -1
}  # fmt: skip


class Life:
    """Events of nodes n1 to n3, each from the node's last position."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self._at: dict[int, Position] = {}
        self._life: dict[int, tuple[int, int]] = {}

    def tell(self, node: int, kind: str, detail: dict[str, Any] | None = None, **now: Any) -> None:
        if kind == "start":
            self._life[node] = self._life.get(node, (0, 0))[0] + 1, 0
            self._at[node] = {**FRESH, **now}
            detail = {"directory": DISK[node], **(detail or {})}
        else:
            life, seq = self._life[node]
            self._life[node] = life, seq + 1
            self._at[node].update(now)
        life, seq = self._life[node]
        self.events.append(
            TraceEvent(
                node=f"n{node}",
                incarnation=life,
                seq=seq,
                mono=len(self.events),
                wall=0,
                kind=kind,
                detail=detail or {},
                **self._at[node],
            )
        )

    def append(self, node: int, base: int, epoch: int, by: str, crc: int = 7) -> None:
        detail = {"base": base, "last": base, "epoch": epoch, "crc": crc, "by": by}
        self.tell(node, "append", detail, leo=base + 1)

    def commit(self, node: int, base: int, epoch: int) -> None:
        self.tell(node, "commit", {"base": base, "last": base, "epoch": epoch, "crc": 7})

    def grant(self, node: int, candidate: int, *, pre: bool, **now: Any) -> None:
        at = {**self._at[node], **now}
        detail = {
            "epoch": at["epoch"], "candidate": candidate, "pre": pre,
            "candidate_last_epoch": 9, "candidate_last_offset": at["leo"],
            "last_epoch": 0, "last_offset": at["leo"],
        }  # fmt: skip
        self.tell(node, "grant", detail, **now)

    def begin(self) -> Life:
        """n1 is elected in epoch 1 by n2, n3 learns of it; one record is committed."""
        for node in (1, 2, 3):
            self.tell(node, "start")
        self.tell(1, "state", {"from": "unattached"}, state="prospective")
        self.grant(2, 1, pre=True)
        self.tell(1, "state", {"from": "prospective"}, state="candidate", epoch=1, voted=1)
        self.tell(2, "state", {"from": "unattached"}, epoch=1)
        self.grant(2, 1, pre=False, voted=1)
        self.tell(1, "state", {"from": "candidate"}, state="leader", leader=1, voted=-1)
        detail = {"granting": [1, 2], "voters": [1, 2, 3], "epoch_start": 0}
        self.tell(1, "elected", detail)
        self.append(1, 0, 1, "leader")
        for node in (2, 3):
            self.tell(node, "state", {"from": "unattached"}, state="follower", epoch=1, leader=1)
            self.append(node, 0, 1, "follower")
        self.tell(1, "hw", hw=1)
        self.commit(1, 0, 1)
        self.tell(1, "claim", {"epoch_start": 0})
        self.tell(2, "hw", hw=1)
        self.commit(2, 0, 1)
        return self

    @property
    def refused(self) -> list[str]:
        """The explanations of illegal transitions, and of broken rules with their ids."""
        return refused(self.events)


def refused(events: list[TraceEvent]) -> list[str]:
    model = QuorumModel(["n1", "n2", "n3"], ordered=False)
    model.run(events)
    assert model.count == len(events)
    return [
        *(anomaly.explanation for anomaly in model.refused.anomalies),
        *(f"{anomaly.type}: {anomaly.explanation}" for anomaly in model.findings.anomalies),
    ]


@pytest.fixture
def life() -> Life:
    return Life().begin()


def test_a_legal_life_is_accepted_and_counted(life: Life) -> None:
    life.tell(1, "state", {"from": "leader"}, state="resigned", leader=-1)
    life.tell(1, "state", {"from": "resigned"}, state="unattached", epoch=2, leader=-1)
    life.tell(2, "state", {"from": "follower"}, state="prospective")
    life.tell(2, "state", {"from": "prospective"}, state="follower")
    life.tell(3, "start", state="follower", epoch=1, leader=1, voted=-1, leo=1)
    life.tell(3, "snapshot", {"end": 1, "epoch": 1, "by": "fetched"})
    life.tell(3, "install", {"end": 5, "epoch": 1}, leo=5)
    life.tell(3, "hw", hw=5)
    assert life.refused == []


def refused_after(life: Life, *steps: tuple[Any, ...]) -> list[str]:
    for node, kind, detail, now in steps:
        life.tell(node, kind, detail, **now)
    return life.refused


APPEND = {"base": 1, "last": 1, "epoch": 1, "crc": 7, "by": "leader"}
ILLEGAL: dict[str, tuple[tuple[Any, ...], str]] = {
    "no such state": ((1, "api", {}, {"state": "king"}), "no state"),
    "a high watermark beyond the log": ((1, "hw", {}, {"hw": 2}), "I14: n1: high watermark 2"),
    "a leader's epoch without a campaign": (
        (2, "state", {"from": "follower"}, {"state": "leader", "epoch": 2, "leader": 2}),
        "I15: n2 became leader",
    ),
    "an epoch that goes back": (
        (2, "state", {"from": "follower"}, {"state": "unattached", "epoch": 0}),
        "I6: n2 went back",
    ),
    "a candidate without pre-votes": (
        (2, "state", {"from": "follower"}, {"state": "candidate", "epoch": 2, "voted": 2}),
        "a winner of pre-votes",
    ),
    "unattached in the epoch of its leader": (
        (2, "state", {"from": "follower"}, {"state": "unattached", "leader": -1}),
        "no such transition",
    ),
    "another leader in one epoch": (
        (2, "state", {"from": "follower"}, {"leader": 3}), "leader changes"
    ),
    "its vote forgotten": (
        (2, "state", {"from": "follower"}, {"state": "prospective", "voted": -1}), "its vote for 1"
    ),
    "a vote in an epoch it only heard of": (
        (2, "state", {"from": "follower"}, {"state": "unattached", "epoch": 2, "leader": -1}),
        "just heard of",
    ),
    "pre-votes that raise the epoch": (
        (2, "state", {"from": "follower"}, {"state": "prospective", "epoch": 2, "voted": -1}),
        "no such transition",
    ),
    "its own follower": (
        (3, "state", {"from": "follower"}, {"epoch": 2, "leader": 3}), "its own leader"
    ),
    "an append that changes the high watermark": (
        (1, "append", APPEND, {"leo": 2, "hw": 2}), "changes its hw"
    ),
    "an append that leaves a gap": ((1, "append", APPEND, {"leo": 3}), "moves to 3"),
    "a follower that appends as leader": (
        (2, "append", APPEND, {"leo": 2}), "appends as leader"
    ),
    "a leader that appends for an older epoch": (
        (1, "append", {**APPEND, "epoch": 0}, {"leo": 2}), "I7: n1 appends a batch of epoch 0"
    ),
    "a leader that cuts its log": (
        (1, "truncate", {"from": 1, "to": 0}, {"leo": 0, "hw": 0}), "changes its hw"
    ),
    "a high watermark that goes back": ((2, "hw", {}, {"hw": 0}), "I13: n2"),
    "a record delivered twice": (
        (2, "commit", {"base": 0, "last": 0, "epoch": 1, "crc": 7}, {}), "I25: n2 delivers offset 0"
    ),
    "a record delivered early": (
        (2, "commit", {"base": 1, "last": 1, "epoch": 1, "crc": 7}, {}), "I25: n2 delivers up to"
    ),
    "a controller that takes over as follower": (
        (2, "claim", {"epoch_start": 0}, {}), "I25: n2 becomes active controller"
    ),
    "a snapshot of what is not committed": (
        (2, "snapshot", {"end": 2, "epoch": 1, "by": "created"}, {}), "I20: n2 made"
    ),
    "a leader that installs a snapshot": (
        (1, "install", {"end": 5, "epoch": 1}, {"leo": 5}), "I22: n1"
    ),
    "a report of another past": (
        (2, "state", {"from": "candidate"}, {"state": "prospective"}), "reports that it was"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_step_is_refused(life: Life, name: str) -> None:
    step, why = ILLEGAL[name]
    refused = refused_after(life, step)
    assert len(refused) >= 1, name
    assert any(why in text for text in refused), refused


def test_a_new_leader_may_make_a_snapshot_of_delivered_records(
    life: Life,
) -> None:
    """Seed 484205: a snapshot was due in the very step in which a follower won its epoch."""
    for node in (2, 3):
        life.tell(node, "state", {"from": "follower"}, state="prospective")
    life.grant(3, 2, pre=True)
    life.tell(2, "state", {"from": "prospective"}, state="candidate", epoch=2, leader=-1, voted=2)
    life.tell(3, "state", {"from": "prospective"}, state="unattached", epoch=2, leader=-1)
    life.grant(3, 2, pre=False, voted=2)
    life.tell(2, "state", {"from": "candidate"}, state="leader", leader=2, voted=-1, hw=-1)
    detail = {"granting": [2, 3], "voters": [1, 2, 3], "epoch_start": 1}
    life.tell(2, "elected", detail)
    life.append(2, 1, 2, "leader")
    life.tell(2, "snapshot", {"end": 1, "epoch": 1, "by": "created"})
    assert life.refused == []
    life.tell(2, "snapshot", {"end": 2, "epoch": 2, "by": "created"})
    assert any(
        "I20: n2 made the snapshot (2, 2) above its high watermark 1" in text
        for text in life.refused
    )


def test_a_leader_may_load_only_the_snapshot_present_at_start(life: Life) -> None:
    life.tell(1, "load", {"end": 1, "epoch": 1})
    assert life.refused == []
    life.tell(1, "load", {"end": 1, "epoch": 1})
    assert any("I22: n1" in text for text in life.refused)


STARTS: dict[str, tuple[int, Position, str]] = {
    "a leader that goes on": (1, {"state": "leader", "epoch": 1, "leader": 1}, "I15: n1 starts"),
    "a leader that follows": (
        1, {"state": "unattached", "epoch": 1, "leo": 1}, "starts in it as unattached"
    ),
    "an older epoch": (2, {"epoch": 0, "leo": 1}, "I6: n2 went back"),
    "a lost vote": (
        2, {"state": "follower", "epoch": 1, "leader": 1, "leo": 1}, "I3: n2 voted for 1"
    ),
    "a high watermark": (3, {"epoch": 1, "leo": 1, "hw": 1}, "learned, not stored"),
    "another leader": (
        3, {"state": "follower", "epoch": 1, "leader": 2, "leo": 1}, "starts with 2"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_forgets_is_refused(life: Life, name: str) -> None:
    node, position, why = STARTS[name]
    life.tell(node, "start", **position)
    assert any(why in text for text in life.refused), life.refused


def test_a_new_disk_remembers_nothing(life: Life) -> None:
    life.tell(3, "start", {"directory": "d" * 32})
    assert life.refused == []


@pytest.mark.parametrize(
    ("pre", "now", "why"),
    [
        (True, {}, "whose leader is alive"),
        (False, {"voted": 3}, "a vote for 3 in epoch 1 as follower"),
    ],
)
def test_a_follower_that_hears_its_leader_grants_nothing(
    life: Life, pre: bool, now: Position, why: str
) -> None:
    life.grant(2, 3, pre=pre, **now)
    assert any(why in text for text in life.refused)


@pytest.mark.parametrize("disk", ["", DISK[3], "d" * 32])
def test_an_observer_may_let_others_depose_a_silent_leader(life: Life, disk: str) -> None:
    """It stays a follower for ever, so only I17 can say whether the leader was silent."""
    told = [[1, DISK[1]], [2, DISK[2]], *([[3, disk]] if disk else [])]
    life.tell(3, "voters", {"voters": told, "kraft_version": 1, "offset": 0})
    life.grant(3, 2, pre=True)
    assert life.refused == [] or disk == DISK[3]
    assert any("whose leader is alive" in text for text in life.refused) is (disk == DISK[3])


def test_a_vote_for_an_older_log_is_refused(life: Life) -> None:
    life.tell(3, "state", {"from": "follower"}, state="unattached", epoch=2, leader=-1)
    life.grant(3, 2, pre=False, voted=2)
    life.events[-1].detail.update(candidate_last_epoch=0, candidate_last_offset=0)
    assert any("I4: n3" in text for text in life.refused)


def test_a_second_vote_in_one_epoch_is_refused(life: Life) -> None:
    life.tell(3, "state", {"from": "follower"}, state="unattached", epoch=2, leader=-1)
    life.grant(3, 2, pre=False, voted=2)
    life.grant(3, 1, pre=False, voted=1)
    assert any("its vote goes from 2 to 1" in text for text in life.refused)


@pytest.mark.parametrize("known", [True, False])
def test_a_node_that_ends_its_campaign_follows_the_known_leader(life: Life, known: bool) -> None:
    """Of a leader outside of the voters only the id may be known, and not its address."""
    voters = [[2, DISK[2]], [3, DISK[3]], *([[1, DISK[1]]] if known else [])]
    life.tell(3, "voters", {"voters": voters, "kraft_version": 1, "offset": 0})
    life.tell(3, "state", {"from": "follower"}, state="prospective")
    life.tell(3, "state", {"from": "prospective"}, state="unattached")
    assert any("does not follow it again" in text for text in life.refused) is known


@pytest.mark.parametrize(
    ("voters", "pre", "won"),
    [([1, 2, 3], [2], True), ([1, 2, 3], [], False), ([3], [], True), ([1, 2, 3, 4], [2], False)],
)
def test_a_candidate_has_won_the_pre_votes_of_a_majority(
    life: Life, voters: list[int], pre: list[int], won: bool
) -> None:
    told = [[node, DISK.get(node, "d" * 32)] for node in voters]
    life.tell(3, "voters", {"voters": told, "kraft_version": 1, "offset": 0})
    life.tell(3, "state", {"from": "follower"}, state="prospective")
    for node in pre:
        life.tell(node, "state", {"from": "follower"}, state="prospective")
        life.grant(node, 3, pre=True)
    life.tell(3, "state", {"from": "prospective"}, state="candidate", epoch=2, voted=3, leader=-1)
    assert any("with the pre-votes of" in text for text in life.refused) is not won


@pytest.mark.parametrize(
    ("state", "others", "detail", "right"),
    [
        ("resigned", True, {}, False),
        ("resigned", False, {}, True),
        ("resigned", True, {"reason": "the disk failed: full"}, True),
        ("unattached", True, {}, True),
    ],
)
def test_a_resigned_leader_stops_once_it_knows_a_successor(
    life: Life, state: str, others: bool, detail: dict[str, Any], right: bool
) -> None:
    voters = [[1, DISK[1]], *([[2, DISK[2]]] if others else [])]
    life.tell(1, "voters", {"voters": voters, "kraft_version": 1, "offset": 0})
    life.tell(1, "state", {"from": "leader"}, state="resigned", leader=-1)
    if state == "unattached":
        life.tell(1, "state", {"from": "resigned"}, state=state, epoch=2)
    life.tell(1, "stop", detail)
    assert any("knows no successor" in text for text in life.refused) is not right


def test_a_followed_leader_must_have_led(life: Life) -> None:
    life.tell(3, "state", {"from": "follower"}, epoch=4, leader=2)
    assert life.refused == ["n3 follows n2, which never led epoch 4"]


def test_a_node_that_starts_as_resigned_has_led(life: Life) -> None:
    life.tell(2, "start", state="resigned", epoch=4, leo=1)
    life.tell(3, "state", {"from": "follower"}, epoch=4, leader=2)
    assert life.refused == []


def test_a_learned_high_watermark_must_be_the_leaders(life: Life) -> None:
    life.append(1, 1, 1, "leader")
    life.append(3, 1, 1, "follower")
    life.tell(3, "hw", hw=2)
    assert any("learns the high watermark 2" in text for text in life.refused)


def test_a_counted_vote_must_have_been_given(life: Life) -> None:
    events = [event for event in life.events if event.kind != "grant" or event.detail["pre"]]
    seqs: dict[str, int] = {}
    for event in events:
        event.seq = seqs[event.node] = seqs.get(event.node, -1) + 1
    assert any(
        "I5: n1 became leader of epoch 1 counting the vote of n2" in t for t in refused(events)
    )


def test_a_batch_that_the_leader_holds_is_not_truncated(life: Life) -> None:
    life.tell(3, "truncate", {"from": 1, "to": 0}, leo=0)
    assert any("which its leader n1 holds" in text for text in life.refused)


def test_lost_lines_are_counted_and_not_judged(life: Life) -> None:
    lost = [event for event in life.events if event.kind != "hw"]
    assert refused(lost) == []
    run = RunData.from_memory([], lost, [], [], {"nodes": ["n1", "n2", "n3"]})
    assert find("conformance")(run).stats["gaps"] == 2


def test_without_a_trace_nothing_is_known() -> None:
    run = RunData.from_memory([], [], [], [], {"nodes": ["n1"]})
    assert find("conformance")(run).valid == "unknown"


def test_the_events_are_left_as_they_were(life: Life) -> None:
    before = msgspec.json.encode(life.events)
    assert life.refused == []
    assert msgspec.json.encode(life.events) == before
