"""The time limits of the simulator's rules, each judged right below it and right above it.

Halved or doubled, a limit makes one of these tests fail (``bench/checker_mutants.py``).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftwreck.nodes.consensus.effects import Reply, ResponseReceived, Send
from kraftwreck.nodes.consensus.kraft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import FetchReceived, ProduceReceived
from kraftwreck.simulation.host import ClientCall
from kraftwreck.simulation.network import Rpc
from kraftwreck.systems.kraft.simulated import partition_service
from kraftwreck.systems.kraft.simulated import run as simulated_run
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.service_watch import BROKERS
from tests.simulation.replicas import KEY
from tests.simulation.watched import Watched

SECOND = 1_000_000


@pytest.fixture
def run() -> Watched:
    return Watched()


def fetch(follower: int, epoch: int = 1) -> FetchRequest:
    return FetchRequest(None, follower, bytes([follower]) * 16, 500, 1 << 20, epoch, 5, 1, -1)


def at(run: Watched, second: float) -> None:
    run.world.run(round(second * SECOND))


# --- I17, I18 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "right"), [(3.4, True), (3.400001, False)])
def test_i18_gives_a_leader_400_ms(run: Watched, second: float, right: bool) -> None:
    """In addition to 1.5 fetch timeouts of 2 s."""
    run.voters(1, "123")
    run.trace(1, "state", "leader")
    at(run, second)
    run.trace(1, "api", "leader")
    assert run.found == ([] if right else ["I18"])


@pytest.mark.parametrize(("paused_for", "right"), [(0.4, True), (0.400001, False)])
def test_i18_gives_a_resumed_leader_400_ms(run: Watched, paused_for: float, right: bool) -> None:
    run.voters(1, "123")
    run.trace(1, "state", "leader")
    at(run, 9)
    run.host(1).resumed_at = round((9 - paused_for) * SECOND)
    run.trace(1, "api", "leader")
    assert run.found == ([] if right else ["I18"])


@pytest.mark.parametrize(("voters", "broken"), [("1", []), ("12", ["I18"])])
def test_i18_needs_a_majority_of_more_than_one_voter(
    run: Watched, voters: str, broken: list[str]
) -> None:
    run.voters(1, voters)
    run.trace(1, "state", "leader")
    at(run, 9)
    run.trace(1, "api", "leader")
    assert run.found == broken


@pytest.mark.parametrize(("second", "broken"), [(4.4, []), (4.400001, ["I18"])])
def test_i18_counts_fetches_within_a_time_out_and_400_ms(
    run: Watched, second: float, broken: list[str]
) -> None:
    """Two of four others are needed: n2 fetches after a second, n3 later."""
    run.voters(1, "12345")
    run.trace(1, "state", "leader")
    for follower, fetched in ((2, 1.0), (3, second)):
        at(run, fetched)
        for told in run.world.on_request:
            told(run.host(1), fetch(follower))
    at(run, 5)
    run.trace(1, "api", "leader")
    assert run.found == broken


@pytest.mark.parametrize(("resumed_for", "judged"), [(0.4, False), (0.400001, True)])
def test_i17_leaves_out_the_backlog_of_400_ms(
    run: Watched, resumed_for: float, judged: bool
) -> None:
    host = run.host(2)
    for sent in run.world.wires.on_send:
        sent(host, Send(1, 0, fetch(2)))
    run.trace(2, "state")
    at(run, 5)
    host.resumed_at = round((5 - resumed_for) * SECOND)
    answer = FetchResponse(0, 0, 1, 1, -1, 0, -1, -1, -1, -1, b"")
    for _ in range(2):
        for told in run.world.on_response:
            told(host, ResponseReceived(1, 1, answer))
    grants_pre_vote(run)
    assert run.found == (["I17"] if judged else [])


def grants_pre_vote(run: Watched) -> None:
    """Let n2 grant n3 a pre-vote."""
    request = VoteRequest(None, 2, 1, 3, bytes(16), bytes(16), 9, 9, True)
    for replied in run.world.wires.on_reply:
        reply = Reply(1, VoteResponse(0, 0, -1, 1, True))
        replied(run.host(2), Rpc(3, 1, 2, 1, 2, 1, request, 0), reply)


@pytest.mark.parametrize(("second", "broken"), [(6.999999, ["I17"]), (7, [])])
def test_i17_binds_a_follower_for_a_fetch_timeout(
    run: Watched, second: float, broken: list[str]
) -> None:
    """Its leader has answered after 5 s."""
    for sent in run.world.wires.on_send:
        sent(run.host(2), Send(1, 0, fetch(2)))
    run.trace(2, "state")
    at(run, 5)
    answer = FetchResponse(0, 0, 1, 1, -1, 0, -1, -1, -1, -1, b"")
    for _ in range(2):
        for told in run.world.on_response:
            told(run.host(2), ResponseReceived(1, 1, answer))
    at(run, second)
    grants_pre_vote(run)
    assert run.found == broken


# --- F2 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "right"), [(5, True), (5.000001, False)])
def test_f2_gives_a_controller_five_seconds(run: Watched, second: float, right: bool) -> None:
    request = BeginQuorumEpochRequest(None, 1, bytes(16), 2, 1)
    run.host(1).tokens[1] = Rpc(2, 1, 1, 1, 1, 1, request, sent=0, arrived=0)
    at(run, second)
    run.watch.answers.finish()
    assert run.found == ([] if right else ["F2"])


@pytest.mark.parametrize(("second", "right"), [(35, True), (35.000001, False)])
def test_f2_gives_a_broker_half_a_minute_more(run: Watched, second: float, right: bool) -> None:
    host = run.host(1)
    host.listener = BROKERS
    message = ApiMessage("CreateTopics", 7, {})
    host.tokens[1] = ClientCall(0, 1, 1, 1, message, BROKERS, sent=0)
    at(run, second)
    run.watch.answers.finish()
    assert run.found == ([] if right else ["F2"])


class Waking(Node):
    """A node of which only the time of its next Tick is known."""

    def __init__(self, deadline: int) -> None:
        self.wakes_at = deadline

    @property
    def deadline(self) -> int:
        return self.wakes_at


def arrives(run: Watched, token: int, wait_ms: int) -> None:
    request = FetchRequest(None, 2, bytes(16), wait_ms, 1 << 20, 1, 5, 1, -1)
    run.host(1).tokens[token] = Rpc(2, token, 1, 1, 1, 1, request, 0)
    run.watch.answers.arrived(run.host(1), request)


@pytest.mark.interpreted
@pytest.mark.parametrize(("late_us", "right"), [(1000, True), (1001, False)])
def test_f2_lets_a_fetch_wait_no_longer_than_it_allows(
    run: Watched, late_us: int, right: bool
) -> None:
    """The fetch that arrives now is not yet part of what the leader waits for."""
    arrives(run, 1, 300)
    at(run, 0.2)
    run.host(1).node = Waking(run.host(1).clock.mono(0) + 300_000 + late_us)
    arrives(run, 2, 1)
    assert run.found == ([] if right else ["F2"])


@pytest.mark.interpreted
@pytest.mark.parametrize("ended", ["answered", "another process"])
def test_f2_forgets_fetches_that_have_ended(run: Watched, ended: str) -> None:
    arrives(run, 1, 300)
    if ended == "answered":
        del run.host(1).tokens[1]
    else:
        run.host(1).life += 1
    run.host(1).node = Waking(1 << 60)
    arrives(run, 2, 1)
    assert run.found == []


# --- F5 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "right"), [(4, True), (4.000001, False)])
def test_f5_lets_a_follower_ask_its_leader_in_vain_for_three_seconds(
    run: Watched, second: float, right: bool
) -> None:
    """And one more for its steps. At least four requests fail in that time."""
    run.trace(2, "state", detail={"from": "unattached"})
    for number, each in enumerate((0.0, 1.0, 2.0, 3.0, second)):
        at(run, each)
        for sent in run.world.wires.on_send:
            sent(run.host(2), Send(1, number, fetch(2)))
        for told in run.world.on_response:
            told(run.host(2), ResponseReceived(1, number, None))
    assert run.found == ([] if right else ["F5"])


# --- the end of a run -------------------------------------------------------------------------


class Ends:
    """A world in which nothing happens but time."""

    def __init__(self) -> None:
        self.now = 0
        self.hosts: list[Any] = []

    def run(self, until: int, stop: Any = None) -> None:
        self.now = until


def ended(monkeypatch: pytest.MonkeyPatch, *, recovers: bool, open: int, missing: bool) -> Any:
    """Return when (s) each rule was broken after a heal that leaves ``open`` voter changes."""
    world, broken = Ends(), dict[str, float]()
    service = SimpleNamespace(
        missing=lambda: missing, judge=lambda _: broken.setdefault("F3", world.now / SECOND)
    )
    failures = SimpleNamespace(add=lambda rule, now, *_: broken.setdefault(rule, now / SECOND))
    quorum = SimpleNamespace(high_watermark=0)
    watch = SimpleNamespace(quorum=quorum, failures=failures, service=service, partitions=None)
    driver = SimpleNamespace(idle=True, abandon=lambda: None, run_final=lambda _: None)
    faults = SimpleNamespace(admin=SimpleNamespace(open=open))
    monkeypatch.setattr(simulated_run, "_recovered", lambda *_: recovers)
    monkeypatch.setattr(simulated_run, "CLIENT_WAIT", 0)
    monkeypatch.setattr(simulated_run, "FINAL_LIMIT", 0)
    simulated_run._wind_down(*cast(Any, (world, watch, faults, driver, [])))
    return broken


@pytest.mark.interpreted
def test_a_cluster_elects_within_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, recovers=False, open=0, missing=False) == {"L1": 30}


@pytest.mark.interpreted
def test_voter_changes_end_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ended(monkeypatch, recovers=True, open=1, missing=False)
    assert broken == {"L6": 60.25}, "the cluster recovered after a quarter of a second"


@pytest.mark.interpreted
def test_brokers_serve_within_three_quarters_of_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ended(monkeypatch, recovers=True, open=0, missing=True)
    assert broken == {"F3": 45.5}


@pytest.mark.interpreted
def test_nodes_that_make_progress_catch_up_within_five_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their logs grow all the time, but never suffice."""

    class Grows(Ends):
        def run(self, until: int, stop: Any = None) -> None:
            super().run(until)
            event = SimpleNamespace(leo=until, hw=until, state="follower", epoch=1)
            self.hosts = [SimpleNamespace(node=object(), last_trace=event, name="n1")]

    world, broken = Grows(), list[float]()
    failures = SimpleNamespace(add=lambda rule, now, *_: broken.append(now / SECOND))
    watch = SimpleNamespace(quorum=SimpleNamespace(high_watermark=1 << 62), failures=failures)
    monkeypatch.setattr(simulated_run, "_recovered", lambda *_: False)
    simulated_run._recover(*cast(Any, (world, watch)))
    assert broken == [300]


@pytest.mark.interpreted
@pytest.mark.parametrize(("progress_s", "given_up_s"), [(0, 30), (10, 40), (1000, 300)])
def test_partitions_serve_within_half_a_minute_of_their_last_progress(
    monkeypatch: pytest.MonkeyPatch, progress_s: int, given_up_s: int
) -> None:
    """And within five minutes in any case."""
    world, broken = Ends(), list[float]()
    failures = SimpleNamespace(add=lambda rule, now, *_: broken.append(now / SECOND))
    nothing = SimpleNamespace(on_answer=[])
    monkeypatch.setattr(partition_service, "record_traffic", lambda _: nothing)
    service = partition_service.PartitionService(*cast(Any, (world, failures, None)))
    monkeypatch.setattr(service, "unsettled", lambda: ["t-0 has no leader"])
    monkeypatch.setattr(service, "_state", lambda: min(world.now, progress_s * SECOND))
    service.settle()
    assert broken == [given_up_s]


class Serving:
    """Partition 0 with replicas 4, 5 and 6, of which 4 leads, once all brokers serve at 10 s."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken: list[str] = []
        self.world = SimpleNamespace(now=10 * SECOND, hosts=[])
        failures = SimpleNamespace(add=lambda rule, now, *_: self.broken.append(rule))
        self.ends, self.starts = dict.fromkeys((4, 5, 6), 9), dict.fromkeys((4, 5, 6), 2)
        logs = SimpleNamespace(replicas=self._logs)
        nothing = SimpleNamespace(on_answer=[])
        monkeypatch.setattr(partition_service, "record_traffic", lambda _: nothing)
        monkeypatch.setattr(partition_service, "replicas_on", lambda host: host.replicas)
        self.service = partition_service.PartitionService(*cast(Any, (self.world, failures, logs)))
        self.service._since = self.world.now
        self.leader = SimpleNamespace(
            leading=True, hw=9, min_insync=3, log=SimpleNamespace(start=2, end=9)
        )
        host: Any = SimpleNamespace(
            name="b4", node=object(), replicas={KEY: self.leader},
            waited=lambda since, now, slack: now - since - slack,
        )  # fmt: skip
        self.host, self.service._brokers = host, dict.fromkeys((4, 5, 6), host)

    def _logs(self, key: object) -> list[tuple[int, Any]]:
        return [
            (each, SimpleNamespace(start=self.starts[each], end=end))
            for each, end in self.ends.items()
        ]

    def unsettled(self) -> str:
        return self.service._unsettled(KEY, 4, (4, 5, 6), (4, 5, 6))

    def answers(self, event: Any, sent: int, now: int) -> list[str]:
        """Answer at ``now`` a client's request of ``sent``; return the rules that are broken."""
        self.world.now = now
        request = ClientCall.__new__(ClientCall)
        request.sent = sent
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event), api="Fetch")
        self.service._judge_wait(self.host, request, message)
        return self.broken


@pytest.mark.interpreted
@pytest.mark.parametrize(("late_us", "broken"), [(0, []), (1, ["L13"])])
@pytest.mark.parametrize(
    "event", [ProduceReceived(1, -1, 500, ()), FetchReceived(1, (), max_wait_ms=500)]
)
def test_no_request_waits_beyond_its_time_and_a_second(
    monkeypatch: pytest.MonkeyPatch, event: Any, late_us: int, broken: list[str]
) -> None:
    since = 10 * SECOND
    late = since + SECOND + 500_000 + late_us
    assert Serving(monkeypatch).answers(event, since, late) == broken


@pytest.mark.interpreted
def test_requests_from_before_all_brokers_served_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(monkeypatch)
    assert serving.answers(ProduceReceived(1, -1, 500, ()), 10 * SECOND - 1, 60 * SECOND) == []


@pytest.mark.interpreted
@pytest.mark.parametrize(("least", "settled"), [(3, False), (4, True)])
def test_an_isr_of_the_least_size_has_committed_all(
    monkeypatch: pytest.MonkeyPatch, least: int, settled: bool
) -> None:
    serving = Serving(monkeypatch)
    assert serving.unsettled() == ""
    serving.leader.hw, serving.leader.min_insync = 8, least
    assert (serving.unsettled() == "") is settled


@pytest.mark.interpreted
@pytest.mark.parametrize(("start", "settled"), [(1, False), (2, True), (3, True)])
def test_no_replica_begins_before_its_leader(
    monkeypatch: pytest.MonkeyPatch, start: int, settled: bool
) -> None:
    serving = Serving(monkeypatch)
    serving.starts[5] = start
    assert (serving.unsettled() == "") is settled
