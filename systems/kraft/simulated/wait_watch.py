"""Watches requests that wait at leaders (L13): each is answered by the first step that allows it.

A step that makes progress wakes the requests that wait for it. One that is forgotten is answered
later, by luck or by its time-out, and clients see a slow cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    DeleteRecordsReceived,
    FetchPart,
    FetchReceived,
    ProduceReceived,
)
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.partition import CONSUMER, Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLogs,
    disk_of_records,
    name_of,
    replicas_on,
)
from kraftwreck.systems.kraft.simulated.replica_positions import Position, ReplicaPositions
from kraftwreck.systems.kraft.simulated.requests_of_step import requests_of_step

ALL: Final = -1
"""acks=all."""
STEPS: Final = 2
"""A deletion that could be answered after a step is answered by that step or the next one."""


@dataclass(slots=True)
class _Deletion:
    """An open request to delete the records of one partition below ``offset``, and after how many
    steps in a row it could have been answered."""

    key: PartitionKey
    offset: int
    steps: int = 0


@dataclass(slots=True)
class _Process:
    """A broker process: after how many steps it handled each open request. ``epochs`` are the
    leader epochs in which it handled each open produce of one batch. ``had`` are the open requests
    of which it had all partitions."""

    life: int
    handled: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    had: set[int] = field(default_factory=set)
    deletions: dict[int, _Deletion] = field(default_factory=dict)


class WaitWatch:
    """Judges the brokers of ``world``; ``logs`` are the logs on their disks, ``positions`` their
    replicas before each step."""

    def __init__(
        self, world: World, failures: Failures, logs: RecordLogs, positions: ReplicaPositions
    ) -> None:
        self._world = world
        self._failures = failures
        self._logs = logs
        self._positions = positions
        self._processes: dict[int, _Process] = {}
        world.on_step.append(self._on_step)
        world.on_emit.append(self._on_emit)
        record_traffic(world).on_answer.append(self._answered)

    def _of(self, host: Host) -> _Process:
        known = self._processes.get(host.id)
        if known is None or known.life != host.life:
            known = self._processes[host.id] = _Process(host.life)
        return known

    def _on_step(self, host: Host, event: Any) -> None:
        for request in requests_of_step(event):
            if isinstance(request, DeleteRecordsReceived):
                self._note_deletion(host, request)
            if not isinstance(request, FetchReceived | ProduceReceived):
                continue
            process, replicas = self._of(host), replicas_on(host)
            process.handled[request.token] = self._positions.steps(host)
            if all(key in replicas for key in _keys_of(request)):
                process.had.add(request.token)
            if isinstance(request, ProduceReceived) and len(request.batches) == 1:
                led = replicas.get(request.batches[0][0])
                if led is not None and led.leading and led.log is not None:
                    process.epochs[request.token] = led.assignment.leader_epoch

    def _answered(self, host: Host, message: RecordMessage, effect: Any, body: Any) -> None:
        event = message.call.event if message.call is not None else None
        if isinstance(event, DeleteRecordsReceived):
            self._of(host).deletions.pop(event.token, None)
        if not isinstance(event, FetchReceived | ProduceReceived):
            return
        process, steps = self._of(host), self._positions.steps(host)
        handled = process.handled.pop(event.token, steps)
        epoch = process.epochs.pop(event.token, -1)
        had = event.token in process.had
        process.had.discard(event.token)
        if steps - 1 <= handled:
            return  # It was answered by the step that handled it, or by the next one.
        if had:
            self._judge_removed(host, event)
        if isinstance(event, ProduceReceived):
            self._produced(host, event, effect, epoch)
            return
        for part in event.parts:
            led = self._led_before(host, part.key)
            if led is not None and event.min_bytes <= 1 and _has_more(event, part, led):
                what = f"a fetch at {part.offset}, and has records to {led.end}"
                self._fail(host, part.key, what)

    def _note_deletion(self, host: Host, event: DeleteRecordsReceived) -> None:
        """Note a deletion that a leader has begun: its own log begins there at once."""
        if len(event.parts) != 1:
            return
        key, offset = event.parts[0]
        led = replicas_on(host).get(key)
        if led is not None and led.leading and led.log is not None and offset <= led.log.start:
            offset = led.log.start if offset < 0 else offset
            self._of(host).deletions[event.token] = _Deletion(key, offset)

    def _on_emit(self, host: Host) -> None:
        known = self._processes.get(host.id)
        if known is None or not known.deletions or known.life != host.life:
            return
        replicas = replicas_on(host)
        for token, deletion in list(known.deletions.items()):
            led = replicas.get(deletion.key)
            reached = led is not None and led.leading and _low_watermark(led) >= deletion.offset
            deletion.steps = deletion.steps + 1 if reached else 0
            if deletion.steps > STEPS:
                del known.deletions[token]
                what = f"a deletion below {deletion.offset}, which all live replicas have made"
                self._fail(host, deletion.key, what)

    def _judge_removed(self, host: Host, event: FetchReceived | ProduceReceived) -> None:
        """Judge whether the broker had removed a partition of the request before its last step.

        It had all of them when it handled the request. A broker that starts lets requests wait
        until it knows its partitions.
        """
        replicas = replicas_on(host)
        for key in _keys_of(event):
            if key not in replicas and self._positions.before(host, key) is None:
                self._fail(host, key, "a request, although it has no replica of it any longer")

    def _led_before(self, host: Host, key: PartitionKey) -> Position | None:
        """Return a partition that the broker led before its last step."""
        before = self._positions.before(host, key)
        return before if before is not None and before.leads else None

    def _produced(self, host: Host, event: ProduceReceived, effect: Any, epoch: int) -> None:
        """Judge requests with one batch: others wait until all of them are replicated.

        A batch that had no room is never replicated, so its request must not wait either.
        """
        if not isinstance(effect, out.ReplyProduce) or event.acks != ALL:
            return
        if len(event.batches) != 1 or len(effect.parts) != 1:
            return
        (key, batch), error = event.batches[0], effect.parts[0].error
        led, end = self._led_before(host, key), self._end_of(host, key, batch)
        if led is None or error not in (errors.NONE, errors.REQUEST_TIMED_OUT):
            return
        if end is not None and end <= led.hw:
            self._fail(host, key, f"a produce up to {end}, committed to {led.hw}")
        elif end is None and error == errors.REQUEST_TIMED_OUT and led.epoch == epoch:
            self._fail(host, key, f"a produce that is not in its log, which ends at {led.end}")

    def _end_of(self, host: Host, key: PartitionKey, batch: Batch) -> int | None:
        log = self._logs.of(host.id, key)
        found = None if log is None else log.with_content_of(batch)
        return None if found is None else found.next_offset

    def _fail(self, host: Host, key: PartitionKey, what: str) -> None:
        if key not in disk_of_records(host).logs.full:
            self._failures.add(
                "L13", self._world.now, f"{host.name} lets wait for {name_of(key)} {what}"
            )


def _keys_of(event: FetchReceived | ProduceReceived) -> list[PartitionKey]:
    """Return the partitions of a request of which each may end it. A produce with several batches
    waits for all of them."""
    if isinstance(event, FetchReceived):
        return [part.key for part in event.parts]
    return [key for key, _ in event.batches] if len(event.batches) == 1 else []


def _has_more(event: FetchReceived, part: FetchPart, led: Position) -> bool:
    """Whether a leader had records for this part of a fetch."""
    end = led.hw if event.replica_id == CONSUMER else led.end
    return part.leader_epoch in (-1, led.epoch) and led.start <= part.offset < end


def _low_watermark(led: Partition) -> int:
    """Return where the last log begins of a leader and the replicas that are alive."""
    peers = led.with_.peers
    starts = [
        remote.start
        for broker, remote in led.in_sync.remotes.items()
        if broker in peers and peers[broker].eligible
    ]
    return min(starts, default=led.log.start) if led.log is not None else -1
