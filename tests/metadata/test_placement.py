"""Striped replica placement."""

from __future__ import annotations

from collections import Counter

import pytest

from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.placement import Candidate, StripedPlacer
from kraftwreck.nodes.protocol.errors import INVALID_REPLICATION_FACTOR


def placed(
    candidates: list[Candidate], partitions: int, factor: int, seed: int = 1
) -> list[list[int]]:
    def choose(bound: int, *key: object) -> int:
        return draw_below(bound, seed, *key)

    return StripedPlacer(candidates, choose).place(partitions, factor)


FIVE = [Candidate(i) for i in (1, 2, 3, 4, 5)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("factor", [1, 2, 3, 5])
def test_every_partition_has_distinct_replicas_and_leaders_are_balanced(
    seed: int, factor: int
) -> None:
    replicas = placed(FIVE, 20, factor, seed)
    assert all(len(set(r)) == factor for r in replicas)
    assert set(Counter(r[0] for r in replicas).values()) == {4}


def test_the_same_draw_places_the_same_way_and_another_differs() -> None:
    assert placed(FIVE, 12, 3, 1) == placed(FIVE, 12, 3, 1)
    assert len({str(placed(FIVE, 12, 3, seed)) for seed in range(10)}) > 1


def test_replicas_of_a_partition_are_spread_over_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    candidates = [Candidate(i, rack) for i, rack in racks.items()]
    for replicas in placed(candidates, 30, 3):
        assert {racks[r] for r in replicas} == {"a", "b", "c"}


@pytest.mark.parametrize("seed", range(10))
def test_racks_that_take_turns_use_all_of_their_brokers(seed: int) -> None:
    racks = [Candidate(1, "a"), Candidate(2, "a"), Candidate(3, "b"), Candidate(4, "b")]
    leaders = [replicas[0] for replicas in placed(racks, 4, 1, seed)]
    assert sorted(leaders) == [1, 2, 3, 4]


@pytest.mark.parametrize("before", range(1, 10))
def test_leaders_of_each_topic_of_a_request_rotate_over_racks(before: int) -> None:
    """Seed 8400012: brokers changed places within a topic, since others of its request counted."""
    racks = {broker: "abc"[broker % 3] for broker in range(6)}
    candidates = [Candidate(broker, rack) for broker, rack in racks.items()]
    for seed in range(10):
        placer = StripedPlacer(candidates, lambda bound, *key, of=seed: draw_below(bound, of, *key))
        placer.place(before, 2)
        leaders = [replicas[0] for replicas in placer.place(3, 2)]
        assert {racks[leader] for leader in leaders} == {"a", "b", "c"}


def test_after_a_round_the_same_brokers_do_not_stay_together() -> None:
    """Without shuffling the lists every fifth partition would be placed alike."""
    rounds = [placed(FIVE, 10, 3, seed) for seed in range(10)]
    assert any(sorted(each[:5]) != sorted(each[5:]) for each in rounds)


def test_a_fenced_broker_never_comes_first_and_only_fills_up() -> None:
    candidates = [Candidate(1), Candidate(2), Candidate(3, fenced=True)]
    for replicas in placed(candidates, 12, 2):
        assert 3 not in replicas
    for replicas in placed(candidates, 12, 3):
        assert replicas[0] != 3
        assert sorted(replicas) == [1, 2, 3]


def test_a_rack_with_only_fenced_brokers_is_skipped_for_the_leader() -> None:
    candidates = [Candidate(1, "a", fenced=True), Candidate(2, "b"), Candidate(3, "c")]
    for replicas in placed(candidates, 12, 3):
        assert replicas[0] != 1
        assert sorted(replicas) == [1, 2, 3]


@pytest.mark.parametrize(
    ("candidates", "factor"),
    [(FIVE, 6), (FIVE, 0), ([], 1), ([Candidate(1, fenced=True)], 1)],
)
def test_too_few_brokers_are_refused(candidates: list[Candidate], factor: int) -> None:
    with pytest.raises(ApiError) as refused:
        placed(candidates, 1, factor)
    assert refused.value.code == INVALID_REPLICATION_FACTOR
