"""Cuts a copy of a log, lets it grow again, and looks offsets and times up in it (D2, D3, D13).

A cut must also reach what a log remembers of its last batches: entries of its indexes, its largest
timestamp, where a reader has stopped. Most cuts in a run remove a batch or two, which nothing
remembers. Since a copy suffers no harm, a cut of half a log is invented once in a run: after a stop
in good order, a start and some look-ups. Then other batches are appended at the same offsets, and
cut as well, at last all but the first one. Another copy gets a batch whose sequence numbers begin
again after the last one, and must know its producer after a start. More copies get the questions
of :mod:`files_rehearsal`, and a start removes another log beside one of them (F10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from kraftwreck.nodes.log.batch import BatchError, encode_batch, parse_header
from kraftwreck.nodes.log.files import LogCorruptError
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.headers import Batch, PartitionKey, batch_of
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.sequence_numbers import following, last_of
from kraftwreck.systems.kraft.simulated.crash_points import Copies, tidied
from kraftwreck.systems.kraft.simulated.files_rehearsal import (
    begun_again,
    cut_in_a_flush,
    lost_snapshots,
    shaped,
    unflushed,
    without_room,
)
from kraftwreck.systems.kraft.simulated.lookup_rehearsal import faults
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    RecordLogs,
    disk_of_records,
    name_of,
)
from kraftwreck.systems.kraft.workloads.record_batches import batch_of as numbered

Question = Callable[[Filesystem, str, PartitionKey, LogSettings], Iterator[tuple[str, str]]]
LEAST: Final = 12
"""Batches of the log whose copy is cut."""
_QUESTIONS: Final[tuple[Question, ...]] = (
    shaped, begun_again, lost_snapshots, unflushed, without_room, cut_in_a_flush,
)  # fmt: skip
_ERRORS: Final = (BatchError, LogCorruptError, OSError, ValueError, KeyError)
"""Errors of logs whose files or memory are not as they must be."""
_VALUES: Final = (1, 2, 3)
_PADDING: Final = bytes(40)
"""The new batches are larger than those of clients, so they are at other places of the file."""


class CutRehearsal:
    """Rehearses a cut of the first log in ``world`` that has enough batches."""

    def __init__(self, world: World, failures: Failures, logs: RecordLogs) -> None:
        self._world = world
        self._failures = failures
        self._logs = logs
        self._waits = True
        logs.on_append.append(self._appended)

    def _appended(self, host: Host, key: PartitionKey, batch: Batch) -> None:
        if not self._waits:
            return
        disk, log = disk_of_records(host), self._logs.of(host.id, key)
        if log is None or len(log.batches) < LEAST or disk.trouble is not None:
            return
        if key in disk.logs.full or disk.logs.end_of(key) != log.end:
            return
        self._waits = False
        name = disk.name_of(key[0])
        copies = Copies(disk.files, name, key)
        files = copies.copy()
        args = name, key, disk.settings
        found = chain(rehearse(files, *args), remembered(copies.copy(), *args))
        for question in _QUESTIONS:
            found = chain(found, answers(question, copies.copy(), *args))
        found = chain(found, (("F10", f"{name_of(key)}: {wrong}") for wrong in tidied(copies)))
        self._world.afterwards(partial(self._judge, host.name, found))

    def _judge(self, who: str, found: Iterator[tuple[str, str]]) -> None:
        try:
            for rule, wrong in found:
                self._failures.add(rule, self._world.now, f"{who} {wrong}")
                return
        except Exception as error:
            raise WorldError(f"the rehearsal of a cut failed: {error!r}") from error


def answers(
    question: Question, files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield the answers to a question of :mod:`files_rehearsal`; an error breaks D2."""
    try:
        yield from (
            (rule, f"has a log of {name_of(key)} that {wrong}")
            for rule, wrong in question(files, name, key, settings)
        )
    except _ERRORS as error:
        yield "D2", f"cannot use a copy of {name_of(key)}: {error!r}"


def remembered(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield what a start would not know of a producer whose sequence numbers begin again (D3)."""
    try:
        logs = _opened(files, name, key, settings, orderly=False)
        _, batches = logs.content(key)
        last, producer = batches[-1], 1 + max(batch.producer_id for batch in batches)
        content = numbered(_VALUES, (producer, 0, following(0, -1)))
        new = batch_of(parse_header(content), content).placed(last.next_offset, last.leader_epoch)
        logs.carry_out(data.Append(key, new))
        logs.close()
        files.process_ended()
        logs = PartitionFiles(ROOT, lambda _: name, settings, files, orderly=True)
        opened = next(e for e in logs.carry_out(data.OpenLog(key)) if isinstance(e, LogOpened))
    except _ERRORS as error:
        yield "D3", f"cannot use a log in which sequence numbers begin again: {error!r}"
        return
    known = [
        (each.base_offset, each.base_sequence, last_of(each))
        for each in opened.producers
        if each.producer_id == producer
    ]
    if known != [(new.base_offset, new.base_sequence, last_of(new))]:
        yield (
            "D3",
            f"would know (offset, first and last sequence number) {known} of a producer after a"
            f" start, not {(new.base_offset, new.base_sequence, last_of(new))}",
        )


def rehearse(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings
) -> Iterator[tuple[str, str]]:
    """Yield the rules that are broken in a copy of a log, and how. ``name`` is its topic."""
    stage = "would stop in good order"
    try:
        _opened(files, name, key, settings, orderly=False).close()
        files.process_ended()
        logs = _opened(files, name, key, settings, orderly=True)
        start, batches = logs.content(key)
        log = RecordLog(start, batches)
        stage = "after a stop in good order"
        for rule, wrong in faults(logs, key, log):
            yield rule, f"{wrong}, {stage}"
        half = log.batches[len(log.batches) // 2].base_offset
        stage = f"after a cut at {half} and other records"
        logs.carry_out(data.Truncate(key, half))
        for new in _others(log, log.cut(half)):
            logs.carry_out(data.Append(key, new))
            log.batches.append(new.bare())
        for rule, wrong in faults(logs, key, log):
            yield rule, f"{wrong}, {stage}"
        for again in (half, log.batches[1].base_offset):
            stage = f"after another cut at {again}"
            logs.carry_out(data.Truncate(key, again))
            log.cut(again)
            for rule, wrong in faults(logs, key, log):
                yield rule, f"{wrong}, {stage}"
    except _ERRORS as error:
        yield "D2", f"cannot use a log {stage}: {error!r}"


def _opened(
    files: Filesystem, name: str, key: PartitionKey, settings: LogSettings, *, orderly: bool
) -> PartitionFiles:
    logs = PartitionFiles(ROOT, lambda _: name, settings, files, orderly=orderly)
    logs.carry_out(data.OpenLog(key))
    return logs


def _others(log: RecordLog, removed: list[Batch]) -> Iterator[Batch]:
    """Yield batches at the offsets of those ``removed``, of the same epochs. Their times begin with
    the latest one of the log, and ascend."""
    latest = max(batch.max_timestamp for batch in (*log.batches, *removed))
    for number, batch in enumerate(removed):
        records: list[tuple[bytes | None, bytes | None]] = [(None, _PADDING)] * batch.count
        content = encode_batch(
            batch.base_offset, batch.leader_epoch, latest + number, records, control=False
        )
        yield batch_of(parse_header(content), content)
