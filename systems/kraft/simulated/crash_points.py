"""Rehearses deaths inside of the operations that remove records (F10).

A cut, a deletion, a new beginning of a log, and the removal of a replica change several files. A
process may die after any of these changes, and the power of its host may fail then. Faults come too
seldom to meet each of these points. So some of the operations are carried out on a copy of the
files, up to each change in turn, and the copy is opened as a start would open it. The files are
copied before the operation; the rehearsal waits until the event of the run is over. So an error of
the rehearsal can never be taken for one of the node.

Operations on several segments are rare. Since a copy suffers no harm, each kind is also invented
once for a log that has become long enough, with a drawn offset. So is the start of a broker that
finds this log and has its replica no longer: it removes the logs of other brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.log.files import LogCorruptError
from kraftwreck.nodes.log.layout import segment_offsets
from kraftwreck.nodes.log.media import TEMPORARY_SUFFIX
from kraftwreck.nodes.log.partition.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kraftwreck.nodes.log.partition.names import DELETED
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened, SegmentClosed
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.server.disk_worker import Elsewhere, at_once
from kraftwreck.nodes.server.log_directory import LogDirectory
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Crash, Filesystem
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.record_logs import name_of

T = TypeVar("T")

KINDS: Final = (data.Truncate, data.StartAt, data.DeleteUpTo, data.RemoveLog)
"""The operations that are rehearsed."""

SEVERAL: Final = 4
"""Segments of a log for which operations are invented."""

EACH: Final = 2
"""How many operations of each kind a run rehearses."""

MOST_CHANGES: Final = 60
"""More changes of files than any of these operations makes."""

_CHECKPOINTS: Final = (HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS)
_REFUSALS: Final = (LogCorruptError, OSError, ValueError, KeyError)
"""Errors of logs whose files are not as they must be."""

_NEW_TOPIC: Final = bytes(15) + b"\x01"


class Content(NamedTuple):
    """A log as a start finds it. All below ``durable`` is on the platter."""

    start: int
    end: int
    durable: int
    batches: tuple[Batch, ...]


class Tidy(NamedTuple):
    """A broker that starts and has no replica of ``key`` removes the log that it finds."""

    key: PartitionKey


class RefusedError(Exception):
    """The code of the nodes refuses a log. Any other error is the rehearsal's own."""


@contextmanager
def _code_of_nodes() -> Iterator[None]:
    try:
        yield
    except _REFUSALS as error:
        raise RefusedError(repr(error) if isinstance(error, KeyError) else str(error)) from error


class Copies:
    """Copies of the files of one partition; ``name`` is the name of its topic."""

    def __init__(self, files: Filesystem, name: str, key: PartitionKey) -> None:
        self._folder = ROOT / f"{name}-{key[1]}"
        # A checkpoint is renamed from its temporary file, perhaps not durably yet.
        checkpoints = (*_CHECKPOINTS, *(f"{each}{TEMPORARY_SUFFIX}" for each in _CHECKPOINTS))
        self._folders: dict[Path, tuple[str, ...] | None] = {ROOT: checkpoints, self._folder: None}
        self._form = files.copy_of(self._folders)
        self._name = name
        self.key = key

    def copy(self) -> Filesystem:
        """Return the files as they were."""
        return self._form.copy_of(self._folders)

    def open(
        self,
        files: Filesystem,
        key: PartitionKey | None = None,
        *,
        orderly: bool = False,
        elsewhere: Elsewhere = at_once,
    ) -> PartitionFiles:
        """Open the log of ``key`` (None: the partition's own), as after a crash by default.

        Raises RefusedError.
        """
        logs = self.start(files, orderly=orderly, elsewhere=elsewhere)
        with _code_of_nodes():
            events = logs.carry_out(data.OpenLog(key or self.key))
        assert isinstance(events[0], LogOpened)
        return logs

    def start(
        self, files: Filesystem, *, orderly: bool = False, elsewhere: Elsewhere = at_once
    ) -> PartitionFiles:
        """Return the files of a process that has opened no log. Raises RefusedError."""
        name, settings = self._name, LogSettings()
        with _code_of_nodes():
            return PartitionFiles(
                ROOT, lambda _: name, settings, files, orderly=orderly, elsewhere=elsewhere
            )

    def has(self, files: Filesystem, key: PartitionKey) -> bool:
        """Whether there is a log of ``key``."""
        return LogDirectory(ROOT, files).has(key[0], (self._name, key[1]))

    def deleted(self, files: Filesystem) -> list[str]:
        """Return the files that are renamed for deletion."""
        return sorted(each for each in files.names(self._folder) if each.endswith(DELETED))

    def content(
        self, files: Filesystem, key: PartitionKey | None = None, *, orderly: bool = False
    ) -> Content:
        """Return what a start finds. Raises RefusedError."""
        logs = self.open(files, key, orderly=orderly)
        with _code_of_nodes():
            return _state(logs, key or self.key)[0]


class CrashPoints:
    """Rehearses the first operations of each kind; cuts of logs with more than one segment only."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = dict.fromkeys(KINDS, EACH)
        self._names: dict[bytes, str] = {}
        """The names of topics whose logs were opened: a deleted one has none any longer."""
        self._invents = True
        world.on_write.append(self._on_write)
        world.on_caused.append(self._on_caused)

    @rule(
        "F10",
        "AnyCrashPoint",
        "A process may die after any change of files in a cut, a deletion, a new beginning or the "
        "removal of a log, also with the power of its host. A start then finds a part of the log "
        "without a gap, and what the operation was to keep. Once it has ended it is durable, and "
        "no file stays that was renamed for deletion. A start removes the logs of which its broker "
        "has no replica, and no others. A death inside of a stop takes no record and no producer, "
        "and after a stop in good order no loss of power takes anything.",
        simulated=True,
    )
    def _on_write(self, host: Host, effect: Any) -> None:
        kind, disk = type(effect), host.disk
        if kind is data.OpenLog and isinstance(disk, DataDisk):
            self._names[effect.key[0]] = disk.name_of(effect.key[0])
        if self._left.get(kind, 0) == 0 or not isinstance(disk, DataDisk):
            return
        key = effect.key
        name = self._names.get(key[0])
        if name is None or _is_unclear(disk, key):
            return  # The log was left by an earlier process, and is not open.
        segments = segment_offsets(disk.files.names(ROOT / f"{name}-{key[1]}"))
        if len(segments) < 2 and kind is data.Truncate:
            return
        self._left[kind] -= 1
        copies = Copies(disk.files, name, key)
        self._rehearse(host, copies, effect, draw(self._world.now, "rehearsal", host.id))

    def _on_caused(self, host: Host, event: Any) -> None:
        """Invent operations on the first log that has enough full segments."""
        if not self._invents or type(event) is not SegmentClosed:
            return
        disk, key = host.disk, event.key
        name = self._names.get(key[0])
        if not isinstance(disk, DataDisk) or name is None or _is_unclear(disk, key):
            return
        bases = segment_offsets(disk.files.names(ROOT / f"{name}-{key[1]}"))
        if len(bases) < SEVERAL:
            return
        self._invents = False
        chosen = draw(self._world.now, "invented", host.id)
        early = bases[1] - chosen % 2
        copies = Copies(disk.files, name, key)
        for effect in (
            data.Truncate(key, early),
            data.DeleteUpTo(key, bases[-1] - chosen % 2),
            data.StartAt(key, event.end_offset + chosen % 3),
            data.RemoveLog(key),
            Tidy(key),
        ):
            self._rehearse(host, copies, effect, draw(self._world.now, "rehearsal", host.id))
        what = f"{host.name}: {name_of(key)}"
        self._world.afterwards(partial(self._judge, what, stopped(copies, chosen), None))
        self._world.afterwards(partial(self._judge, what, deaths_in_stop(copies, chosen), None))

    def _rehearse(self, host: Host, copies: Copies, effect: Any, seed: int) -> None:
        what = f"{host.name}: {type(effect).__name__} of {name_of(copies.key)}"
        self._world.afterwards(partial(self._judge, what, found(copies, effect, seed), 1))

    def _judge(self, what: str, wrong: Iterable[str], most: int | None) -> None:
        """Carry the rehearsal out; report the first ``most`` faults (None: all)."""
        try:
            for each in islice(wrong, most):
                self._failures.add("F10", self._world.now, f"{what}, {each}")
        except Exception as error:
            raise WorldError(f"the rehearsal failed of {what}: {error!r}") from error


def _is_unclear(disk: DataDisk, key: PartitionKey) -> bool:
    """Whether the files are not those of an open log, or a fault keeps them from changing."""
    return (
        disk.trouble is not None
        or key in disk.logs.full
        or disk.logs.end_of(key) < 0
        or any(
            isinstance(piece.cause, data.OpenLog | data.RemoveLog) and piece.cause.key == key
            for piece in disk.pieces
        )
    )


def found(copies: Copies, effect: Any, seed: int) -> Iterator[str]:
    """Yield what is wrong after each point at which the process may die in ``effect``."""
    removes = isinstance(effect, data.RemoveLog | Tidy)
    try:
        before = after = copies.content(copies.copy())
        if not removes:
            files = copies.copy()
            logs = copies.open(files)
            with _code_of_nodes():
                logs.carry_out(effect)
            left = copies.deleted(files)
            if left:
                yield f"it leaves {', '.join(left)}"
            after = copies.content(files)
    except RefusedError as error:
        yield f"after a start it is impossible: {error}"
        return
    if not removes:
        yield from _outcome(effect, before, after)
    for changes in range(MOST_CHANGES):
        files = copies.copy()
        logs = copies.start(files) if isinstance(effect, Tidy) else copies.open(files)
        files.crash_after(changes, draw(seed, changes, "torn"))
        died = True
        try:
            with _code_of_nodes():
                if isinstance(effect, Tidy):
                    logs.keep(frozenset())
                else:
                    logs.carry_out(effect)
            died = False
        except (Crash, RefusedError):
            pass
        files.process_ended()
        alone = files.copy_of(dict.fromkeys(files.directories))
        alone_lost = alone.copy_of(dict.fromkeys(alone.directories))
        alone_lost.lose_power(draw(seed, changes, "power"))
        for survivor, power in ((alone, False), (alone_lost, True)):
            where = f"after {changes} changes of files" if died else "at its end"
            where += " and a loss of power" if power else ""
            try:
                wrong = _judge(copies, survivor, effect, before, after, died=died, power=power)
            except RefusedError as error:
                wrong = f"a start refuses: {error}"
            if wrong:
                yield f"{where}: {wrong}"
        if not died:
            return


class _Elsewhere:
    """Does work beside the process at once, and none while it ``waits``."""

    def __init__(self) -> None:
        self.waits = False

    def __call__(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        if not self.waits:
            done(work())


def stopped(copies: Copies, seed: int) -> Iterator[str]:
    """Yield what is wrong after a stop in good order and a loss of power.

    The log may still have to be removed, or be that of another broker: work beside the process that
    has not begun is not done.
    """
    for removes in (None, data.RemoveLog, Tidy):
        files, elsewhere = copies.copy(), _Elsewhere()
        try:
            with _code_of_nodes():
                start, batches = copies.open(copies.copy()).content(copies.key)
            if removes is Tidy:
                logs = copies.start(files, elsewhere=elsewhere)
            else:
                logs = copies.open(files, elsewhere=elsewhere)
            elsewhere.waits = True
            with _code_of_nodes():
                if removes is Tidy:
                    logs.keep(frozenset())
                elif removes is not None:
                    logs.carry_out(data.RemoveLog(copies.key))
                orderly = logs.close()
        except RefusedError as error:
            yield f"a stop in good order is impossible: {error}"
            return
        files.process_ended()
        files.lose_power(seed)
        if not orderly:
            continue  # The next start trusts nothing.
        try:
            now = copies.content(files, orderly=True)
        except RefusedError as error:
            yield f"a start refuses what a stop in good order and a loss of power left: {error}"
            continue
        if (now.start, list(now.batches)) != (start, batches):
            when = "" if removes is None else " before the removal of the log"
            left = f"{now.start} to {now.end}"
            yield f"a stop in good order{when} and a loss of power leave {left}"


def tidied(copies: Copies) -> Iterator[str]:
    """Yield what is wrong after the start of a broker that has the replica, and finds another log
    of which it has none."""
    files, other = copies.copy(), (copies.key[0], copies.key[1] + 1)
    try:
        before = copies.content(copies.copy())
        copies.open(files, other)
        files.process_ended()
        logs = copies.open(files)
        with _code_of_nodes():
            logs.keep({copies.key})
            orderly = logs.close()
        files.process_ended()
        after = copies.content(files)
    except RefusedError as error:
        yield f"the start of a broker that finds another log is impossible: {error}"
        return
    if after[:2] != before[:2] or after.batches != before.batches:
        yield (
            f"a start that removes other logs leaves a log from {after.start} to {after.end}, not"
            f" from {before.start} to {before.end}"
        )
    if copies.has(files, other):
        yield "a broker keeps a log of which it has no replica"
    if not orderly:
        yield "a stop is not in good order although other logs were removed"


def deaths_in_stop(copies: Copies, seed: int) -> Iterator[str]:
    """Yield what is wrong after a death inside of a stop.

    The log is as it was, or without records and opened after an earlier stop: then the only
    snapshot of producers is at its end.
    """
    for emptied in (False, True):
        try:
            wrong = next(_deaths_in_stop(copies, seed, emptied=emptied), None)
        except RefusedError as error:
            wrong = f"is impossible: {error}"
        if wrong:
            yield f"a stop{' after the deletion of all records' if emptied else ''} {wrong}"


def _deaths_in_stop(copies: Copies, seed: int, *, emptied: bool) -> Iterator[str]:
    key = copies.key
    for changes in range(MOST_CHANGES):
        for power in (False, True):
            files = copies.copy()
            logs = _emptied(copies, files) if emptied else copies.open(files)
            with _code_of_nodes():
                before, producers = _state(logs, key)
            files.crash_after(changes, draw(seed, changes, "torn"))
            died, orderly = True, False
            try:
                with _code_of_nodes():
                    orderly = logs.close()
                died = False
            except Crash:
                pass
            files.process_ended()
            if power:
                files.lose_power(draw(seed, changes, "power"))
            with _code_of_nodes():
                now, known = _state(copies.open(files, orderly=orderly), key)
            wrong = _after_stop(before, now, power=power and died)
            if not wrong and known != producers and not (power and died):
                wrong = f"leaves the producers {known}, not {producers}"
            if wrong:
                where = f"after {changes} changes of files" if died else "at its end"
                yield f"{where}{' and a loss of power' if power else ''} {wrong}"
        if not died:
            return


def _emptied(copies: Copies, files: Filesystem) -> PartitionFiles:
    """Delete all records, stop and open the log again."""
    logs, key = copies.open(files), copies.key
    with _code_of_nodes():
        logs.carry_out(data.DeleteUpTo(key, logs.end_of(key)))
        logs.close()
    files.process_ended()
    return copies.open(files)


def _state(logs: PartitionFiles, key: PartitionKey) -> tuple[Content, dict[int, tuple[int, int]]]:
    """Return the log, and the epoch and last offset of each of its producers."""
    start, batches = logs.content(key)
    opened = logs.carry_out(data.OpenLog(key))[0]
    assert isinstance(opened, LogOpened)
    producers = {
        batch.producer_id: (batch.producer_epoch, batch.last_offset) for batch in opened.producers
    }
    return Content(start, opened.end_offset, opened.durable_end, tuple(batches)), producers


def _after_stop(before: Content, now: Content, *, power: bool) -> str:
    """Return what is wrong with the log after a stop; without power it may lack a part."""
    least = before.durable if power else before.end
    kept = tuple(batch for batch in before.batches if batch.next_offset <= now.end)
    if now.start != before.start or now.batches != kept or now.end < least:
        return f"leaves a log from {now.start} to {now.end}, not from {before.start} to {least}"
    return ""


def _outcome(effect: Any, before: Content, after: Content) -> Iterator[str]:
    """Yield what is wrong after the operation, which nothing has interrupted."""
    start, end = before.start, before.end
    if isinstance(effect, data.StartAt):
        start = end = effect.offset
    elif isinstance(effect, data.DeleteUpTo):
        start = max(start, effect.start_offset)
    else:
        whole = (each.next_offset for each in before.batches)
        end = max((each for each in whole if each <= effect.end_offset), default=start)
    if (after.start, after.end) != (start, max(start, end)):
        yield f"it leaves a log from {after.start} to {after.end}, not from {start} to {end}"


def _judge(
    copies: Copies,
    files: Filesystem,
    effect: Any,
    before: Content,
    after: Content,
    *,
    died: bool,
    power: bool,
) -> str:
    if isinstance(effect, data.RemoveLog | Tidy):
        same = copies.content(files.copy_of(dict.fromkeys(files.directories)))
        there = tuple(each for each in same.batches if each.next_offset > before.start)
        whole = tuple(each for each in before.batches if each.next_offset <= same.end)
        if same.end and (same.start > before.start or there != whole):
            return f"a log from {same.start} to {same.end} is left, with a part of its batches"
        new = copies.content(files, (_NEW_TOPIC, copies.key[1]))
        if (new.start, new.end) != (0, 0):
            return f"a new topic of the same name has a log from {new.start} to {new.end}"
        return ""
    now = copies.content(files)
    first, last = sorted((before.start, after.start))
    if not first <= now.start <= max(last, now.end if isinstance(effect, data.StartAt) else 0):
        return f"the log begins at {now.start}, not at {before.start} or {after.start}"
    kept = tuple(each for each in before.batches if now.start < each.next_offset <= now.end)
    # Deleted records stay in the files until their segment is removed. A log that begins again at
    # an earlier offset may contain them for so long.
    if tuple(each for each in now.batches if each.next_offset > before.start) != kept:
        return f"the log from {now.start} to {now.end} has not the batches that it had"
    least = min(after.end, before.durable if power else after.end)
    restarts = isinstance(effect, data.StartAt)
    if not restarts and not max(least, now.start) <= now.end <= max(before.end, after.end):
        return f"the log ends at {now.end}, which was to keep all below {least}"
    if not died and (now.start != after.start or now.end > after.end):
        return f"the log is from {now.start} to {now.end}, not from {after.start} to {after.end}"
    return ""
