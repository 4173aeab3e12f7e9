"""PartitionChangeBuilder: from a partition and what is wanted of it to a record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.metadata.change_builder import Election, PartitionChangeBuilder, Rules
from kraftwreck.nodes.metadata.image_values import Partition
from kraftwreck.nodes.protocol.records import encode_record

TOPIC = bytes(15) + b"\x07"
NONE = -1
UNCHANGED = -2
UNASSIGNED = (1).to_bytes(16, "big")

BASE = Partition(
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    removing=(),
    adding=(),
    leader=1,
    leader_epoch=5,
    partition_epoch=9,
    recovery_state=0,
    directories=(UNASSIGNED,) * 3,
)


def change(
    partition: Partition = BASE,
    *,
    up: Collection[int] = (1, 2, 3, 4, 5),
    elr: bool = False,
    level: int = 25,
    min_insync: int = 2,
    quorum: bool = False,
    **wanted: Any,
) -> dict[str, Any] | None:
    """Return what the record says beyond its key; None for no record."""
    rules = Rules(
        metadata_version=level,
        elr=elr,
        min_insync=min_insync,
        acceptable=lambda broker: broker in up,
        default_directory=lambda broker: UNASSIGNED,
        quorum=quorum,
    )
    builder = PartitionChangeBuilder(TOPIC, 0, partition, rules)
    for name, value in wanted.items():
        setattr(builder, name, value)
    record = builder.build()
    if record is None:
        return None
    unchanged = {"leader": UNCHANGED, "leader_recovery_state": -1}
    return {
        name: value
        for name, value in record[2].items()
        if name not in ("topic_id", "partition_id") and value != unchanged.get(name)
    }


def test_nothing_wanted_is_no_record() -> None:
    assert change() is None


def test_the_golden_record() -> None:
    """The bytes are those of Kafka's serializer: PartitionChangeRecord v2, ISR and leader."""
    rules = Rules(25, True, 1, lambda broker: broker != 1, lambda broker: UNASSIGNED)
    builder = PartitionChangeBuilder(
        (1).to_bytes(8, "big") + (2).to_bytes(8, "big"), 0, BASE, rules
    )
    builder.isr = (2, 3)
    record = builder.build()
    assert record is not None
    name, version, fields = record
    assert (name, version) == ("PartitionChangeRecord", 2)
    assert encode_record(name, version, fields).hex() == (
        "010502" + "00000000" + "00000000000000010000000000000002"
        "02" + "0009" + "030000000200000003" + "0104" + "00000002"
    )


# What happens to ISR, leader and eligible leader replicas when members go; in a row: the ISR,
# ELR and leader before, who is up, what ISR is wanted; then the changes.
ONLINE = [
    # The leader goes: the first replica in the ISR leads.
    ("123", "", 1, "23", "23", False, {"isr": [2, 3], "leader": 2}),
    # A follower goes: the leader stays, no epoch moves.
    ("123", "", 1, "12", "12", False, {"isr": [1, 2]}),
    # Replica order decides, not ISR order.
    ("132", "", 1, "23", "32", False, {"isr": [3, 2], "leader": 2}),
    # The last one goes: it stays in the ISR without ELR ...
    ("1", "", 1, "23", "", False, {"leader": NONE}),
    # ... and when it is back, it leads again.
    ("1", "", NONE, "1", "1", False, {"leader": 1}),
    # Somebody else coming back does not help.
    ("1", "", NONE, "2", "1", False, None),
    # With ELR the ISR may become empty; who led it last is remembered.
    ("1", "", 1, "", "", True, {"isr": [], "leader": NONE, "ELR": [1], "known": [1]}),
    # Below the minimum (2), who leaves is eligible.
    ("12", "", 1, "13", "1", True, {"isr": [1], "ELR": [2]}),
    ("12", "3", 1, "1", "1", True, {"isr": [1], "ELR": [2, 3]}),
    # At the minimum, nobody is.
    ("123", "", 1, "12", "12", True, {"isr": [1, 2]}),
    ("1", "23", 1, "12", "12", True, {"isr": [1, 2], "ELR": []}),
    # An eligible replica leads when nobody is in sync, and is the ISR then.
    ("1", "23", 1, "3", "", True, {"isr": [3], "leader": 3, "ELR": [1, 2]}),
    ("", "23", NONE, "2", "", True, {"isr": [2], "leader": 2, "ELR": [3]}),
    # Somebody who is neither does not.
    ("", "23", NONE, "1", "", True, None),
]


def digits(text: str) -> tuple[int, ...]:
    return tuple(int(digit) for digit in text)


def short(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """Leave out what is not changed; give the long names of ELR fields short ones."""
    names = {"eligible_leader_replicas": "ELR", "last_known_elr": "known"}
    if told is None:
        return None
    return {names.get(n, n): v for n, v in told.items() if v is not None}


@pytest.mark.parametrize(("isr", "elr", "leader", "up", "wanted", "enabled", "expected"), ONLINE)
def test_online_elections(
    isr: str, elr: str, leader: int, up: str, wanted: str, enabled: bool, expected: Any
) -> None:
    partition = replace(BASE, isr=digits(isr), elr=digits(elr), leader=leader)
    told = change(partition, up=digits(up), elr=enabled, isr=digits(wanted))
    assert short(told) == expected


def test_an_unclean_election_makes_the_leader_the_isr_and_says_so() -> None:
    """C6, and C19 planted: without permission there is no leader."""
    told = change(up=(2, 3), isr=(), election=Election.UNCLEAN, partition=replace(BASE, isr=(1,)))
    assert short(told) == {"isr": [2], "leader": 2, "leader_recovery_state": 1}
    told = change(up=(2, 3), isr=(), partition=replace(BASE, isr=(1,)))
    assert short(told) == {"leader": NONE}


def test_an_unclean_election_is_held_only_if_there_is_no_clean_way() -> None:
    eligible = replace(BASE, isr=(1,), elr=(3,))
    told = change(eligible, up=(2, 3), elr=True, isr=(), election=Election.UNCLEAN)
    assert short(told) == {"isr": [3], "leader": 3, "ELR": [1]}


KNOWN = replace(BASE, isr=(), leader=NONE, last_known_elr=(2,))


@pytest.mark.parametrize("election", list(Election))
def test_the_last_known_leader_leads_when_nobody_is_left(election: Election) -> None:
    told = change(KNOWN, up=(1, 2), elr=True, isr=(), election=election)
    assert short(told) == {"isr": [2], "leader": 2, "leader_recovery_state": 1, "known": []}


@pytest.mark.parametrize(
    "partition", [KNOWN, replace(KNOWN, last_known_elr=(1, 2)), replace(KNOWN, elr=(3,))]
)
def test_the_last_known_leader_must_be_up_alone_and_the_last_hope(partition: Partition) -> None:
    """KAFKA-19522: up. Several are from another way of recovery. An ELR is waited for."""
    up = (1,) if partition is KNOWN else (1, 2)
    assert change(partition, up=up, elr=True, isr=()) is None


def test_the_preferred_leader_leads_if_it_is_in_sync() -> None:
    led_by_two = replace(BASE, leader=2)
    assert short(change(led_by_two, election=Election.PREFERRED)) == {"leader": 1}
    assert change(led_by_two, up=(2, 3), election=Election.PREFERRED) is None
    assert change(replace(led_by_two, isr=(2, 3)), election=Election.PREFERRED) is None
    assert change(led_by_two) is None, "an online election keeps the leader"


def test_a_replica_after_an_unclean_shutdown_is_not_eligible() -> None:
    """C7, C21 planted: the log may have lost its end."""
    partition = replace(BASE, isr=(1,), elr=(2, 3))
    told = change(partition, up=(2, 3), elr=True, isr=(), unclean_shutdown=(1,))
    assert short(told) == {"isr": [2], "leader": 2, "ELR": [3]}
    told = change(partition, elr=True, unclean_shutdown=(2,))
    assert short(told) == {"ELR": [3]}


@pytest.mark.parametrize(("level", "bumps"), [(11, True), (12, False), (25, False)])
def test_a_smaller_isr_moves_the_leader_epoch_below_3_6(level: int, bumps: bool) -> None:
    """KAFKA-15021."""
    told = change(isr=(1, 2), level=level)
    assert short(told) == ({"isr": [1, 2], "leader": 1} if bumps else {"isr": [1, 2]})


def test_a_larger_isr_never_moves_the_leader_epoch() -> None:
    told = change(replace(BASE, isr=(1,)), isr=(1, 2), level=7)
    assert short(told) == {"isr": [1, 2]}


MOVING = replace(
    BASE,
    replicas=(4, 5, 1, 2),
    adding=(4, 5),
    removing=(1, 2),
    isr=(1, 2),
    directories=(UNASSIGNED,) * 4,
)


@pytest.mark.parametrize("isr", ["12", "1", "124", "4"])
def test_a_reassignment_waits_for_all_added_replicas(isr: str) -> None:
    """C14, C12 planted."""
    told = change(MOVING, isr=digits(isr), up=(1, 2, 4, 5)) or {}
    assert told.get("replicas") is None


@pytest.mark.parametrize(("isr", "rest"), [("1245", [4, 5]), ("45", [4, 5]), ("145", [4, 5])])
def test_a_reassignment_completes_in_the_change_that_makes_it_possible(
    isr: str, rest: list[int]
) -> None:
    told = change(MOVING, isr=digits(isr))
    assert short(told) == {
        "isr": rest,
        "leader": 4,
        "replicas": [4, 5],
        "adding_replicas": [],
        "removing_replicas": [],
        "directories": [UNASSIGNED] * 2,
    }


def test_fewer_replicas_must_all_be_in_sync() -> None:
    """KAFKA-19975: no replica is added, so there is nothing else to wait for."""
    shrinking = replace(BASE, removing=(3,), isr=(1, 3))
    assert change(shrinking) is None
    told = short(change(shrinking, isr=(1, 2, 3)))
    assert told is not None
    assert (told["replicas"], told["isr"], told["leader"]) == ([1, 2], [1, 2], 1)


def test_a_leader_that_stays_gets_a_new_epoch_when_a_replica_goes() -> None:
    """C22 planted: the removed replica must not continue to fetch in the old epoch."""
    told = short(change(replace(BASE, removing=(3,))))
    assert told is not None
    assert (told["leader"], told["replicas"]) == (1, [1, 2])


def test_replicas_in_another_order_are_no_reassignment() -> None:
    told = short(change(replicas=(3, 2, 1)))
    assert told == {"replicas": [3, 2, 1]}


def test_the_minimum_is_at_most_the_number_of_replicas_there_will_be() -> None:
    partition = replace(BASE, removing=(2, 3), isr=(1, 2), elr=(3,))
    told = short(change(partition, elr=True, min_insync=3))
    assert told is not None
    assert (told["isr"], told["ELR"]) == ([1], [])


def test_a_removed_replica_is_not_eligible() -> None:
    partition = replace(BASE, replicas=(1, 2, 3), isr=(1,), elr=(2, 3))
    told = short(change(partition, elr=True, replicas=(1, 2)))
    assert told is not None
    assert told["ELR"] == [2]


def test_with_the_feature_switched_off_the_eligible_count_while_there_is_no_isr() -> None:
    partition = replace(BASE, isr=(), elr=(2, 3), leader=NONE, last_known_elr=(1,))
    assert change(partition, up=(1,), isr=()) is None, "they are waited for"
    told = change(partition, up=(3,), isr=())
    assert short(told) == {"isr": [3], "leader": 3, "ELR": [], "known": []}
    partition = replace(BASE, isr=(1,), elr=(2, 3))
    assert short(change(partition, up=(1, 2))) == {"ELR": []}


@pytest.mark.parametrize(
    ("level", "elr", "version"), [(16, False, 0), (17, False, 1), (25, False, 1), (25, True, 2)]
)
def test_the_record_version_is_that_of_the_metadata_version(
    level: int, elr: bool, version: int
) -> None:
    rules = Rules(level, elr, 1, lambda broker: True, lambda broker: UNASSIGNED)
    builder = PartitionChangeBuilder(TOPIC, 0, BASE, rules)
    builder.isr = (1, 2)
    builder.replicas = (1, 2, 3, 4)
    record = builder.build()
    assert record is not None
    assert record[1] == version
    expected = [UNASSIGNED] * 4 if version else None
    assert record[2]["directories"] == expected


def test_a_replica_keeps_its_directory_and_a_new_one_gets_the_default() -> None:
    mine, other = b"\x01" * 16, b"\x02" * 16
    partition = replace(BASE, directories=(mine, other, mine))
    told = short(change(partition, replicas=(4, 3, 2, 1), adding=(4,)))
    assert told is not None
    assert told["directories"] == [UNASSIGNED, mine, other, mine]
    assert short(change(partition, directories={2: mine})) == {"directories": [mine] * 3}


@pytest.mark.parametrize(
    ("quorum", "min_insync", "isr", "eligible"),
    [
        (False, 1, (1,), None),
        (True, 1, (1,), [2, 3]),
        (False, 3, (1, 2), [3]),
        (True, 3, (1, 2), None),
    ],
)
def test_a_quorum_needs_a_majority_whatever_min_insync_replicas_says(
    quorum: bool, min_insync: int, isr: tuple[int, ...], eligible: list[int] | None
) -> None:
    told = change(elr=True, min_insync=min_insync, quorum=quorum, isr=isr)
    assert told is not None
    assert (told["isr"], told.get("eligible_leader_replicas")) == (list(isr), eligible)


def test_new_replicas_of_a_reassignment_make_no_majority_larger() -> None:
    more = replace(BASE, replicas=(1, 2, 3, 4, 5), adding=(4, 5), directories=(UNASSIGNED,) * 5)
    told = change(more, elr=True, quorum=True, isr=(1, 2))
    assert told is not None
    assert told.get("eligible_leader_replicas") is None, "two of three are enough"
