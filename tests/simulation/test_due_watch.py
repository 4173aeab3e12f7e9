"""F22: each wait at the leader of the quorum and at the active controller ends in time."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import LINGER_MS, MAX_IDLE_MS, READ_LINGER_US
from kraftwreck.nodes.consensus.effects import ApiRequest, RequestReceived, Tick
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import AddRaftVoterRequest, FetchRequest
from kraftwreck.nodes.consensus.kraft.voters import VoterSet
from kraftwreck.nodes.metadata.controller import Controller
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.replication.events import LogFlushed
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import due_watch
from kraftwreck.systems.kraft.simulated.due_watch import DueWatch

pytestmark = pytest.mark.interpreted

MS = 1000
IDLE_US, LINGER_US = 500 * MS, 25 * MS
AHEAD = 7_000_000


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def fetch(offset: int, high_watermark: int) -> FetchRequest:
    return FetchRequest(None, 2, b"d" * 16, 500, 1, 3, offset, 3, high_watermark)


class Process:
    """An active controller that leads three voters; its clock is 7 s ahead. The log ends at 10, and
    9 is committed and applied."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(due_watch, "Node", SimpleNamespace)
        patch.setattr(due_watch, "Replica", SimpleNamespace)
        self.voters: set[tuple[int, bytes]] = set()
        self.leader = Leader(1, VoterSet({}), (), 5, 0, 1)
        self.leader.next_offset = 10
        self.replica = fake(
            state=self.leader,
            log=fake(end_offset=10),
            high_watermark=9,
            voters=(1, 2, 3),
            history=fake(latest=fake(has=lambda *voter: voter in self.voters)),
        )
        self.image = fake(last_offset=9, stable_offset=8, proposed=1)
        self.controller = fake(is_active=True)
        self.node = fake(
            replica=self.replica,
            controller=self.controller,
            image=self.image,
            deadline=AHEAD + 5 * MS,
        )
        clock = fake(mono=lambda now: now + AHEAD)
        self.host = fake(id=1, name="n1", life=1, node=self.node, clock=clock, tokens={})
        knobs = fake(settings_of=lambda _: {"linger_ms": 25})
        self.world = fake(now=0, hosts=[self.host], knobs=knobs, on_step=[])
        self.failures = Failures()
        DueWatch(self.world, self.failures)

    def step(self, event: Any = None, *, at: int | None = None, due: int | None = None) -> None:
        """Let a step end at the time ``at``, after which a Tick is due at ``due``."""
        self.world.now = self.world.now if at is None else at
        self.node.deadline = AHEAD + (self.world.now + 1 if due is None else due)
        self.world.on_step[0](self.host, event or Tick())

    def ask(self, api: str, *, at: int | None = None, due: int | None = None) -> None:
        token = len(self.host.tokens)
        self.host.tokens[token] = api
        self.step(ApiRequest(token, api, 0, {}), at=at, due=due)

    def fetch(self, offset: int = 10, high_watermark: int = 9) -> None:
        token = len(self.host.tokens)
        self.host.tokens[token] = "Fetch"
        self.step(RequestReceived(token, fetch(offset, high_watermark)))

    def join(self, *, ack_when_committed: bool = False) -> None:
        token = len(self.host.tokens)
        self.host.tokens[token] = "AddRaftVoter"
        asked = AddRaftVoterRequest(None, 1000, 4, b"d" * 16, (), ack_when_committed)
        self.step(RequestReceived(token, asked))

    def append(self, end: int = 11) -> None:
        """Let the controller append a record, which is written at once."""
        self.image.last_offset = end - 1
        self.image.proposed += 1
        self.leader.next_offset = self.replica.log.end_offset = end

    @property
    def found(self) -> list[str]:
        return [each.explanation for each in self.failures.items]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


# --- fetches ------------------------------------------------------------------------------------


def test_a_fetch_may_wait_for_news(process: Process) -> None:
    process.fetch()
    process.step(at=100 * MS)
    assert process.found == []


def test_a_fetch_that_an_append_does_not_wake_is_found(process: Process) -> None:
    process.fetch()
    process.fetch()
    process.append()
    process.step()
    del process.host.tokens[0]
    process.step()
    (found,) = process.found
    assert "at 10 with high watermark 9 wait although there are 1 records" in found


def test_a_fetch_that_a_commit_does_not_wake_is_found(process: Process) -> None:
    process.fetch()
    process.replica.high_watermark = 10
    process.step()
    assert process.found == []
    process.step()
    assert "its high watermark is 10" in process.found[0]


def test_a_fetch_that_outlives_its_leader_is_found(process: Process) -> None:
    process.fetch()
    process.replica.state = None
    process.step()
    assert process.found == []
    process.step()
    assert "wait although it leads no longer" in process.found[0]


def test_a_new_process_has_no_requests(process: Process) -> None:
    process.fetch()
    process.append()
    process.step()
    process.host.life = 2
    process.step()
    assert process.found == []


# --- requests to the controller -----------------------------------------------------------------


@pytest.mark.parametrize(("late", "right"), [(0, True), (1, False)])
def test_a_read_waits_5_ms_for_a_record(process: Process, late: int, right: bool) -> None:
    process.step(due=IDLE_US)
    process.ask("DescribeConfigs", at=100, due=100 + READ_LINGER_US + late)
    process.step(at=200)
    assert (process.found == []) == right
    if not right:
        assert "lets a DescribeConfigs wait for any record" in process.found[0]


def test_a_read_that_is_postponed_by_another_is_found(process: Process) -> None:
    process.step(due=IDLE_US)
    process.ask("Metadata", at=100, due=100 + READ_LINGER_US)
    process.ask("Metadata", at=3100, due=3100 + READ_LINGER_US)
    process.step(at=3200)
    (found,) = process.found
    assert "0.008 s after its arrival" in found


def test_a_request_is_answered_as_its_record_is_applied(process: Process) -> None:
    process.step()
    process.ask("CreateTopics")
    process.append()
    process.step(due=IDLE_US)
    process.step(due=IDLE_US)
    assert process.found == []
    process.image.stable_offset = 10
    process.step()
    process.host.tokens.clear()
    process.step()
    assert process.found == []


def test_a_request_that_is_left_out_as_its_record_is_applied_is_found(process: Process) -> None:
    process.step()
    process.ask("CreateTopics")
    process.append()
    process.step()
    process.image.stable_offset = 10
    process.step()
    assert process.found == []
    process.step()
    assert "lets a CreateTopics wait for a record at 10; it has applied 10" in process.found[0]
    process.step()
    assert len(process.found) == 1, "once"


@pytest.mark.parametrize(("late", "found"), [(-1, 1), (0, 0)])
def test_a_request_that_a_late_step_handles_is_left_out(
    process: Process, late: int, found: int
) -> None:
    """The record of that step may be one that was due, and not the request's (seed 6400230)."""
    process.step(due=100)
    process.append()
    process.ask("CreateTopics", at=100 + late)
    process.image.stable_offset = 10
    process.step()
    process.step()
    assert len(process.found) == found


def test_a_request_that_outlives_the_lead_is_found(process: Process) -> None:
    process.step()
    process.ask("CreateTopics")
    process.append()
    process.step()
    process.replica.state, process.controller.is_active = None, False
    process.step()
    process.step()
    assert len(process.found) == 1


def test_records_of_the_quorum_end_no_wait(process: Process) -> None:
    """The image of an only voter moves by them as by those of the controller."""
    process.step()
    process.ask("Metadata", due=READ_LINGER_US)
    process.image.last_offset, process.image.proposed = 10, 0
    process.image.stable_offset = 10
    process.step(at=100, due=READ_LINGER_US)
    process.step(at=200, due=READ_LINGER_US)
    assert process.found == []


@pytest.mark.parametrize(("voters", "found"), [((1,), 0), ((1, 2), 1)])
def test_an_only_voter_commits_at_once(
    process: Process, voters: tuple[int, ...], found: int
) -> None:
    process.replica.voters = voters
    process.step(due=IDLE_US)
    process.ask("Metadata", due=IDLE_US)
    process.step()
    assert len(process.found) == found


@pytest.mark.parametrize("api", ["DescribeQuorum", "UpdateFeatures", "Envelope"])
def test_other_requests_are_not_judged(process: Process, api: str) -> None:
    process.step(due=IDLE_US)
    process.ask(api, due=IDLE_US)
    process.step()
    assert process.found == []


# --- batches, and idle controllers ----------------------------------------------------------------


@pytest.mark.parametrize(("late", "right"), [(0, True), (1, False)])
def test_records_wait_for_their_batch(process: Process, late: int, right: bool) -> None:
    process.leader.next_offset = 11
    process.step(at=100, due=100 + LINGER_US)
    process.leader.next_offset = 12
    process.step(at=200, due=100 + LINGER_US + late)
    assert (process.found == []) == right


def test_a_batch_that_is_not_written_in_time_is_found(process: Process) -> None:
    process.leader.next_offset = 11
    process.step(at=0, due=LINGER_US)
    process.step(at=LINGER_US + 1)
    assert "lets records from offset 10 on wait for their batch" in process.found[0]


def test_the_records_after_a_batch_have_their_own_time(process: Process) -> None:
    process.leader.next_offset = 11
    process.step(at=0, due=LINGER_US)
    process.replica.log.end_offset, process.leader.next_offset = 11, 12
    process.step(at=LINGER_US, due=2 * LINGER_US)
    assert process.found == []


@pytest.mark.parametrize(("late", "right"), [(0, True), (1, False)])
def test_an_idle_controller_appends_a_record(process: Process, late: int, right: bool) -> None:
    process.step(at=100)
    process.step(at=200, due=100 + IDLE_US + late)
    assert (process.found == []) == right


def test_a_controller_that_appends_is_not_idle(process: Process) -> None:
    process.step(at=0)
    process.append()
    process.step(at=IDLE_US, due=2 * IDLE_US)
    process.controller.is_active = False
    process.step(at=3 * IDLE_US)
    process.controller.is_active = True
    process.step(at=4 * IDLE_US, due=5 * IDLE_US)
    assert process.found == []


def test_other_steps_are_not_judged(process: Process) -> None:
    process.leader.next_offset = 11
    process.step(LogFlushed.__new__(LogFlushed), due=IDLE_US)
    process.replica.state = None
    process.step(due=IDLE_US)
    process.host.node = fake()
    process.step()
    process.host.node = None
    process.step()
    assert process.found == []


def test_a_node_without_parts_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    monkeypatch.setattr(due_watch, "Node", Node)
    process.host.node = Node.__new__(Node)
    process.step()
    assert process.found == []


def test_the_limits_are_the_settings_of_the_nodes() -> None:
    defaults = {each.name: each.default for each in fields(NodeConfig)}
    assert defaults["linger_ms"] == LINGER_MS
    assert defaults["max_idle_ms"] == MAX_IDLE_MS
    linger = signature(Controller).parameters["read_linger_ms"].default
    assert linger * MS == READ_LINGER_US


# --- new voters ---------------------------------------------------------------------------------


def test_a_request_for_a_voter_is_answered_by_the_step_that_appends_it(process: Process) -> None:
    process.join()
    process.step()
    process.step()
    assert process.found == []
    process.voters.add((4, b"d" * 16))
    process.step()
    assert process.found == [], "the answer of this step has not left yet"
    process.step()
    assert len(process.found) == 1
    assert "voter 4" in process.found[0]
    process.step()
    assert len(process.found) == 1, "it is reported once"


@pytest.mark.parametrize("what", ["answered", "for the commit", "a voter", "not the leader"])
def test_a_request_for_a_voter_may_wait(process: Process, what: str) -> None:
    if what == "a voter":
        process.voters.add((4, b"d" * 16))
    process.join(ack_when_committed=what == "for the commit")
    process.voters.add((4, b"d" * 16))
    if what == "not the leader":
        process.replica.state = None
    process.step()
    if what == "answered":
        process.host.tokens.clear()
    process.step()
    process.step()
    assert process.found == []
