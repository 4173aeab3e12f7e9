"""Faults of single RPCs between nodes."""

from __future__ import annotations

from kraftwreck.nemesis.families.network import NetworkShape
from kraftwreck.nemesis.registry import families
from kraftwreck.systems.kraft.faults.brokers import RPCS

NODES = ("n1", "n2", "n3", "n4", "n5")


def test_every_kind_of_rpc_part_and_direction_comes_up() -> None:
    known = families("kraft")["network"].shapes["rpc"]
    assert isinstance(known, NetworkShape)
    found = [known.disturbances(NODES, ("n1", "n2"), number) for number in range(600)]
    flat = [each for some in found for each in some]
    assert {api for each in flat for api in each.apis} == set(RPCS)
    assert {each.part for each in flat} == {"both", "request", "response"}
    assert {len(some) for some in found} == {1, 2}
    assert {each.drop for each in flat} == {0, 50, 100}
