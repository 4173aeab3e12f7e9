"""Rules of partition reassignments (C14): a log that keeps them, and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.checkers.breaks import broken


def test_c14_a_reassignment_that_ends_too_early(
    cluster: Any, records: Any, make_run: Callable[..., Any]
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
    assert broken(make_run(None, cluster)) == {"C14"}


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
    cluster: Any, records: Any, make_run: Callable[..., Any],
    isr: list[int], adding: list[int], removing: list[int], goes_on: bool,
) -> None:  # fmt: skip
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    begun = {"replicas": [1, 2, 4, 3], "adding_replicas": [4], "removing_replicas": [3]}
    cluster.write(records.change(**begun))
    cluster.write(records.change(isr=isr, adding_replicas=adding, removing_replicas=removing))
    assert ("C14" in broken(make_run(None, cluster))) == goes_on


@pytest.mark.parametrize("unclean", [True, False])
def test_c14_an_unclean_election_may_follow_in_the_same_record(
    cluster: Any, records: Any, make_run: Callable[..., Any], unclean: bool
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    was = [4] if unclean else [2]
    cluster.write(records.change(replicas=[1, 2, 4, 3], isr=was, leader=was[0],
                                 adding_replicas=[4], removing_replicas=[3]))  # fmt: skip
    cluster.write(records.change(replicas=[1, 2, 4], isr=[1], leader=1,
                                 adding_replicas=[], removing_replicas=[]))  # fmt: skip
    assert ("C14" in broken(make_run(None, cluster))) != unclean


@pytest.mark.parametrize(
    ("asked", "verdict"), [([1, 2], set()), ([1, 3], {"C14"})], ids=["these", "others"]
)
def test_c14_a_second_reassignment_may_end_with_fewer_replicas(
    cluster: Any,
    records: Any,
    history: Any,
    make_run: Callable[..., Any],
    asked: list[int],
    verdict: set[str],
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    cluster.write(records.change(replicas=[1, 2, 4, 3], adding_replicas=[4], removing_replicas=[3]))
    history.did(0, "reassign", saw={"partition": 0, "replicas": asked}, key="t")
    cluster.write(
        records.change(
            replicas=[1, 2], isr=[1, 2], leader=1, adding_replicas=[], removing_replicas=[]
        )
    )
    assert broken(make_run(history, cluster)) == verdict


@pytest.mark.parametrize("in_steps", [True, False])
@pytest.mark.parametrize(("isr", "verdict"), [([1, 2], set()), ([1], {"C14"})])
def test_c14_remaining_replicas_are_in_sync_before_others_go(
    cluster: Any,
    records: Any,
    make_run: Callable[..., Any],
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
    assert broken(make_run(None, cluster)) == verdict


@pytest.mark.parametrize(
    ("probe", "kind", "verdict"),
    [
        ({"kind": "configs", "name": "x", "creates": False}, "info", {"C14"}),
        ({"kind": "reassign", "name": "x", "creates": False}, "info", set()),
        ({"kind": "story-partial", "name": "x", "creates": True}, "info", {"C14"}),
        ({"kind": "story-partial", "name": "t", "creates": True}, "info", set()),
    ],
)
def test_c14_only_a_probe_that_may_have_moved_the_partition_excuses_its_end(
    cluster: Any,
    records: Any,
    history: Any,
    make_run: Callable[..., Any],
    probe: Any,
    kind: str,
    verdict: set[str],
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    cluster.write(records.change(replicas=[1, 2, 4, 3], adding_replicas=[4], removing_replicas=[3]))
    history.did(0, "ask", probe, kind=kind)
    cluster.write(
        records.change(
            replicas=[1, 2], isr=[1, 2], leader=1, adding_replicas=[], removing_replicas=[]
        )
    )
    assert broken(make_run(history, cluster)) == verdict


def test_c14_a_replica_that_was_not_added(
    cluster: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    cluster.write(records.change(replicas=[1, 2, 3, 4]))
    assert broken(make_run(None, cluster)) == {"C14"}


@pytest.mark.parametrize(("times", "verdict"), [(1, {"C14"}), (2, set())], ids=["once", "twice"])
def test_c14_a_second_reassignment_takes_the_added_for_old_ones(
    cluster: Any,
    records: Any,
    history: Any,
    make_run: Callable[..., Any],
    times: int,
    verdict: set[str],
) -> None:
    epoch = cluster._end("n1")
    cluster.write(records.register(4, epoch))
    cluster.write(records.fence(4, epoch, -1))
    cluster.write(records.change(replicas=[1, 2, 4, 3], adding_replicas=[4], removing_replicas=[3]))
    for _ in range(times):
        history.did(0, "reassign", saw={"partition": 0, "replicas": [1, 2, 4]}, key="t")
    cluster.write(
        records.change(
            replicas=[1, 2, 4], isr=[1, 2], leader=1, adding_replicas=[], removing_replicas=[]
        )
    )
    assert broken(make_run(history, cluster)) == verdict
