"""Each limit of a rule, judged right below it and right above it.

Halved or doubled, a limit makes one of these tests fail (``bench/checker_mutants.py``).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftwreck.checkers.kraft import limits, recovery
from kraftwreck.checkers.kraft.controller_model.config_values import is_legal
from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    BROKER,
    NO_LEADER,
    SAME_LEADER,
    TOPIC,
    MetadataModel,
    Partition,
)
from kraftwreck.checkers.kraft.controller_model.refusals import (
    PREFERRED,
    UNCLEAN,
    is_legal_name,
    is_online,
)
from kraftwreck.checkers.kraft.controller_model.state import State
from kraftwreck.checkers.kraft.invariants.broker_rules import BrokerRules
from kraftwreck.checkers.kraft.invariants.eligible_rules import RECOVERING
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.image_states import DIGITS
from kraftwreck.checkers.kraft.invariants.leadership import _expiry_by_steps
from kraftwreck.checkers.kraft.invariants.partition_rules import SHRINK_KEEPS_EPOCH
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.sessions import _heard
from kraftwreck.checkers.kraft.invariants.standing import span
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch
from kraftwreck.checkers.kraft.recorded.timeline import Timeline
from kraftwreck.histories.message import Message
from kraftwreck.nodes.consensus.kraft.messages import FetchRequest, FetchResponse
from kraftwreck.nodes.metadata.image_digest import MODULUS
from kraftwreck.nodes.node_config import NodeConfig
from tests.checkers.breaks import broken, findings

MakeRun = Callable[..., Any]
SECOND = 1_000_000_000


def found(run: Any, invariant: str) -> bool:
    return any(each.type == invariant for each in findings(run))


ROOT = Path(__file__).parents[3]
TIME = re.compile(r"^ *_?[A-Z_]+_(?:NS|US|MS|S)\b[^=\n]*= *\(?\d", re.MULTILINE)


def test_times_of_rules_are_in_one_file() -> None:
    rules = [*ROOT.glob("checkers/kraft/**/*.py"), *ROOT.glob("systems/kraft/simulated/*_watch.py")]
    assert len(rules) > 60
    own = {path.name: TIME.findall(path.read_text()) for path in rules}
    assert own.pop("limits.py")
    assert {name: found for name, found in own.items() if found} == {}


# --- settings that a run does not name ----------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "setting"),
    [
        ("CLEAN_INTERVAL_MS", "clean_interval_ms"),
        ("FETCH_MAX_BYTES", "fetch_max_bytes"),
        ("FETCH_MAX_WAIT_MS", "fetch_max_wait_ms"),
        ("FETCH_TIMEOUT_MS", "fetch_timeout_ms"),
        ("IMBALANCE_CHECK_SECONDS", "leader_imbalance_check_interval_seconds"),
        ("LINGER_MS", "linger_ms"),
        ("REQUEST_TIMEOUT_MS", "request_timeout_ms"),
        ("SESSION_MS", "session_timeout_ms"),
        ("UNCLEAN_ELECTION_MS", "unclean_leader_election_interval_ms"),
    ],
)
def test_a_rule_takes_the_setting_of_a_node_that_was_given_none(limit: str, setting: str) -> None:
    defaults = {each.name: each.default for each in dataclasses.fields(NodeConfig)}
    assert getattr(limits, limit) == defaults[setting]


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "legal"), [(249, True), (250, False)])
def test_a_name_has_at_most_249_characters(length: int, legal: bool) -> None:
    assert is_legal_name("t" * length) is legal


@pytest.mark.interpreted
@pytest.mark.parametrize(("number", "online"), [(2, False), (99, True), (100, False)])
def test_directories_below_100_are_reserved(number: int, online: bool) -> None:
    """A reserved one says nothing about the disk, except LOST; others have to be registered."""
    directory = number.to_bytes(16, "big")
    state = SimpleNamespace(
        is_active=lambda _: True, broker=lambda _: SimpleNamespace(directories=[b"d" * 16])
    )
    partition = SimpleNamespace(directories=[directory], replicas=(1,))
    assert is_online(cast(State, state), cast(Partition, partition), 1) is online


@pytest.mark.parametrize(
    ("kind", "name", "most"),
    [
        (TOPIC, "max.message.bytes", 2**31 - 1),
        (TOPIC, "flush.messages", 2**63 - 1),
        (BROKER, "background.threads", 2**31 - 1),
    ],
)
def test_numbers_are_bounded_by_their_types(kind: int, name: str, most: int) -> None:
    assert is_legal(kind, name, str(most)) is True
    assert is_legal(kind, name, str(most + 1)) is False


def test_kinds_of_resources_and_leaders_are_those_of_the_protocol() -> None:
    assert (TOPIC, BROKER) == (2, 4)
    assert (NO_LEADER, SAME_LEADER) == (-1, -2)
    assert (PREFERRED, UNCLEAN, RECOVERING) == (0, 1, 1)
    assert SHRINK_KEEPS_EPOCH == 12, "3.6-IV0"


def test_a_digest_of_an_image_has_32_digits() -> None:
    assert len(f"{MODULUS - 1:x}") == DIGITS == 32


@pytest.mark.parametrize(("count", "right"), [(20_000, True), (20_001, False)])
def test_l8_counts_the_requests_of_one_second(
    quorum: Any, capture: Capture, make_run: MakeRun, count: int, right: bool
) -> None:
    quorum.one_epoch()
    request = FetchRequest(None, 2, bytes(16), 500, 1 << 20, 1, 2, 1, 2)
    for number in range(count):
        capture.request(number, 1, request)
    assert found(make_run(None, quorum, capture=capture), "L8") is not right


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waits_s", "valid"), [(29.9, True), (30.1, False)])
def test_an_operation_succeeds_within_30_s(
    history: Any, quorum: Any, make_run: MakeRun, waits_s: float, valid: bool
) -> None:
    quorum.one_epoch()
    history.did(0, "write", 1, kind="fail")
    begun = min(op.time for op in history.ops)
    history.time = begun / 1e9 + waits_s - 1e-3
    history.did(0, "write", 2)
    assert (findings(make_run(history, quorum), recovery.check) == []) is valid


@pytest.fixture
def cluster(quorum: Any, records: Any) -> Any:
    """n1 is active; brokers 1 and 2 are unfenced."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    quorum.epochs = {}
    for broker in (1, 2):
        epoch = quorum.epochs[broker] = quorum._end("n1")
        quorum.write(records.register(broker, epoch))
        quorum.write(records.fence(broker, epoch, -1))
    return quorum


@pytest.mark.parametrize(
    ("waits_s", "every_s", "right"),
    [(5.7, 2, True), (6.3, 2, False), (40, 10, False), (40, 11, True)],
)
def test_l12_allows_two_intervals_and_two_seconds(
    cluster: Any, records: Any, make_run: MakeRun, waits_s: float, every_s: int, right: bool
) -> None:
    cluster.write(records.topic(), records.partition([1, 2], [1, 2], leader=2))
    cluster.time += waits_s
    cluster.write(records.change(isr=[2, 1], leader=1))
    knobs = {"node": {"leader_imbalance_check_interval_seconds": every_s}}
    assert found(make_run(None, cluster, knobs=knobs), "L12") is not right


@pytest.mark.parametrize(("waits_s", "right"), [(2.4, True), (2.7, False)])
def test_l12_is_half_a_second_exact_in_the_simulator(
    cluster: Any, records: Any, make_run: MakeRun, waits_s: float, right: bool
) -> None:
    cluster.write(records.topic(), records.partition([1, 2], [1, 2], leader=2))
    cluster.time += waits_s
    cluster.write(records.change(isr=[2, 1], leader=1))
    settings = {"leader_imbalance_check_interval_seconds": 2}
    knobs = {"node": settings, "fsync_max": 0, "slow_factor": 1}
    assert found(make_run(None, cluster, knobs=knobs, simulated=True), "L12") is not right


@pytest.mark.parametrize(("waits_s", "right"), [(2.84, True), (2.93, False)])
def test_c23_a_late_heartbeat_unfences_for_three_seconds_at_most(
    quorum: Any, records: Any, make_run: MakeRun, waits_s: float, right: bool
) -> None:
    """The clocks of two hosts may differ by 0.1 s, which counts as time that has passed."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    epoch = quorum._end("n1")
    quorum.write(records.register(3, epoch))
    quorum.write(records.fence(3, epoch, -1))
    quorum.write(records.stopping(3, epoch))
    quorum.write(records.fence(3, epoch, 1))
    quorum.write(records.fence(3, epoch, -1))
    quorum.time += waits_s
    quorum.event("n3", "broker", {"state": "stopped", "broker_epoch": epoch})
    assert broken(make_run(None, quorum)) == (set() if right else {"C23"})


def elections(quorum: Any, times: list[float]) -> None:
    """Elect n2 and n1 in turn, ``times`` seconds after 35 s."""
    quorum.one_epoch()
    begin = quorum.time = 40.0
    for number, after in enumerate(times, start=2):
        quorum.time = begin + after
        leader = "n2" if number % 2 == 0 else "n1"
        others = [node for node in ("n1", "n2", "n3") if node != leader]
        quorum.elect(leader, number, ["n3"])
        for node in others:
            own = int(leader[1])
            quorum.event(node, "state", {}, state="follower", epoch=number, leader=own, voted=-1)
        quorum.copy(leader, *others)
        quorum.commit("n1", "n2", "n3")
    quorum.time += 12
    quorum.event("n1", "hw")


@pytest.mark.parametrize(
    ("times", "right"),
    [([0, 1, 2], True), ([0, 1, 2, 3], False), ([0, 3, 6, 9], False), ([0, 4, 8, 12], True)],
)
def test_l7_allows_three_elections_within_ten_seconds(
    quorum: Any, make_run: MakeRun, times: list[float], right: bool
) -> None:
    elections(quorum, times)
    assert found(make_run(None, quorum, images=[]), "L7") is not right


def beat(cluster: Any, capture: Capture, broker: int, at_s: float) -> None:
    """The active controller accepts a heartbeat of ``broker`` with its first epoch."""
    body = {"broker_id": broker, "broker_epoch": cluster.epochs[broker]}
    now = int(at_s * SECOND)
    request = {**body, "current_metadata_offset": 0}
    capture.api(now, broker, 1, "BrokerHeartbeat", request, {"error_code": 0}, now)


@pytest.mark.parametrize(
    ("silent_s", "simulated", "right"),
    [(14.0, False, True), (14.5, False, False), (13.0, True, True), (13.5, True, False)],
)
def test_c16_allows_a_session_and_a_quarter_and_three_seconds(
    cluster: Any, records: Any, capture: Capture, make_run: MakeRun,
    silent_s: float, simulated: bool, right: bool,
) -> None:  # fmt: skip
    """Two seconds in the simulator. The session is 9 s."""
    begin = cluster.time
    for second in range(15):
        beat(cluster, capture, 1, begin + second)
    beat(cluster, capture, 2, begin)
    cluster.time = begin + silent_s
    cluster.write(records.record("NoOpRecord"))
    run = make_run(None, cluster, capture=capture, simulated=simulated)
    assert found(run, "C16") is not right


@pytest.mark.parametrize(("since_s", "right"), [(1.4, False), (1.6, True)])
def test_l10_judges_half_the_timeout(
    quorum: Any, capture: Capture, make_run: MakeRun, since_s: float, right: bool
) -> None:
    """A majority fetched; the timeout is 3 s."""
    quorum.one_epoch()
    now = int(quorum.time * SECOND)
    request = FetchRequest(None, 2, bytes(16), 500, 1 << 20, 1, 2, 1, 2)
    answer = FetchResponse(0, 0, 1, 1, 2, 0, -1, -1, -1, -1, b"")
    capture.exchange(now, 2, 1, request, answer, now)
    quorum.time += since_s
    quorum.event("n1", "state", {"from": "leader"}, state="resigned")
    quorum.event("n1", "resign", {"reason": "check-quorum"})
    assert found(make_run(None, quorum, capture=capture), "L10") is not right


@pytest.mark.parametrize(("kept_s", "right"), [(5.3, True), (5.7, False)])
def test_l11_allows_an_interval_a_fetch_and_three_seconds(
    quorum: Any, make_run: MakeRun, kept_s: float, right: bool
) -> None:
    quorum.one_epoch()
    for end in (1, 2):
        quorum.event("n1", "snapshot", {"end": end, "epoch": 1, "by": "created"})
    quorum.time += kept_s
    quorum.append("n1", 1)
    settings = {"retention_bytes": 1, "clean_interval_ms": 500, "fetch_timeout_ms": 2000}
    assert found(make_run(None, quorum, knobs={"node": settings}), "L11") is not right


SLOW = {"latency_max": 5000, "fsync_max": 500, "slow_factor": 1, "node": {}}


def commit_slowly(quorum: Any, commits: int) -> None:
    """Commit one record at a time; the followers learn of each too late."""
    for _ in range(commits):
        quorum.append("n1", 1)
        quorum.copy("n1", "n2", "n3")
        quorum.commit("n1")
        quorum.time += 0.4
        quorum.commit("n2", "n3")
        quorum.time += 0.5


@pytest.mark.parametrize(("commits", "judged"), [(7, False), (8, True)])
def test_l9_judges_followers_by_eight_commits(
    quorum: Any, make_run: MakeRun, commits: int, judged: bool
) -> None:
    """Each follower learns of all of them too late."""
    quorum.one_epoch()
    quorum.time += 5
    commit_slowly(quorum, commits)
    assert found(make_run(None, quorum, simulated=True, knobs=SLOW), "L9") is judged


@pytest.mark.parametrize(("calm_s", "judged"), [(1.8, False), (2.2, True)])
def test_l9_judges_commits_after_two_calm_seconds(
    quorum: Any, make_run: MakeRun, calm_s: float, judged: bool
) -> None:
    """Only the first of eight commits is near the election."""
    quorum.one_epoch()
    quorum.time += calm_s
    commit_slowly(quorum, 8)
    assert found(make_run(None, quorum, simulated=True, knobs=SLOW), "L9") is judged


@pytest.mark.parametrize(("fetches", "judged"), [(2, False), (3, True)])
def test_l9_judges_fetches_that_go_elsewhere_by_three(
    quorum: Any, capture: Capture, make_run: MakeRun, fetches: int, judged: bool
) -> None:
    quorum.one_epoch()
    quorum.time = 10.0
    quorum.event("n1", "hw")
    request = FetchRequest(None, 2, bytes(16), 500, 1 << 20, 1, 1, 0, 0)
    snapshot = FetchResponse(0, 0, 1, 1, 2, 0, -1, -1, 2, 1, b"")
    for number in range(fetches):
        sent = int((quorum.time + number / 10) * SECOND)
        capture.exchange(sent + SECOND // 2, 2, 1, request, snapshot, sent)
    run = make_run(None, quorum, simulated=True, knobs=SLOW, capture=capture)
    assert found(run, "L9") is judged


@pytest.mark.parametrize("wait_us", [22_000, 24_000])
def test_l9_knows_how_slow_links_and_disks_are(
    quorum: Any, capture: Capture, make_run: MakeRun, wait_us: int
) -> None:
    """Three links of 1 ms, no disks, and 20 ms for the nodes."""
    quorum.one_epoch()
    quorum.time = 10.0
    quorum.event("n1", "hw")
    request = FetchRequest(None, 2, bytes(16), 500, 1 << 20, 1, 1, 0, 0)
    snapshot = FetchResponse(0, 0, 1, 1, 2, 0, -1, -1, 2, 1, b"")
    for number in range(3):
        sent = int((quorum.time + number / 10) * SECOND)
        capture.exchange(sent + wait_us * 1000, 2, 1, request, snapshot, sent)
    knobs = {"latency_max": 1000, "fsync_max": 0, "slow_factor": 1, "node": {}}
    run = make_run(None, quorum, simulated=True, knobs=knobs, capture=capture)
    assert found(run, "L9") is (wait_us == 24_000)


@pytest.mark.interpreted
def test_the_time_of_a_request_under_way_is_tried_every_half_second() -> None:
    message = Message(1_200_000_000, 2, 1, "BrokerHeartbeat", {}, {}, sent=0)
    assert [*_heard([message], 1)] == [0, 500_000_000, 1_000_000_000, 1_200_000_000]


@pytest.mark.interpreted
@pytest.mark.parametrize(("later_ns", "expired"), [(900_000, False), (1_100_000, True)])
def test_i18_by_steps_allows_a_millisecond_of_rounding(later_ns: int, expired: bool) -> None:
    timeout = 3 * SECOND
    evidence = SimpleNamespace(
        steps={1: [timeout + later_ns]},
        run=SimpleNamespace(test={}),
        after=lambda node, since, duration: since + duration,
    )
    assert _expiry_by_steps(cast(Evidence, evidence), "n1", 1)(0, 9 * SECOND) is expired


@pytest.mark.interpreted
@pytest.mark.parametrize(("later_ns", "counts"), [(900_000, True), (1_100_000, False)])
def test_a_trace_event_of_the_same_step_is_a_millisecond_late_at_most(
    later_ns: int, counts: bool
) -> None:
    message = SimpleNamespace(sent=SECOND, time=2 * SECOND)
    times: Timeline[int] = Timeline()
    for time in (SECOND, 2 * SECOND + later_ns):
        times.note(time, time)
    assert len(times.during(*span(cast(Message, message)))) == 1 + counts


@pytest.mark.interpreted
@pytest.mark.parametrize(("records", "judged"), [(8_999, True), (9_000, False)])
def test_c3_leaves_out_batches_that_may_continue(records: int, judged: bool) -> None:
    held: list[str] = []
    report = SimpleNamespace(held=held.append)
    rules = BrokerRules(cast(Report, report))
    rules._left.add(1)
    model = SimpleNamespace(partitions={}, elr_enabled=lambda: False)
    rules.batch_end(cast(StoredBatch, None), records, cast(MetadataModel, model))
    assert ("C3" in held) is judged
