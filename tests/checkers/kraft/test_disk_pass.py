"""Disk images against traces and each other: they must agree below high watermarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.nodes.log.batch import encode_batch

OF_LOGS = {"I8", "I9", "I10", "I11", "I14"}


def kinds(result: Any) -> set[str]:
    return {anomaly.type for anomaly in result.anomalies}


def test_agreeing_disks_are_valid(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    result = check(make_run(None, quorum))
    assert (result.valid, result.error, result.anomalies) == (True, None, [])
    assert result.stats["committed_batches"] == 2
    assert result.stats["high_watermark"] == 2


def test_a_missing_final_image_is_unknown(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    images = [quorum.image("n1"), quorum.image("n2"), quorum.image("n3", "kill-1")]
    result = check(make_run(None, quorum, images=images))
    assert (result.valid, result.error) == ("unknown", "no final disk image of n3")


def test_a_damaged_final_image_is_unknown(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.logs["n3"].append(quorum.append("n1", 1)[:-1] + b"?")
    result = check(make_run(None, quorum))
    assert result.valid == "unknown"
    assert "the final image of n3 is damaged (wrong CRC at offset 2)" in (result.error or "")


def test_a_torn_tail_is_normal(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.logs["n3"].append(quorum.append("n1", 1)[:-5])
    assert check(make_run(None, quorum)).valid is True


def test_nothing_committed_proves_nothing(quorum: Any, make_run: Callable[..., Any]) -> None:
    result = check(make_run(None, quorum))
    assert (result.valid, result.error) == ("unknown", "no high watermark was ever seen")


def test_a_committed_batch_that_is_gone_from_most_disks(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    for name in ("n2", "n3"):
        quorum.logs[name].pop()
    result = check(make_run(None, quorum))
    assert result.valid is False
    assert kinds(result) == {"I11", "I14"}


@pytest.mark.parametrize("label", ["final", "kill-1"])
def test_two_contents_of_one_batch_on_disks(
    quorum: Any, make_run: Callable[..., Any], label: str
) -> None:
    quorum.one_epoch()
    image = quorum.image("n3", label)
    other = encode_batch(1, 1, 0, [(None, b"other")], control=False)
    image.log = quorum.logs["n3"][0] + other
    result = check(make_run(None, quorum, images=[*quorum.images()[:2], image]))
    assert result.valid is False
    assert kinds(result) == {"I8"}
    assert f"n3's disk ({label})" in result.anomalies[0].explanation


def test_an_uncommitted_tail_of_an_older_epoch_is_normal(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1)
    killed = quorum.image("n1", "kill-1")
    quorum.elect("n2", 2, ["n3"])
    quorum.copy("n2", "n3")
    quorum.commit("n2", "n3")
    quorum.logs["n1"].pop()
    quorum.start("n1", state="resigned", leader=1)
    quorum.copy("n2", "n1")
    result = check(make_run(None, quorum, images=[*quorum.images(), killed]))
    assert not kinds(result) & OF_LOGS


def test_an_uncommitted_tail_of_a_newer_epoch_is_normal_too(
    quorum: Any, make_run: Callable[..., Any], first_of_epoch: Callable[..., bytes]
) -> None:
    """n1 writes alone in epoch 2 and falls; epoch 3 commits the older batch of n2 there."""
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.logs["n1"].pop()
    quorum.start("n1", state="resigned", leader=1)
    other = first_of_epoch(2, 2, 1)
    killed = quorum.image("n1", "kill-1")
    killed.log += other
    quorum.elect("n2", 3, ["n3"])
    quorum.copy("n2", "n3")
    quorum.commit("n2", "n3")
    quorum.copy("n2", "n1")
    result = check(make_run(None, quorum, images=[*quorum.images(), killed]))
    assert not kinds(result) & OF_LOGS


def test_a_newer_epoch_replaces_a_committed_batch(
    quorum: Any, make_run: Callable[..., Any], first_of_epoch: Callable[..., bytes]
) -> None:
    quorum.one_epoch()
    image = quorum.image("n3", "kill-1")
    image.log = quorum.logs["n3"][0] + first_of_epoch(1, 2, 2)
    result = check(make_run(None, quorum, images=[*quorum.images(), image]))
    assert kinds(result) == {"I10"}


def test_contradictions_between_traces_are_reported_too(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.event("n3", "truncate", {"from": 2, "to": 1}, leo=1, hw=1)
    assert "I14" in kinds(check(make_run(None, quorum)))


def test_a_promise_that_is_not_on_the_disk(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.grant("n3", "n2", 2)
    images = quorum.images()
    assert check(make_run(None, quorum, images=images)).valid is True
    images[2].quorum_state = {"leaderEpoch": 2, "leaderId": -1, "votedId": -1}
    assert kinds(check(make_run(None, quorum, images=images))) == {"I3"}
    images[2].quorum_state = {"leaderEpoch": 1, "leaderId": 1, "votedId": 1}
    assert kinds(check(make_run(None, quorum, images=images))) == {"I6"}


@pytest.mark.parametrize(
    ("faults", "brokers", "holds"),
    [((), ("n3",), False), (("power",), ("n3",), True), (("power",), (), False)],
)
def test_i14_a_broker_that_loses_power_need_not_have_fsynced(
    quorum: Any,
    make_run: Callable[..., Any],
    faults: tuple[str, ...],
    brokers: tuple[str, ...],
    holds: bool,
) -> None:
    quorum.one_epoch()
    quorum.logs["n3"].pop()
    run = make_run(None, quorum, brokers=list(brokers))
    run.test["faults"] = list(faults)
    assert ("I14" not in kinds(check(run))) is holds
