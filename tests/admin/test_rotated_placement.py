"""The placement of Kafka's replication design: its flaw, and how it is mended."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.metadata.rotated_placement import place_rotated


def as_designed(count: int, partitions: int, factor: int) -> list[list[int]]:
    """The formula of the design: replica j of a broker's k-th partition on (i + j + k) mod n."""
    return [
        [
            number % count,
            *((number % count + j + number // count) % count for j in range(1, factor)),
        ]
        for number in range(partitions)
    ]


def test_the_formula_of_the_design_puts_two_replicas_on_one_broker() -> None:
    placed = as_designed(3, 9, 2)
    assert placed[:6] == [[0, 1], [1, 2], [2, 0], [0, 2], [1, 0], [2, 1]]
    # j + k = 3 = n: the second replica is where the first is.
    assert placed[6:] == [[0, 0], [1, 1], [2, 2]]


def test_the_mended_formula_agrees_until_the_flaw_shows() -> None:
    assert place_rotated([0, 1, 2], 6, 2) == as_designed(3, 6, 2)
    assert place_rotated([0, 1, 2], 9, 2)[6:] == [[0, 1], [1, 2], [2, 0]]


@given(st.integers(1, 8), st.integers(1, 60), st.data())
def test_replicas_are_on_different_brokers_and_leaders_are_even(
    count: int, partitions: int, data: st.DataObject
) -> None:
    brokers = [7 * number for number in range(count)]
    factor = data.draw(st.integers(1, count))
    placed = place_rotated(brokers, partitions, factor)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(brokers)
    leaders = Counter(replicas[0] for replicas in placed)
    assert [replicas[0] for replicas in placed[:count]] == brokers[:partitions]
    assert max(leaders.values()) - min(leaders[broker] for broker in brokers) <= 1


@given(st.integers(2, 8), st.integers(1, 9), st.data())
def test_a_dead_broker_s_partitions_spread_over_all_others(
    count: int, turns: int, data: st.DataObject
) -> None:
    brokers = list(range(count))
    dead = data.draw(st.sampled_from(brokers))
    placed = place_rotated(brokers, count * turns, 2)
    heirs = Counter(replicas[1] for replicas in placed if replicas[0] == dead)
    loads = [heirs[broker] for broker in brokers if broker != dead]
    assert sum(loads) == turns
    assert max(loads) - min(loads) <= 1


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 replicas do not fit on 2 brokers"):
        place_rotated([1, 2], 1, 3)
