"""Rules of partition reassignments (C14): a log that keeps them, and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.recorded.capture import Capture
from tests.checkers.breaks import broken

NOT_CONTROLLER, TIMED_OUT, NOT_ELIGIBLE = 41, 7, 39


@pytest.fixture
def judged(cluster: Any, capture: Capture, make_run: Callable[..., Any]) -> Callable[[], set[str]]:
    """Judges the cluster with all requests that arrived, after n1 was asked for each; none of them
    creates the topic or unfences a broker."""

    def judge() -> set[str]:
        return broken(make_run(None, cluster, capture=capture, simulated=True)) - {"C21", "I24"}

    return judge


def ask(
    capture: Capture, replicas: list[int] | None, code: int | None = None, part: int = 0
) -> None:
    """A request for a move of t-0 arrives; it is answered unless ``code`` is None."""
    wanted = {"partition_index": 0, "replicas": replicas}
    body = {"topics": [{"name": "t", "partitions": [wanted]}]}
    capture.api(0, -1, 1, "AlterPartitionReassignments", body, None, 0)
    if code is not None:
        told = [{"name": "t", "partitions": [{"partition_index": 0, "error_code": part}]}]
        answer = {"error_code": code} if code else {"error_code": code, "responses": told}
        capture.api(0, -1, 1, "AlterPartitionReassignments", body, answer, -1)


def test_c14_a_reassignment_that_ends_too_early(
    cluster: Any, records: Any, judged: Callable[[], set[str]]
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    cluster.write(records.change(replicas=[1, 2, 4, 3], adding_replicas=[4], removing_replicas=[3]))
    cluster.write(
        records.change(
            replicas=[1, 2, 4], isr=[1, 2], leader=1, adding_replicas=[], removing_replicas=[]
        )
    )
    assert judged() == {"C14"}


@pytest.mark.parametrize(
    ("isr", "adding", "removing", "goes_on"),
    [
        ([1, 2, 4], [4], [3], True),
        ([1, 2, 4], [4], [], True),
        ([1, 2], [4], [3], False),
        ([1, 2], [], [4, 3], True),
        ([1, 3], [], [4, 3], False),
        ([4], [4], [3], False),  # Elected uncleanly, in this record.
    ],
)
def test_c14_a_reassignment_that_does_not_end(
    cluster: Any, records: Any, judged: Callable[[], set[str]],
    isr: list[int], adding: list[int], removing: list[int], goes_on: bool,
) -> None:  # fmt: skip
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    begun = {"replicas": [1, 2, 4, 3], "adding_replicas": [4], "removing_replicas": [3]}
    cluster.write(records.change(**begun))
    cluster.write(records.change(isr=isr, adding_replicas=adding, removing_replicas=removing))
    assert ("C14" in judged()) == goes_on


@pytest.mark.parametrize("unclean", [True, False])
def test_c14_an_unclean_election_may_follow_in_the_same_record(
    cluster: Any, records: Any, judged: Callable[[], set[str]], unclean: bool
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    was = [4] if unclean else [2]
    cluster.write(records.change(replicas=[1, 2, 4, 3], isr=was, leader=was[0],
                                 adding_replicas=[4], removing_replicas=[3]))  # fmt: skip
    cluster.write(records.change(replicas=[1, 2, 4], isr=[1], leader=1,
                                 adding_replicas=[], removing_replicas=[]))  # fmt: skip
    assert ("C14" in judged()) != unclean


@pytest.mark.parametrize(
    ("asked", "verdict"), [([1, 2], set()), ([1, 3], {"C14"})], ids=["these", "others"]
)
def test_c14_a_second_reassignment_may_end_with_fewer_replicas(
    cluster: Any,
    records: Any,
    capture: Capture,
    judged: Callable[[], set[str]],
    asked: list[int],
    verdict: set[str],
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    cluster.write(records.change(replicas=[1, 2, 4, 3], adding_replicas=[4], removing_replicas=[3]))
    ask(capture, asked, code=0)
    cluster.write(
        records.change(
            replicas=[1, 2], isr=[1, 2], leader=1, adding_replicas=[], removing_replicas=[]
        )
    )
    assert judged() == verdict


@pytest.mark.parametrize("in_steps", [True, False])
@pytest.mark.parametrize(("isr", "verdict"), [([1, 2], set()), ([1], {"C14"})])
def test_c14_remaining_replicas_are_in_sync_before_others_go(
    cluster: Any,
    records: Any,
    judged: Callable[[], set[str]],
    in_steps: bool,
    isr: list[int],
    verdict: set[str],
) -> None:
    cluster.write(records.change(isr=[1] if in_steps else isr))
    going: dict[str, Any] = {"adding_replicas": [], "removing_replicas": [3]}
    if in_steps:
        cluster.write(records.change(replicas=[1, 2, 3], **going))
    ended: dict[str, Any] = {"adding_replicas": [], "removing_replicas": []}
    cluster.write(records.change(replicas=[1, 2], isr=isr, leader=1, **ended))
    assert judged() == verdict


def ends_with_fewer(cluster: Any, records: Any) -> None:
    """A reassignment to [1, 2, 4] ends with [1, 2], which a second request may have wanted."""
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    cluster.write(records.change(replicas=[1, 2, 4, 3], adding_replicas=[4], removing_replicas=[3]))
    ended: dict[str, Any] = {"adding_replicas": [], "removing_replicas": []}
    cluster.write(records.change(replicas=[1, 2], isr=[1, 2], leader=1, **ended))


@pytest.mark.parametrize(
    ("replicas", "code", "part", "right"),
    [
        ([1, 2], None, 0, True),
        ([1, 2], 0, 0, True),
        ([1, 2], TIMED_OUT, 0, True),
        ([1, 2], 0, TIMED_OUT, True),
        ([1, 2], NOT_CONTROLLER, 0, False),
        ([1, 2], 0, NOT_ELIGIBLE, False),
        ([1, 3], None, 0, False),
        (None, None, 0, False),
    ],
)
def test_c14_a_request_that_may_have_moved_the_partition_excuses_its_end(
    cluster: Any, records: Any, capture: Capture, judged: Callable[[], set[str]],
    replicas: list[int] | None, code: int | None, part: int, right: bool,
) -> None:  # fmt: skip
    """Whatever a client calls its operation; without an answer it may have been carried out."""
    ask(capture, replicas, code, part)
    ends_with_fewer(cluster, records)
    assert judged() == (set() if right else {"C14"})


@pytest.mark.parametrize(
    ("test", "dropped", "judges"),
    [
        ({"simulated": True}, 0, True),
        ({"simulated": True}, 1, False),
        ({}, 0, False),
    ],
)
def test_c14_needs_all_requests(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any],
    test: dict[str, Any], dropped: int, judges: bool,
) -> None:  # fmt: skip
    capture.dropped = dropped
    ends_with_fewer(cluster, records)
    assert ("C14" in broken(make_run(None, cluster, capture=capture, **test))) == judges


@pytest.mark.parametrize(
    ("faults", "lost", "judges"),
    [(["kill"], {}, True), (["power"], {}, False), (["kill"], {"uncollected": ["n2"]}, False)],
)
def test_c14_input_logs_of_hosts_have_all_requests_unless_they_lost_their_ends(
    cluster: Any, records: Any, capture: Capture, make_run: Callable[..., Any],
    faults: list[str], lost: dict[str, Any], judges: bool,
) -> None:  # fmt: skip
    capture.own_inputs = True
    ends_with_fewer(cluster, records)
    run = make_run(None, cluster, capture=capture, **lost)
    run.test["faults"] = faults
    assert ("C14" in broken(run)) == judges


def test_c14_a_replica_that_was_not_added(
    cluster: Any, records: Any, judged: Callable[[], set[str]]
) -> None:
    cluster.write(records.change(replicas=[1, 2, 3, 4]))
    assert judged() == {"C14"}


@pytest.mark.parametrize(("times", "verdict"), [(1, {"C14"}), (2, set())], ids=["once", "twice"])
def test_c14_a_second_reassignment_takes_the_added_for_old_ones(
    cluster: Any,
    records: Any,
    capture: Capture,
    judged: Callable[[], set[str]],
    times: int,
    verdict: set[str],
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    cluster.write(records.change(replicas=[1, 2, 4, 3], adding_replicas=[4], removing_replicas=[3]))
    for _ in range(times):
        ask(capture, [1, 2, 4], code=0)
    cluster.write(
        records.change(
            replicas=[1, 2, 4], isr=[1, 2], leader=1, adding_replicas=[], removing_replicas=[]
        )
    )
    assert judged() == verdict
