"""I28: the answers of a leader to invented fetches, whose logs end anywhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.consensus.kraft.fetches import VALID, Verdict, validate
from kraftwreck.nodes.consensus.kraft.member import Member
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.systems.kraft.simulated import invented_fetches
from kraftwreck.systems.kraft.simulated.invented_fetches import judge, known

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def leader(*epochs: int, cleaned: int = 0) -> Any:
    """Return a leader with one record of each of the ``epochs``, of which ``cleaned`` are only in a
    snapshot."""
    batches = [
        encode_batch(offset, epoch, 1, [(None, b"r")], control=False)
        for offset, epoch in enumerate(epochs)
    ]
    log = ReplicatedLog(batches)
    snapshots = []
    if cleaned:
        name = cleaned, epochs[cleaned - 1]
        log.clean(name)
        snapshots = [SimpleNamespace(id=name, epoch=name[1])]
    return SimpleNamespace(log=log, snapshots=snapshots)


def judged(replica: Any) -> list[str]:
    return list(judge(replica, known(replica, dict(each.id for each in replica.snapshots))))


@given(st.data(), st.lists(st.integers(0, 3), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_right_verdicts_break_nothing(data: st.DataObject, steps: list[int]) -> None:
    epochs = [1 + sum(steps[: place + 1]) for place in range(len(steps))]
    cleaned = data.draw(st.integers(0, len(epochs)))
    assert judged(leader(*epochs, cleaned=cleaned)) == []


def takes_any_epoch_at_the_log_start(replica: Member, offset: int, epoch: int) -> Verdict:
    log = replica.log
    behind = offset < log.start_offset or epoch < replica.snapshots[0].epoch
    if offset == log.start_offset and not behind:
        return VALID
    return validate(replica, offset, epoch)


def ignores_the_epoch(replica: Member, offset: int, epoch: int) -> Verdict:
    return VALID if offset <= replica.log.end_offset else validate(replica, offset, epoch)


def takes_longer_logs(replica: Member, offset: int, epoch: int) -> Verdict:
    known_epoch = replica.log.first_offset_of(epoch) is not None
    return VALID if known_epoch else validate(replica, offset, epoch)


def sends_nobody_records(replica: Member, offset: int, epoch: int) -> Verdict:
    return Verdict(snapshot=(replica.log.start_offset, 1))


def goes_back_too_far(replica: Member, offset: int, epoch: int) -> Verdict:
    found = validate(replica, offset, epoch)
    if found.diverging is None:
        return found
    return Verdict(diverging=(found.diverging[0], found.diverging[1] - 1))


def makes_no_progress(replica: Member, offset: int, epoch: int) -> Verdict:
    found = validate(replica, offset, epoch)
    return found if found.diverging is None else Verdict(diverging=(epoch, offset))


@pytest.mark.parametrize(
    "wrong",
    [
        takes_any_epoch_at_the_log_start,
        ignores_the_epoch,
        takes_longer_logs,
        sends_nobody_records,
        goes_back_too_far,
        makes_no_progress,
    ],
)
def test_a_wrong_verdict_breaks_i28(wrong: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(invented_fetches, "validate", wrong)
    assert judged(leader(1, 1, 3, 3, 5, 5, cleaned=3))
