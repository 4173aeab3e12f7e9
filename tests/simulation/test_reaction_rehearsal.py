"""D16, D17: leaders refuse batches that they must refuse, and act on new configs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import NONE, OFFSET_OUT_OF_RANGE
from kraftwreck.nodes.replication.events import Settings
from kraftwreck.nodes.replication.partition import Appended, Partition
from kraftwreck.systems.kraft.simulated.reaction_rehearsal import wrong_reactions
from tests.replication.world import KEY
from tests.simulation.test_fetch_rehearsal import leader

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


def appends_all(patch: Patch) -> None:
    def planted(self: Partition, batch: Any, acks: int) -> Appended:
        assert self.log is not None
        placed = batch.placed(self.log.end, self.assignment.leader_epoch)
        self._take(self.log, placed)
        return Appended(NONE, placed.base_offset, placed.next_offset)

    patch.setattr(Partition, "append", planted)


def appends_what_it_refuses(patch: Patch) -> None:
    append = Partition.append

    def planted(self: Partition, batch: Any, acks: int) -> Appended:
        done = append(self, batch, acks)
        if done.error != NONE and self.log is not None:
            self._take(self.log, batch.placed(self.log.end, self.assignment.leader_epoch))
        return done

    patch.setattr(Partition, "append", planted)


def refuses_to_delete_again(patch: Patch) -> None:
    patch.setattr(Partition, "delete_records", lambda self, offset: (OFFSET_OUT_OF_RANGE, -1))


def flushes_with_the_next_batch(patch: Patch) -> None:
    def planted(self: Partition, settings: Settings) -> None:
        self.settings = settings

    patch.setattr(Partition, "configured", planted)


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, []),
        (appends_all, ["D16"] * 4),
        (appends_what_it_refuses, ["D16"] * 4),
        (refuses_to_delete_again, ["D16"]),
        (flushes_with_the_next_batch, ["D17"] * 2),
    ],
)
def test_a_leader_reacts_rightly(
    plant: Callable[[Patch], None], broken: list[str], monkeypatch: Patch
) -> None:
    one = leader()
    plant(monkeypatch)
    assert [rule for rule, _ in wrong_reactions(one)] == broken


def test_the_leader_itself_stays_as_it_is() -> None:
    one = leader()
    assert one.log is not None
    shared, before = one.with_, (one.log.end, one.log.start, one.hw, one.settings, one.in_sync.isr)
    flush = one.durability.asked, one.durability.number, one.durability.oldest
    assert list(wrong_reactions(one)) == []
    assert (one.log.end, one.log.start, one.hw, one.settings, one.in_sync.isr) == before
    assert (one.durability.asked, one.durability.number, one.durability.oldest) == flush
    assert (shared.effects, shared.changed, shared.proposed) == ([], set(), set())


def test_a_leader_that_flushes_or_has_flushed_is_not_asked_to(monkeypatch: Patch) -> None:
    one = leader()
    flushes_with_the_next_batch(monkeypatch)
    assert one.log is not None and one.key == KEY
    one.durability.asked = 0
    assert list(wrong_reactions(one)) == []
    one.durability.asked, one.durability.rests_until = None, one.with_.now + 1
    assert list(wrong_reactions(one)) == []
    one.durability.rests_until, one.durability.end = 0, one.log.end
    assert list(wrong_reactions(one)) == []
