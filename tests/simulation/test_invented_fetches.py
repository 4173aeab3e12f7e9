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
from kraftwreck.systems.kraft.simulated.invented_fetches import Known, judge, known

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


def test_the_last_three_epochs_and_the_ends_of_a_log_are_tried() -> None:
    """Each with the epochs beside it, and offsets below the first one of an epoch left out."""
    one = leader(1, 2, 3, 4, 5)
    tried = set(known(one, {}).ends())
    assert {offset for offset, _ in tried} == {3, 4, 5, 6}
    assert {epoch for _, epoch in tried} == set(range(7))
    assert {offset for offset, epoch in tried if epoch == 4} == {4, 5, 6}


LOG = Known(3, 6, {3: (3, 4), 5: (4, 6)}, 2)


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict", "least", "right"),
    [
        (3, 2, VALID, 0, True),
        (2, 2, VALID, 0, False),
        (6, 5, VALID, 0, True),
        (7, 5, VALID, 0, False),
        (6, 3, VALID, 0, False),
        (4, 3, Verdict(snapshot=(3, 2)), 3, False),
        (4, 3, Verdict(snapshot=(3, 2)), 4, True),
        (3, 2, Verdict(snapshot=(3, 2)), 0, True),
        (5, 4, Verdict(diverging=(4, 4)), 0, True),
        (5, 4, Verdict(diverging=(4, 5)), 0, False),
        (5, 4, Verdict(diverging=(5, 4)), 0, False),
        (6, 4, Verdict(diverging=(3, 4)), 0, True),
        (6, 4, Verdict(diverging=(3, 5)), 0, False),
    ],
)
def test_a_verdict_is_right_or_not(
    offset: int, epoch: int, verdict: Verdict, least: int, right: bool
) -> None:
    """The log goes from 3 to 6: one record of epoch 3, then two of epoch 5. Epoch 2 is below."""
    assert (invented_fetches._fault(LOG, offset, epoch, verdict, least) == "") is right
