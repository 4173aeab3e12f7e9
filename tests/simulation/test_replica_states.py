"""The rules about what a replica keeps in memory, each at its edge: D1, D3 and D5."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.log.layout import segment_name
from kraftwreck.nodes.replication.events import UNLIMITED, Settings
from kraftwreck.nodes.replication.flushing import NO_ROOM_US
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.producers import Kept
from kraftwreck.systems.kraft.simulated import record_watch, replica_states
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog, RecordLogs
from kraftwreck.systems.kraft.simulated.replica_states import (
    ReplicaStates,
    _agree,
    _on_platter,
    _producers,
)
from tests.simulation.replicas import KEY, Brokers, batch

pytestmark = pytest.mark.interpreted

NAME = ("topic", 0)


class States(Brokers):
    """Brokers whose memory :class:`ReplicaStates` judges."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch, record_watch, replica_states)
        self.logs = RecordLogs(self.world, self.failures)
        watch: Any = SimpleNamespace(watches=False, logs=self.logs)
        self.rules = ReplicaStates(self.world, self.failures, watch)
        self.points: dict[tuple[str, int], int] = {}
        self.known: dict[int, tuple[int, tuple[Kept, ...]]] = {}
        """The producers that broker 4 knows."""
        patch.setattr(replica_states, "read_offsets", lambda path, files: self.points)
        patch.setattr(replica_states, "DataDisk", SimpleNamespace)
        self.platter = 20
        self.host = self.hosts[4]
        self.disk = self.host.disk
        self.disk.name_of = lambda topic_id: "topic"
        self.disk.files = SimpleNamespace(
            exists=lambda path: True,
            inode=lambda path: SimpleNamespace(data=bytes(20)),
            names=lambda folder: [segment_name(0)],
            on_platter=lambda path: self.platter,
        )
        self.disk.logs.end_of = lambda key: 0

    def replica(self, *batches: Batch, durable: int = 0, **given: Any) -> Any:
        """Give broker 4 a replica of which it takes all up to ``durable`` for durable."""
        replica = self.has(4, *batches, **given)
        replica.durability = SimpleNamespace(end=durable, oldest=0)
        replica.log.producers = SimpleNamespace(state=lambda: self.known)
        return replica


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> States:
    return States(monkeypatch)


FIRST, SECOND, THIRD = batch(0, 4), batch(4, 6), batch(6, 10)


# --- durable records ----------------------------------------------------------------------


@pytest.mark.parametrize(("size", "end", "broken"), [
    (1, 5, []), (1, 6, ["D1"]), (2, 6, []), (2, 7, ["D1"]), (4, 8, []), (4, 9, ["D1"]),
])  # fmt: skip
def test_a_replica_vouches_for_less_than_flush_messages_above_what_is_durable(
    size: int, end: int, broken: list[str], states: States
) -> None:
    states.replica(THIRD, durable=5, settings=Settings(flush_messages=size))
    states.rules._judge_vouched(states.host, KEY, end, "fetches")
    assert states.broken == broken


@pytest.mark.parametrize(("now", "broken"), [(0, []), (1, ["D1"])])
def test_a_flush_comes_in_time(now: int, broken: list[str], states: States) -> None:
    """Within ``flush.ms``, the wait for room, and the time of a step."""
    replica = states.replica(FIRST, settings=Settings(flush_ms=200))
    states.rules._judge_flush(states.host, replica)
    states.world.now = STEPS_US + 200_000 + NO_ROOM_US + now
    states.rules._judge_flush(states.host, replica)
    assert states.broken == broken


@pytest.mark.parametrize(("platter", "there"), [(0, 0), (9, 0), (10, 4), (19, 4), (20, 6)])
def test_a_loss_of_power_leaves_the_batches_that_are_whole_on_the_platter(
    platter: int, there: int, states: States
) -> None:
    """Two batches of 10 bytes."""
    states.platter = platter
    assert _on_platter(states.disk, KEY, RecordLog(0, [FIRST, SECOND])) == there


def test_a_loss_of_power_leaves_nothing_of_a_log_without_files(states: States) -> None:
    states.disk.files.names = lambda folder: []
    assert _on_platter(states.disk, KEY, RecordLog(4, [SECOND])) == 4


@pytest.mark.parametrize(
    ("durable", "size", "broken"),
    [(4, 1, []), (5, 1, ["D1"]), (5, UNLIMITED, [])],
)
def test_what_a_replica_takes_for_durable_is_on_the_platter(
    durable: int, size: int, broken: list[str], states: States
) -> None:
    """With ``flush.messages``: without it nothing is promised."""
    states.platter = 10
    states.replica(FIRST, SECOND, durable=durable, settings=Settings(flush_messages=size))
    states.rules._on_emit(states.host)
    assert states.broken == broken


def test_no_record_needs_to_be_on_the_platter_for_a_durable_log_start(states: States) -> None:
    """The log begins inside of a batch that is not flushed."""
    states.platter = 0
    settings = Settings(flush_messages=1)
    states.replica(batch(0, 6), SECOND, start=4, hw=4, durable=4, settings=settings)
    states.rules._on_emit(states.host)
    assert not states.broken


@pytest.mark.parametrize(
    ("point", "start", "broken"), [(4, 0, []), (5, 0, ["D1"]), (5, 5, []), (6, 5, ["D1"])]
)
def test_all_below_a_stored_recovery_point_is_on_the_platter(
    point: int, start: int, broken: list[str], states: States
) -> None:
    """Only the first batch is. A point at the log start says nothing."""
    states.platter, states.points = 10, {NAME: point}
    states.replica(FIRST, SECOND, start=start)
    states.rules._on_work(states.host)
    assert states.broken == broken


@pytest.mark.parametrize(("end", "broken"), [(-1, []), (0, ["D1"])])
def test_a_recovery_point_of_a_log_that_is_not_there_is_not_judged(
    end: int, broken: list[str], states: States
) -> None:
    states.platter, states.points = 0, {NAME: 4}
    states.disk.logs.end_of = lambda key: end
    states.replica(FIRST)
    states.rules._on_work(states.host)
    assert states.broken == broken


@pytest.mark.parametrize(("point", "broken"), [(6, []), (7, ["D1"])])
def test_no_stored_recovery_point_is_above_a_cut(
    point: int, broken: list[str], states: States
) -> None:
    states.points = {NAME: point}
    states.rules._judge_point(states.host, KEY, RecordLog(0, [FIRST, SECOND]))
    assert states.broken == broken


# --- high watermarks ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hw", "cut", "broken"),
    [(5, None, []), (4, None, ["D5"]), (4, 4, []), (3, 4, ["D5"]), (5, 6, []), (4, 6, ["D5"])],
)
def test_a_high_watermark_goes_back_as_far_as_a_cut(
    hw: int, cut: int | None, broken: list[str], states: States
) -> None:
    """It was 5."""
    replica = states.replica(THIRD, hw=hw)
    states.rules._judge_watermark(states.host, replica, 5, cut)
    assert states.broken == broken


# --- producers ----------------------------------------------------------------------------


def own(base: int, end: int, sequence: int, producer: int = 7, epoch: int = 0) -> Batch:
    return batch(base, end, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def kept(*batches: Batch) -> tuple[Kept, ...]:
    return tuple(
        Kept(each.base_sequence, each.last_sequence, each.base_offset, each.last_offset)
        for each in batches
    )


LOG = own(0, 4, 0), own(4, 6, 4), own(6, 10, 6)


def judge_producers(states: States, log: RecordLog, since: int | None) -> list[str]:
    view: Any = SimpleNamespace(producers=SimpleNamespace(state=lambda: states.known))
    states.rules._judge_producers(states.host, view, log, KEY, since)
    return states.broken


@pytest.mark.parametrize(("since", "broken"), [(10, []), (6, ["D3"]), (None, ["D3"])])
def test_producers_are_judged_when_the_log_has_grown(
    since: int | None, broken: list[str], states: States
) -> None:
    assert judge_producers(states, RecordLog(0, list(LOG)), since) == broken


@pytest.mark.parametrize(
    ("opened", "known", "broken"),
    [
        (0, LOG, []),
        (0, LOG[1:], ["D3"]),
        (4, LOG[1:], []),
        (4, LOG[2:], ["D3"]),
        (5, LOG[2:], []),
        (10, LOG[2:], []),
        (10, (), ["D3"]),
        (10, LOG[1:2], ["D3"]),
    ],
)
def test_the_batches_since_the_log_was_opened_are_known(
    opened: int, known: tuple[Batch, ...], broken: list[str], states: States
) -> None:
    """A snapshot of producers has the last batch of each, wherever it is."""
    states.rules._opened[states.host.id, KEY] = opened
    states.known = {7: (0, kept(*known))}
    assert judge_producers(states, RecordLog(0, list(LOG)), None) == broken


@pytest.mark.parametrize(("last", "broken"), [(3, []), (4, ["D3"])])
def test_a_batch_that_the_log_does_not_have_was_deleted(
    last: int, broken: list[str], states: States
) -> None:
    """The log begins at 4."""
    gone = own(last, last + 1, 0, producer=8)
    states.known = {7: (0, kept(*LOG[1:])), 8: (0, kept(gone))}
    assert judge_producers(states, RecordLog(4, list(LOG[1:])), None) == broken


@pytest.mark.parametrize(
    ("place", "start", "count", "broken"),
    [(24, 0, 40, ["D3"]), (25, 0, 40, []), (24, 0, 24, ["D3"]), (24, 1, 24, [])],
)
def test_the_last_24_batches_are_judged_when_a_log_has_grown(
    place: int, start: int, count: int, broken: list[str], states: States
) -> None:
    """The producer of the batch at a ``place`` from the end is not known."""
    log = [batch(2 * number, 2 * number + 2) for number in range(count)]
    base = log[-place].base_offset
    log[-place] = own(base, base + 2, 0)
    assert judge_producers(states, RecordLog(start, log), log[-1].base_offset) == broken


@pytest.mark.parametrize(("epoch", "broken"), [(2, []), (3, []), (1, ["D3"]), (None, ["D3"])])
def test_a_replica_that_deletes_records_knows_their_producers(
    epoch: int | None, broken: list[str], states: States
) -> None:
    states.rules._known[states.host.id, KEY] = {7: 2}
    states.known = {} if epoch is None else {7: (epoch, ())}
    view: Any = SimpleNamespace(start=4, producers=SimpleNamespace(state=lambda: states.known))
    states.rules._judge_forgotten(states.host, view, KEY)
    assert states.broken == broken


@pytest.mark.parametrize(
    ("since", "known"), [(None, LOG), (0, LOG), (4, LOG[1:]), (5, LOG[2:]), (10, ())]
)
def test_the_batches_of_a_producer_are_counted_from_an_offset_on(
    since: int | None, known: tuple[Batch, ...]
) -> None:
    found = _producers(RecordLog(0, list(LOG)), since)
    assert found == ({7: (0, kept(*known))} if known else {})


def test_five_batches_of_a_producer_are_kept_of_its_last_epoch() -> None:
    log = [own(number, number + 1, number) for number in range(7)]
    assert _producers(RecordLog(0, log), None) == {7: (0, kept(*log[2:]))}
    newer = [own(7, 8, 0, epoch=1)]
    assert _producers(RecordLog(0, log + newer), None) == {7: (1, kept(*newer))}


def test_lists_of_batches_agree_as_far_back_as_both_go() -> None:
    assert _agree(kept(*LOG), kept(*LOG[1:]))
    assert _agree(kept(*LOG[2:]), kept(*LOG))
    assert not _agree(kept(*LOG[:2]), kept(*LOG))
    assert not _agree((), kept(*LOG))
