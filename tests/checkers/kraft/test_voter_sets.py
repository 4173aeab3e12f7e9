"""Voter sets: I31, I32, C17; and how soon followers learn of commits: L9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY, FetchRequest, FetchResponse
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.records import KRAFT_VERSION, KRAFT_VOTERS, encode_control
from tests.checkers.breaks import broken

SECOND = 1_000_000_000


def directory(voter: int) -> bytes:
    return bytes([voter]) * 16


def record(voters: Sequence[int]) -> tuple[bytes, bytes]:
    fields = {
        "version": 0,
        "voters": [
            {
                "voter_id": voter,
                "voter_directory_id": directory(voter),
                "endpoints": [],
                "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
            }
            for voter in voters
        ],
    }
    return encode_control(KRAFT_VOTERS, fields)


def told(quorum: Any, node: str, voters: Sequence[int], offset: int, level: int = 1) -> None:
    detail = {
        "voters": [[voter, directory(voter).hex()] for voter in voters],
        "offset": offset,
        "kraft_version": level,
    }
    quorum.event(node, "voters", detail)


def change(quorum: Any, voters: Sequence[int], says: Sequence[int] | None = None) -> int:
    """n1 appends a record of the voters, and reports the voters it then uses."""
    base: int = quorum._end("n1")
    quorum.store("n1", encode_batch(base, 1, 0, [record(voters)], True), "leader")
    if says is not None:
        told(quorum, "n1", says, base)
    return base


def upgraded(quorum: Any) -> tuple[int, bytes]:
    """n1 appends the upgrade to kraft.version 1; return its base offset and its bytes."""
    base: int = quorum._end("n1")
    version = encode_control(KRAFT_VERSION, {"version": 0, "kraft_version": 1})
    batch = encode_batch(base, 1, 0, [version, record([1, 2, 3])], True)
    quorum.store("n1", batch, "leader")
    return base, batch


def test_i31_a_node_uses_the_voters_it_has_appended(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2, 3], 0)
    change(quorum, [1, 2], says=[1, 2])
    assert "I31" not in broken(make_run(None, quorum))
    change(quorum, [1, 2, 3], says=[1, 2])
    assert "I31" in broken(make_run(None, quorum))


def test_i31_a_node_reports_the_voters_it_has_appended(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2, 3], 0)
    change(quorum, [1, 2])
    quorum.append("n1", 1)
    assert "I31" in broken(make_run(None, quorum))


def test_i31_truncation_takes_the_voters_back(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2, 3], 0)
    base = change(quorum, [1, 2], says=[1, 2])
    capture.batches[quorum.logs["n1"].pop()] = None
    quorum.event("n1", "truncate", {"from": base + 1, "to": base}, leo=base)
    told(quorum, "n1", [1, 2, 3], 0)
    assert "I31" not in broken(make_run(None, quorum, capture=capture))
    quorum.events.pop()
    quorum.at["n1"]["seq"] -= 1
    quorum.event("n1", "hw", {})
    assert "I31" in broken(make_run(None, quorum, capture=capture))


@pytest.mark.parametrize("keeps", [True, False])
def test_i31_kraft_version_is_cut_with_the_log(
    quorum: Any, capture: Capture, make_run: Callable[..., Any], keeps: bool
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2, 3], -1, level=0)
    base, _ = upgraded(quorum)
    told(quorum, "n1", [1, 2, 3], base + 1)
    assert "I31" not in broken(make_run(None, quorum))
    capture.batches[quorum.logs["n1"].pop()] = None
    quorum.event("n1", "truncate", {"from": base + 2, "to": base}, leo=base)
    told(quorum, "n1", [1, 2, 3], -1, level=int(keeps))
    assert ("I31" in broken(make_run(None, quorum, capture=capture))) is keeps


def test_i31_writes_that_a_dead_process_did_not_report_do_not_count(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n2", [1, 2, 3], -1, level=0)
    base, upgrade = upgraded(quorum)
    quorum.logs["n2"].append(upgrade)  # and is killed
    quorum.start("n2")
    told(quorum, "n2", [1, 2, 3], base + 1)
    quorum.event("n2", "truncate", {"from": base + 2, "to": base}, leo=base)
    quorum.logs["n2"].pop()
    told(quorum, "n2", [1, 2, 3], -1, level=0)
    assert "I31" not in broken(make_run(None, quorum, capture=capture))


@pytest.mark.parametrize("level", [0, 1])
def test_i27_with_kraft_version_1_every_disk_is_known(
    quorum: Any, make_run: Callable[..., Any], level: int
) -> None:
    quorum.one_epoch()
    change(quorum, [1, 2, 3], says=[1, 2, 3])
    voters = [[1, directory(1).hex()], [2, "0" * 32]]
    detail = {"voters": voters, "offset": -1, "kraft_version": level}
    quorum.event("n2", "voters", detail)
    assert ("I27" in broken(make_run(None, quorum))) is (level == 1)


def fetched(capture: Capture, quorum: Any, voter: int) -> None:
    request = FetchRequest("c", voter, directory(voter), 500, 1 << 20, 1, 0, 0, -1)
    answer = FetchResponse(0, 0, 1, 1, 1, 0, -1, -1, -1, -1, b"")
    capture.exchange(int(quorum.time * SECOND), voter, 1, request, answer)


def test_i32_a_stranger_becomes_a_voter(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2], 0)
    fetched(capture, quorum, 3)
    change(quorum, [1, 2, 3], says=[1, 2, 3])
    assert "I32" not in broken(make_run(None, quorum, capture=capture))
    assert "I32" in broken(make_run(None, quorum, capture=Capture()))


def test_i32_a_fetch_that_waits_at_the_leader_counts_before_it_is_answered(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2], 0)
    asked = int(quorum.time * SECOND)
    change(quorum, [1, 2, 3], says=[1, 2, 3])
    request = FetchRequest("c", 3, directory(3), 500, 1 << 20, 1, 0, 0, -1)
    answer = FetchResponse(0, 0, 1, 1, 1, 0, -1, -1, -1, -1, b"")
    capture.exchange(int((quorum.time + 0.2) * SECOND), 3, 1, request, answer, asked)
    assert "I32" not in broken(make_run(None, quorum, capture=capture))


def test_i32_of_real_nodes_it_is_known_only_that_they_were_asked(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2], 0)
    request = FetchRequest("c", 3, directory(3), 500, 1 << 20, 1, 0, 0, -1)
    capture.request(int(quorum.time * SECOND), 1, request)
    change(quorum, [1, 2, 3], says=[1, 2, 3])
    assert "I32" not in broken(make_run(None, quorum, capture=capture))


def test_c17_a_voter_change_acknowledged_too_early(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2], 0)
    change(quorum, [1, 2, 3], says=[1, 2, 3])
    body = {"voter_id": 3, "voter_directory_id": directory(3), "ack_when_committed": True}
    capture.api(int(quorum.time * SECOND), -1, 1, "AddRaftVoter", body, {"error_code": 0}, 0)
    assert "C17" in broken(make_run(None, quorum, capture=capture))
    quorum.copy("n1", "n2", "n3")
    quorum.commit("n1", "n2", "n3")
    later = Capture()
    later.api(int(quorum.time * SECOND), -1, 1, "AddRaftVoter", body, {"error_code": 0}, 0)
    assert "C17" not in broken(make_run(None, quorum, capture=later))


def test_l9_followers_learn_of_commits_only_when_their_wait_ends(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    knobs = {"latency_max": 5000, "fsync_max": 500, "slow_factor": 1, "node": {}}

    def run(delay: float, *, fetches_snapshots: bool = False) -> RunData:
        quorum.one_epoch()
        quorum.time += 5
        for _ in range(10):
            if fetches_snapshots:
                quorum.event("n2", "download", {"end": 1, "epoch": 1})
                quorum.event("n3", "download", {"end": 1, "epoch": 1})
            quorum.append("n1", 1)
            quorum.copy("n1", *(() if fetches_snapshots else ("n2", "n3")))
            quorum.commit("n1")
            quorum.time += delay
            quorum.copy("n1", *(("n2", "n3") if fetches_snapshots else ()))
            quorum.commit("n2", "n3")
            quorum.time += 0.5
        made: RunData = make_run(None, quorum, simulated=True, knobs=knobs)
        return made

    assert "L9" not in broken(run(0.01))
    quorum.__init__()
    assert "L9" in broken(run(0.4))
    quorum.__init__()
    assert "L9" not in broken(run(0.4, fetches_snapshots=True))


@pytest.mark.parametrize(
    ("kind", "since", "expected"),
    [
        ("network", 2.1, True),
        ("network", 1.9, False),
        ("disk", 3.0, True),
        ("disk", 1.0, False),
        ("clock", 1.0, True),
        (None, 0, True),
    ],
)
def test_l9_slow_messages_of_a_fault_delay_later_ones(
    quorum: Any, capture: Capture, make_run: Callable[..., Any], make_fault: Any,
    kind: str | None, since: float, expected: bool,
) -> None:  # fmt: skip
    """Seeds 455616, 485540: a fetch that must go elsewhere came late behind a message of the
    fault, and was answered late by a leader that was flushing since the fault."""
    knobs = {"latency_max": 5000, "fsync_max": 500, "slow_factor": 1, "node": {}}
    quorum.one_epoch()
    quorum.time = 10.0
    quorum.event("n1", "hw")
    request = FetchRequest(None, 2, NO_DIRECTORY, 500, 1 << 20, 1, 1, 0, 0)
    said = FetchResponse(0, 0, 1, 1, 2, 0, -1, -1, 2, 1, b"")
    for number in range(3):
        sent = int((quorum.time + number / 10) * SECOND)
        capture.exchange(sent + SECOND // 2, 2, 1, request, said, sent)
    faults = [] if kind is None else make_fault(1, kind, 1.0, quorum.time - since, "n2")
    run = make_run(None, quorum, simulated=True, knobs=knobs, capture=capture, faults=faults)
    assert ("L9" in broken(run)) == expected


def test_i31_is_not_checked_after_a_batch_that_no_evidence_holds(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    told(quorum, "n1", [1, 2, 3], -1, level=0)
    base, _ = upgraded(quorum)
    told(quorum, "n1", [1, 2, 3], base + 1)
    quorum.logs["n1"].pop()  # Truncated before an image of the disk was taken.
    quorum.event("n1", "truncate", {"from": base + 2, "to": base}, leo=base)
    told(quorum, "n1", [1, 2, 3], -1, level=0)
    quorum.append("n1", 2)
    change(quorum, [1, 2])
    told(quorum, "n1", [1, 2], base + 1, level=0)
    assert "I31" not in broken(make_run(None, quorum))
    told(quorum, "n1", [1, 2], base + 1, level=1)
    assert "I31" in broken(make_run(None, quorum)), "the truncation restored the known level"
