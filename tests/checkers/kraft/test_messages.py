"""Invariants judged by captured messages, and how messages come to be captured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.recorded.capture import Capture, read_messages
from kraftwreck.checkers.recorded.clocks import NodeClock
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.tables import HistoryError
from kraftwreck.nodes.consensus.effects import ApiRequest, RequestReceived, ResponseReceived, Tick
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.consensus.kraft.voters import LISTENER
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.replication.events import SegmentClosed
from kraftwreck.nodes.server.plain import to_plain
from tests.checkers.breaks import broken

MS = 1_000_000


def status(run: RunData, invariant: str) -> str:
    return str(check(run).stats["invariants"][invariant]["status"])


def fetch(replica: int, epoch: int, offset: int, last: int) -> FetchRequest:
    return FetchRequest(None, replica, NO_DIRECTORY, 500, 1 << 20, epoch, offset, last, -1)


def answer(leader: int, epoch: int, hw: int, **more: Any) -> FetchResponse:
    fields: dict[str, Any] = {
        "diverging_epoch": -1,
        "diverging_end": -1,
        "snapshot_end": -1,
        "snapshot_epoch": -1,
        "records": b"",
        **more,
    }
    return FetchResponse(0, 0, leader, epoch, hw, 0, **fields)


def vote(candidate: int, epoch: int, *, pre: bool = False) -> VoteRequest:
    return VoteRequest(None, 2, epoch, candidate, NO_DIRECTORY, NO_DIRECTORY, 0, 0, pre)


def granted(epoch: int) -> VoteResponse:
    return VoteResponse(0, 0, -1, epoch, True)


def test_messages_that_agree_with_the_traces_are_valid(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture.exchange(1, 1, 2, vote(1, 1), granted(1))
    records = b"".join(quorum.logs["n1"])
    capture.exchange(2, 2, 1, fetch(2, 1, 0, 0), answer(1, 1, -1, records=records))
    capture.exchange(3, 2, 1, fetch(2, 1, 2, 1), answer(1, 1, 2))
    result = check(make_run(None, quorum, capture=capture))
    assert (result.valid, result.anomalies) == (True, [])
    assert result.stats["messages"] == 3
    assert result.stats["invariants"]["I28"] == {
        "name": "FetchValidity",
        "status": "checked",
        "facts": 2,
    }


def test_without_messages_rules_about_them_are_not_checked(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    listed = check(make_run(None, quorum)).stats["invariants"]
    for invariant in ("I17", "I18", "I24", "I28", "L8", "C8", "C16"):
        assert listed[invariant]["status"] == "not checked", invariant
        assert listed[invariant]["why"] == "messages were not captured", invariant


def test_i1_a_leader_known_from_messages_only(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    begin = BeginQuorumEpochRequest(None, 2, NO_DIRECTORY, 3, 1)
    capture.exchange(1, 3, 2, begin, BeginQuorumEpochResponse(0, 0, 3, 1))
    assert broken(make_run(None, quorum, capture=capture)) == {"I1"}


def test_i2_two_candidates_get_one_vote(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture.exchange(1, 1, 2, vote(1, 1), granted(1))
    capture.exchange(2, 3, 2, vote(3, 1), granted(1))
    assert broken(make_run(None, quorum, capture=capture)) == {"I2"}


def test_i12_a_high_watermark_exposed_too_early(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture.exchange(1, 2, 1, fetch(2, 1, 0, 0), answer(1, 1, 0))
    assert broken(make_run(None, quorum, capture=capture)) == {"I12"}


def test_i16_pre_votes_are_requested_for_an_unknown_epoch(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture.request(1, 2, vote(3, 9, pre=True))
    assert broken(make_run(None, quorum, capture=capture)) == {"I16"}


@pytest.mark.parametrize(
    ("fetched", "silent", "replier", "expected"),
    [
        (1, 0, 1, False),
        (2, 0, 1, True),
        (2, 1.9, 1, True),
        (2, 2.1, 1, False),
        (2, 0, -2, False),  # The leader, but asked as a bootstrap server.
    ],
)
@pytest.mark.parametrize("since", [2.4, 2.6])
def test_i17_a_follower_that_has_recently_fetched_grants_a_pre_vote(
    quorum: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    fetched: int,
    silent: float,
    replier: int,
    expected: bool,
    since: float,
) -> None:
    """Seed 495466: until a request time-out is over they may be answers to older requests."""
    quorum.one_epoch()
    followed = next(
        e for e in quorum.events if e.node == "n2" and e.kind == "state" and e.state == "follower"
    )
    for number in range(fetched):
        at = followed.mono * 1000 + int(since * 1000) * MS + number + 1
        capture.answer(at, 2, replier, answer(1, 1, 2))
    detail = {
        "epoch": 1,
        "candidate": 3,
        "pre": True,
        "candidate_last_epoch": 1,
        "candidate_last_offset": 2,
        "last_epoch": 1,
        "last_offset": 2,
    }
    quorum.time = followed.mono / MS + since + silent
    quorum.event("n2", "grant", detail)
    found = {"I17"} if expected and since > 2.5 else set()
    assert broken(make_run(None, quorum, capture=capture)) == found


@pytest.mark.parametrize(
    ("resumed", "counts"), [(None, True), (0.0, False), (0.39, False), (0.41, True)]
)
def test_i17_the_backlog_of_a_paused_follower_does_not_count(
    quorum: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    make_fault: Any,
    resumed: float | None,
    counts: bool,
) -> None:
    """Seed 452532: the request had been given up by then, and so was the leader."""
    quorum.one_epoch()
    begin = quorum.time
    quorum.time += 3
    for number in range(2):
        at = int(quorum.time * 1000) * MS + number + 1
        capture.answer(at, 2, 1, answer(1, 1, 2))
    detail = {
        "epoch": 1, "candidate": 3, "pre": True, "candidate_last_epoch": 1,
        "candidate_last_offset": 2, "last_epoch": 1, "last_offset": 2,
    }  # fmt: skip
    faults = [] if resumed is None else make_fault(1, "pause", begin, quorum.time - resumed, "n2")
    quorum.time += 0.03
    quorum.event("n2", "grant", detail)
    run = make_run(None, quorum, capture=capture, faults=faults)
    assert ("I17" in broken(run)) is counts


@pytest.mark.parametrize(("last_seen_s", "right"), [(5.5, True), (5.7, False)])
def test_i18_in_which_portions_a_leader_counts_is_its_own_affair(
    quorum: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    last_seen_s: float,
    right: bool,
) -> None:
    """As the simulator's rule of the same name."""
    quorum.one_epoch()
    elected = next(event for event in quorum.events if event.kind == "elected")
    elected.detail["voters"] = [1, 2, 3, 4]
    begin = elected.mono * 1000
    capture.own_inputs = True
    for at_s, follower in ((0.0, 4), (0.05, 2), (2.6, 3)):  # The second may have diverged.
        capture.request(begin + int(at_s * 1000) * MS, 1, fetch(follower, 1, 2, 1))
    for step_s in (last_seen_s - 0.05, last_seen_s):
        quorum.time = begin / 1e9 + step_s
        quorum.event("n1", "hw")
    assert broken(make_run(None, quorum, capture=capture)) == (set() if right else {"I18"})


@pytest.mark.parametrize(
    ("fetches_s", "steps_s", "right"),
    [
        ((), (2.9, 3.2), True),  # The first step after the deadline may have been the last.
        ((), (2.9, 3.2, 3.3), False),
        ((2.9,), (3.2, 3.3), True),
        ((2.9,), (5.8, 6.0, 6.1), False),
        ((6.0,), (6.1, 8.9), True),  # Nothing ran in between: a stall of the machine.
        ((3.2,), (3.1, 3.3), False),  # A step after the deadline came before the fetch.
    ],
)
def test_i18_by_the_steps_of_the_leader_needs_no_tolerance(
    quorum: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    fetches_s: tuple[float, ...],
    steps_s: tuple[float, ...],
    right: bool,
) -> None:
    quorum.one_epoch()
    elected = next(event for event in quorum.events if event.kind == "elected")
    begin = elected.mono * 1000
    capture.own_inputs = True
    for at_s in fetches_s:
        capture.request(begin + int(at_s * 1000) * MS, 1, fetch(2, 1, 2, 1))
    for at_s in steps_s[:-1]:
        at = begin + int(at_s * 1000) * MS
        capture.api(at, -1, 1, "Metadata", {"topics": []}, None)
    quorum.time = begin / 1e9 + max(steps_s)
    quorum.event("n1", "hw")
    assert broken(make_run(None, quorum, capture=capture)) == (set() if right else {"I18"})


@pytest.mark.parametrize(
    ("voters", "at_s", "right"),
    [
        ((1, 2), 1.0, True),  # Who must fetch from then on is not judged.
        ((1, 2, 3), 1.0, False),
        ((1, 2), 3.3, False),  # It was over before.
    ],
)
def test_i18_by_steps_is_judged_until_other_voters_count(
    quorum: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    voters: tuple[int, ...],
    at_s: float,
    right: bool,
) -> None:
    quorum.one_epoch()
    elected = next(event for event in quorum.events if event.kind == "elected")
    begin = elected.mono * 1000
    capture.own_inputs = True
    capture.api(begin + 3200 * MS, -1, 1, "Metadata", {"topics": []}, None)
    none = bytes(16).hex()
    quorum.event("n1", "voters", {"offset": -1, "kraft_version": 0,
                                  "voters": [[v, none] for v in (1, 2, 3)]})  # fmt: skip
    quorum.time = begin / 1e9 + at_s
    quorum.event("n1", "voters", {"offset": 1, "kraft_version": 1,
                                  "voters": [[v, none] for v in voters]})  # fmt: skip
    quorum.time = begin / 1e9 + 3.4
    quorum.event("n1", "hw")
    found = check(make_run(None, quorum, capture=capture, simulated=False))
    assert ("I18" in {anomaly.type for anomaly in found.anomalies}) != right
    assert found.suspicions == []


def test_i18_fetches_before_the_election_do_not_count(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """Seed 459835: asked as a candidate of the epoch, and elected only when it had restarted."""
    quorum.time = 10.0
    capture.own_inputs = True
    capture.request(1000 * MS, 1, fetch(2, 1, 0, 0))
    quorum.one_epoch()
    begin = int(quorum.time * 1000) * MS
    for second in range(20):
        capture.request(begin + second * 1000 * MS, 1, fetch(2, 1, 2, 1))
    quorum.time += 20
    quorum.event("n1", "hw")
    assert "I18" not in broken(make_run(None, quorum, capture=capture))


@pytest.mark.parametrize("fetching", ["one", "both"])
def test_i18_one_of_four_is_no_majority(
    quorum: Any, capture: Capture, make_run: Callable[..., Any], fetching: str
) -> None:
    quorum.one_epoch()
    elected = next(event for event in quorum.events if event.kind == "elected")
    elected.detail["voters"] = [1, 2, 3, 4]
    begin = elected.mono * 1000
    capture.own_inputs = True
    for second in range(20):
        for follower in (3,) if fetching == "one" and second else (3, 4):
            at = begin + (second * 1000 + follower) * MS
            capture.request(at, 1, fetch(follower, 1, 2, 1))
    quorum.time = begin / 1e9 + 20
    quorum.event("n1", "hw")
    expected = {"I18"} if fetching == "one" else set()
    assert broken(make_run(None, quorum, capture=capture)) == expected


def test_i22_a_leader_fetches_a_snapshot(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture.request(1, 2, FetchSnapshotRequest(None, 1, NO_DIRECTORY, 100, 1, 2, 1, 0))
    assert broken(make_run(None, quorum, capture=capture)) == {"I22"}


def beat(capture: Capture, time: int, offset: int, epoch: int = 5) -> None:
    body = {"broker_id": 4, "broker_epoch": epoch, "current_metadata_offset": offset}
    capture.api(time, 4, 1, "BrokerHeartbeat", body, {"error_code": 77}, sent=time)


@pytest.mark.parametrize("own", [True, False])
def test_i24_a_reported_metadata_offset_is_committed(
    quorum: Any, capture: Capture, make_run: Callable[..., Any], own: bool
) -> None:
    quorum.one_epoch()
    capture.own_inputs = own
    beat(capture, 0, 1)
    # Nobody ever registered that broker, and its heartbeats are accepted: C18 as well.
    assert broken(make_run(None, quorum, capture=capture)) <= {"C18"}
    beat(capture, 1, 7)
    assert broken(make_run(None, quorum, capture=capture)) - {"C18"} == {"I24"}


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (fetch(2, 1, 2, 1), answer(3, 1, 2)),
        (fetch(2, 0, 2, 0), answer(1, 1, 2)),
        (fetch(2, 1, 2, 1), answer(1, 1, 2, diverging_epoch=2, diverging_end=1)),
        (fetch(2, 1, 2, 1), answer(1, 1, 2, diverging_epoch=1, diverging_end=2)),
    ],
    ids=["not the leader", "another epoch", "a later epoch diverges", "nothing diverges"],
)
def test_i28_answers_that_no_log_calls_for(
    quorum: Any,
    capture: Capture,
    make_run: Callable[..., Any],
    asked: FetchRequest,
    answered: FetchResponse,
) -> None:
    quorum.one_epoch()
    capture.exchange(1, 2, 1, asked, answered)
    assert broken(make_run(None, quorum, capture=capture)) - {"I1"} == {"I28"}


def test_i28_records_from_another_place(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    sent = answer(1, 1, 2, records=quorum.logs["n1"][0])
    capture.exchange(1, 2, 1, fetch(2, 1, 1, 1), sent)
    assert broken(make_run(None, quorum, capture=capture)) == {"I28"}


def test_i28_records_although_the_logs_differ_before_them(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """The follower's record at offset 1 is of epoch 1, the leader's of epoch 2."""
    quorum.elect("n1", 1)
    quorum.copy("n1", "n2", "n3")
    quorum.elect("n2", 2, ["n3"])
    quorum.append("n2", 2)
    quorum.copy("n2", "n3")
    sent = answer(2, 2, 3, records=quorum.logs["n2"][2])
    capture.exchange(1, 1, 2, fetch(1, 2, 2, 1), sent)
    assert broken(make_run(None, quorum, capture=capture)) == {"I28"}


def test_i28_a_divergence_although_the_leader_has_the_record(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.elect("n1", 1)
    quorum.copy("n1", "n2", "n3")
    quorum.elect("n2", 2, ["n3"])
    quorum.copy("n2", "n3")
    told = answer(2, 2, -1, diverging_epoch=0, diverging_end=0)
    capture.exchange(1, 1, 2, fetch(1, 2, 1, 1), told)
    assert broken(make_run(None, quorum, capture=capture)) == {"I28"}


def test_l8_a_busy_loop(quorum: Any, capture: Capture, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    request = fetch(2, 1, 2, 1)
    for number in range(20_001):
        capture.request(number, 1, request)
    assert broken(make_run(None, quorum, capture=capture)) == {"L8"}


# --- capturing ------------------------------------------------------------------------------


def test_captured_messages_are_bounded_and_without_record_bytes() -> None:
    capture = Capture(limit=2)
    batch = encode_batch(7, 3, 0, [(None, b"x" * 10_000), (None, b"y")], control=False)
    for _ in range(3):
        capture.exchange(1, 2, 1, fetch(2, 3, 7, 3), answer(1, 3, 5, records=batch + batch[:9]))
    assert (len(capture.messages), capture.dropped) == (2, 1)
    kept = capture.messages[0]
    assert (kept.api, kept.records, kept.response.records) == ("Fetch", (7, 3, 9), b"")


def test_messages_that_were_not_kept_make_the_verdict_unknown(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture = Capture(limit=0)
    capture.request(1, 1, fetch(2, 1, 2, 1))
    result = check(make_run(None, quorum, capture=capture))
    assert (result.valid, result.error) == ("unknown", "1 captured messages were dropped")


def write_log(path: Path, *lines: Any) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"now": 9, "ev')


def test_messages_are_read_from_input_logs(tmp_path: Path) -> None:
    events = [
        (2_000, Tick()),
        (2_500, RequestReceived(1, fetch(2, 1, 0, 0))),
        (3_000, ResponseReceived(3, 9, granted(1))),
        (3_500, ResponseReceived(3, 9, None)),
        (4_000, ApiRequest(2, "BrokerHeartbeat", 1, {"broker_id": 4, "broker_epoch": 5})),
    ]
    lines = [{"now": now, "wall_ms": 0, "event": to_plain(event)} for now, event in events]
    write_log(tmp_path / "nodes" / "n1" / "inputs.log", {"start": 1, "now": 1_000}, *lines)
    capture = read_messages(
        tmp_path, {"n1": 1, "n2": 2}, {"n1": NodeClock([(0, 1_000)]), "n2": NodeClock([(0, 0)])}
    )
    assert capture is not None
    told = [(m.time, m.api, m.asker, m.replier) for m in capture.messages]
    assert told == [
        (1_500_000, "Fetch", 2, 1),
        (2_000_000, "Vote", 1, 3),
        (3_000_000, "BrokerHeartbeat", 4, 1),
    ]
    assert read_messages(tmp_path, {"n2": 2}, {"n2": NodeClock([(0, 0)])}) is None


def test_answers_of_an_input_log_belong_to_their_requests(tmp_path: Path) -> None:
    """The last answer was recorded before its effects, of which the process did none."""
    ask = to_plain(ApiRequest(7, "ElectLeaders", 2, {}))
    again = to_plain(ApiRequest(8, "ElectLeaders", 2, {}))
    told, tick = {"error_code": 0}, to_plain(Tick())
    segment = to_plain(SegmentClosed((bytes(16), 0), 0, 9, 5, 6))
    write_log(
        tmp_path / "nodes" / "n1" / "inputs.log",
        {"start": 1, "now": 1},
        {"now": 2, "event": ask},
        {"now": 5, "event": tick, "answers": [[7, told]]},
        {"now": 6, "event": tick},
        {"now": 7, "event": again},
        {"now": 8, "event": tick, "answers": [[8, told]]},
        {"now": 9, "event": segment},
        {"start": 2, "now": 20},
        {"now": 21, "event": tick},
    )
    capture = read_messages(tmp_path, {"n1": 1}, {"n1": NodeClock([(0, 0)])})
    assert capture is not None
    assert [(m.sent, m.time, m.response) for m in capture.messages] == [
        (2_000, 5_000, told),
        (-1, 7_000, None),
    ]


@pytest.mark.parametrize(
    ("version", "listener", "told"),
    [(7, "PLAINTEXT", {"topics": []}), (6, "PLAINTEXT", None), (6, LISTENER, {"topics": []})],
)
def test_a_relayed_answer_of_an_old_version_is_not_evidence(
    tmp_path: Path, version: int, listener: str, told: Any
) -> None:
    """A broker that relays it has defaults for what its version lacks, such as the topic's id."""
    ask = to_plain(ApiRequest(7, "CreateTopics", version, {"topics": []}, listener))
    write_log(
        tmp_path / "nodes" / "n1" / "inputs.log",
        {"start": 1, "now": 1},
        {"now": 2, "event": ask, "answers": [[7, {"topics": []}]]},
        {"now": 3, "event": to_plain(Tick())},
    )
    capture = read_messages(tmp_path, {"n1": 1}, {"n1": NodeClock([(0, 0)])})
    assert capture is not None
    assert [m.response for m in capture.messages] == [told]
    assert [m.as_gateway for m in capture.messages] == [listener != LISTENER]


def test_an_input_log_holds_the_batches_that_the_node_fetched(tmp_path: Path) -> None:
    batches = [encode_batch(base, 1, 0, [(None, b"v")], control=False) for base in (0, 1)]
    records = b"".join(batches) + batches[0][:40]
    event = ResponseReceived(3, 4, answer(3, 1, 2, records=records))
    line = {"now": 2, "event": to_plain(event)}
    write_log(tmp_path / "nodes" / "n1" / "inputs.log", {"start": 1, "now": 1}, line)
    capture = read_messages(tmp_path, {"n1": 1}, {"n1": NodeClock([(0, 0)])})
    assert capture is not None
    assert list(capture.batches) == batches


def test_an_input_log_that_means_nothing_is_one_clear_line(tmp_path: Path) -> None:
    write_log(tmp_path / "nodes" / "n1" / "inputs.log", {"now": 1, "event": {"$": "Miracle"}})
    with pytest.raises(HistoryError, match=r"inputs\.log:1: unknown kind of event 'Miracle'"):
        read_messages(tmp_path, {"n1": 1}, {"n1": NodeClock([(0, 0)])})


def test_a_long_run_keeps_equal_topics_of_answers_once() -> None:
    capture = Capture()
    for number in range(20_003):
        topics = [{"name": "a", "partitions": [{"leader_id": number // 20_002}]}, {"name": "b"}]
        capture.api(number, 1, 2, "Metadata", {}, {"error_code": 0, "topics": topics})
        assert capture.messages[-1].response == {"error_code": 0, "topics": topics}
    before, after, last = (message.response["topics"] for message in capture.messages[-3:])
    assert after[0] is before[0]
    assert last[1] is before[1]
    assert last[0] is not before[0]


def test_an_answer_of_unknown_shape_is_kept_as_it_is() -> None:
    capture = Capture(limit=30_000)
    odd: list[dict[str, Any]] = [{"topics": None}, {"topics": [object()]}, {"error_code": 1}]
    many: list[dict[str, Any]] = [{}] * 20_000
    for response in many + odd:
        capture.api(0, 1, 2, "Metadata", {}, response)
        assert capture.messages[-1].response is response


# --- the bounds of a capture ------------------------------------------------------------------


def test_half_a_million_messages_are_kept() -> None:
    capture = Capture()
    capture.request(0, 1, fetch(2, 1, 0, 0))
    capture.messages *= 499_999
    for _ in range(2):
        capture.request(0, 1, fetch(2, 1, 0, 0))
    assert (len(capture.messages), capture.dropped) == (500_000, 1)


@pytest.mark.parametrize(("known", "shared"), [(19_999, False), (20_000, True)])
def test_topics_are_shared_from_20000_messages_on(known: int, shared: bool) -> None:
    capture = Capture()
    capture.request(0, 1, fetch(2, 1, 0, 0))
    capture.messages *= known
    for _ in range(2):
        capture.api(0, 1, 2, "Metadata", {}, {"topics": [{"name": "a"}]})
    one, other = (message.response["topics"][0] for message in capture.messages[-2:])
    assert (one is other) is shared
    assert one == other


@pytest.mark.parametrize(("later", "shared"), [(63, True), (64, False)])
def test_64_answers_on_the_way_share_what_is_left_of_them(later: int, shared: bool) -> None:
    """An answer is captured where it is sent, and where it arrives."""
    capture = Capture()
    records = encode_batch(0, 1, 0, [(None, b"a")], control=False)
    answers = [FetchResponse(0, 0, 1, 1, 1, 0, -1, -1, -1, -1, records) for _ in range(65)]
    for answer in answers[: later + 1]:
        capture.exchange(0, 2, 1, fetch(2, 1, 0, 0), answer, 0)
    capture.answer(0, 2, 1, answers[0])
    first, again = capture.messages[0], capture.messages[-1]
    assert (again.response is first.response) is shared
    assert again.response == first.response
