"""Watches what brokers say of their logs: D2, D7, D11, D13 and L13, live.

Answers are judged by the leader's log, as it must be on its disk. It has the offset of a time or an
epoch, the acknowledged batches, and the records that a fetch could return. A deletion is
acknowledged once it has reached all replicas that are alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kraftwreck.nodes.log.batch import NO_TIMESTAMP, BatchError, parse_header, split_batches
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    DeleteRecordsReceived,
    EpochEndsReceived,
    FetchPart,
    FetchReceived,
    ListOffsetsReceived,
    ProduceReceived,
)
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import CONSUMER, EARLIEST, LATEST, Partition
from kraftwreck.simulation.host import Host
from kraftwreck.systems.kraft.simulated.answer_evidence import AnswerEvidence
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    disk_of_records,
    name_of,
)
from kraftwreck.systems.kraft.simulated.step_logs import first_unless_right

UNDEFINED = (-1, -1)


class Span(NamedTuple):
    """The start, high watermark and end of a log."""

    start: int
    hw: int
    end: int


_ENDS = (EARLIEST, LATEST)


class RecordLookups:
    """Judges answers of brokers by ``evidence``, before they leave."""

    def __init__(self, evidence: AnswerEvidence) -> None:
        self._world, self._failures = evidence.world, evidence.failures
        self._watch, self._steps = evidence.watch, evidence.steps
        self._positions = evidence.positions
        self._hosts = {host.id: host for host in self._world.hosts}
        self._sessions: dict[tuple[int, int, int], dict[PartitionKey, FetchPart]] = {}
        """By host, its life and session: the partitions that the session has."""
        self._empty: dict[tuple[int, int, int], dict[PartitionKey, FetchPart]] = {}
        """By session: the partitions that its last answer left out, although it had records."""
        self._said: dict[tuple[int, int, int], dict[PartitionKey, tuple[int, int]]] = {}
        """By session: the high watermark and log start of partitions, as last answered."""
        record_traffic(self._world).on_answer.append(self.answered)

    def answered(self, host: Host, message: RecordMessage, effect: Any, body: Any) -> None:
        """Judge an answer: ``effect`` is the core's, ``body`` is what leaves."""
        event = message.call.event if message.call is not None else None
        if isinstance(event, ProduceReceived) and isinstance(effect, out.ReplyProduce):
            self._acknowledged(host, event, effect)
        elif isinstance(event, FetchReceived) and isinstance(effect, out.ReplyFetch):
            self._fetched(host, event, effect, body)
        elif isinstance(event, ListOffsetsReceived) and isinstance(effect, out.ReplyListOffsets):
            self._listed(host, event, effect, body)
        elif isinstance(event, EpochEndsReceived) and isinstance(effect, out.ReplyEpochEnds):
            self._ended(host, event, effect)
        elif isinstance(event, DeleteRecordsReceived) and isinstance(
            effect, out.ReplyDeleteRecords
        ):
            self._deleted(host, event, effect)

    def _least(self, host: Host, partition: Partition, log: RecordLog) -> Span:
        """Return the least offsets of a log since the last step began: a step may do what is due,
        too, after it has answered a request."""
        before = self._positions.before(host, partition.key)
        if before is None or not before.leads:
            return Span(0, 0, 0)
        return Span(
            min(before.start, log.start), min(before.hw, partition.hw), min(before.end, log.end)
        )

    def _fail(self, rule: str, explanation: str) -> None:
        self._failures.add(rule, self._world.now, explanation)

    def _led(self, host: Host, key: PartitionKey) -> tuple[Partition, RecordLog] | None:
        """Return a replica that leads and its log, None unless its disk has what its core says."""
        node: Any = host.node
        partition = node.broker.data.core.partitions.get(key)
        log = self._watch.logs.of(host.id, key)
        if partition is None or log is None or partition.log is None or not partition.leading:
            return None
        return None if key in disk_of_records(host).logs.full else (partition, log)

    # --- Produce and DeleteRecords ------------------------------------------------------------

    def _acknowledged(self, host: Host, event: ProduceReceived, effect: out.ReplyProduce) -> None:
        """D2: an acknowledged batch is in the leader's log, at the offset that it got."""
        sent = dict(event.batches)
        for told in effect.parts:
            led = self._led(host, told.key)
            if told.error != errors.NONE or led is None or told.key not in sent:
                continue
            _, log = led
            if told.base_offset < log.start:
                continue  # It was deleted since, as records of an older retry may be.
            found = log.at(told.base_offset)
            if found is None or found.crc != sent[told.key].crc:
                self._fail(
                    "D2",
                    f"{host.name} acknowledges a batch at {told.base_offset} of"
                    f" {name_of(told.key)}, where its log has another or none",
                )

    def _deleted(
        self, host: Host, event: DeleteRecordsReceived, effect: out.ReplyDeleteRecords
    ) -> None:
        """D11: acknowledged deletions have reached the leader and all replicas that are alive."""
        wanted = dict(event.parts)
        for key, error, low in effect.parts:
            led = self._led(host, key)
            if error != errors.NONE or led is None:
                continue
            partition, log = led
            where = f"{host.name} says that {name_of(key)} begins at {low}"
            if not wanted[key] <= low <= partition.hw:
                self._fail("D11", f"{where}, asked for {wanted[key]}, committed to {partition.hw}")
            for member, own in self._members(host, partition, log):
                if own.start < low and (own is log or not _may_begin_before(own, low)):
                    self._fail("D11", f"{where}, but the log of {member} begins at {own.start}")

    def _members(
        self, host: Host, partition: Partition, log: RecordLog
    ) -> Iterator[tuple[str, RecordLog]]:
        yield host.name, log
        for broker in partition.in_sync.remotes:
            peer, other = partition.with_.peers.get(broker), self._hosts.get(broker)
            own = self._watch.logs.of(broker, partition.key)
            if peer is None or not peer.eligible or other is None or own is None:
                continue
            if self._watch.logs.lossless(other, partition.key):
                yield other.name, own

    # --- ListOffsets and OffsetForLeaderEpoch ---------------------------------------------------

    def _listed(
        self, host: Host, event: ListOffsetsReceived, effect: out.ReplyListOffsets, body: Any
    ) -> None:
        """D13: the earliest offset is the start of the log, the latest its high watermark. That of
        a time is the first committed record of this time or later."""
        asked = {key: timestamp for key, timestamp, _ in event.parts}
        node: Any = host.node
        topics = node.image.stable.topics
        answers = {
            (topics[topic["name"]].topic_id, part["partition_index"]): part
            for topic in body["topics"]
            if topic["name"] in topics
            for part in topic["partitions"]
        }
        for told in effect.parts:
            led = self._led(host, told.key)
            lookup = told.lookup
            if told.error == errors.NONE and led is not None and asked.get(told.key) in _ENDS:
                span, right, which = self._least(host, *led), led[1].end, "ends"
                least = span.end
                if asked[told.key] == EARLIEST:
                    least, right, which = span.start, led[1].start, "begins"
                elif event.replica_id == CONSUMER:
                    least, right = span.hw, led[0].hw
                    self._judge_end(host, told, led[0])
                if not least <= told.offset <= right:
                    self._fail(
                        "D13",
                        f"{host.name} says that {name_of(told.key)} {which} at {told.offset}, not"
                        f" {right}",
                    )
            if told.key in answers and asked.get(told.key) != LATEST:
                self._judge_record_of(host, told.key, answers[told.key])
            if told.error != errors.NONE or lookup is None or led is None or lookup.timestamp < 0:
                continue
            if not self._least(host, *led).hw <= lookup.end_offset <= led[0].hw:
                self._fail(
                    "D13",
                    f"{host.name} looks a time up in {name_of(told.key)} to {lookup.end_offset},"
                    f" not to its high watermark {led[0].hw}",
                )
            expected = first_since(led[1], lookup)
            if told.key in answers and (found := answers[told.key]["offset"]) != expected:
                self._fail(
                    "D13",
                    f"{host.name} says that the first record of {name_of(told.key)} since"
                    f" {lookup.timestamp} is at {found}, not {expected}",
                )

    def _judge_record_of(self, host: Host, key: PartitionKey, told: dict[str, Any]) -> None:
        """D13: an offset comes with the leader epoch of its record, and with its time, if any."""
        led, offset = self._led(host, key), told["offset"]
        if led is None or offset < 0:
            return
        states = self._steps.states(host, key, led[1])
        wrong = first_unless_right(
            _wrong_record(state, offset, told["timestamp"], told["leader_epoch"])
            for state in states
        )
        if wrong:
            self._fail(
                "D13", f"{host.name} says that the record at {offset} of {name_of(key)} {wrong}"
            )

    def _judge_end(self, host: Host, told: out.OffsetPart, partition: Partition) -> None:
        """D13: a leader does not know the latest offset before it has committed in its epoch."""
        own = partition.assignment.leader_epoch
        if partition.hw < partition.epoch_start and told.leader_epoch == own:
            self._fail(
                "D13",
                f"{host.name} says that {name_of(told.key)} ends at {told.offset}; its epoch {own}"
                f" begins at {partition.epoch_start}, and it may not know of later commits",
            )

    def _ended(self, host: Host, event: EpochEndsReceived, effect: out.ReplyEpochEnds) -> None:
        """D7: an epoch ends where the leader's log says."""
        asked = {key: epoch for key, _, epoch in event.parts}
        for key, error, epoch, end in effect.parts:
            led = self._led(host, key)
            if error == errors.NONE and led is not None:
                partition, log = led
                states = self._steps.states(host, key, log)
                wrong = first_unless_right(
                    _wrong_end(partition, each, asked[key], (epoch, end)) for each in states
                )
                if wrong:
                    self._fail("D7", f"{host.name} says of {name_of(key)} that {wrong}")

    # --- Fetch ----------------------------------------------------------------------------------

    def _fetched(self, host: Host, event: FetchReceived, effect: out.ReplyFetch, body: Any) -> None:
        place = host.id, host.life, effect.session_id
        if effect.error != errors.NONE:
            return
        if body.get("error_code", errors.NONE) != errors.NONE:
            self._judge_ended(host, effect, body["error_code"])
            for each in (self._sessions, self._empty, self._said):
                each.pop(place, None)
            return
        known = dict[PartitionKey, FetchPart]()
        if event.session_epoch > 0:
            known = self._sessions.get((host.id, host.life, event.session_id), {})
        wanted = {key: part for key, part in known.items() if key not in event.forgotten}
        wanted |= {part.key: part for part in event.parts}
        if effect.session_id:
            self._sessions[place] = wanted
        told = {part.key: part for part in effect.parts}
        for key, part in told.items():
            if key in wanted:
                self._judge_part(host, wanted[key], part)
            elif part.error == errors.NONE:
                self._fail("D5", f"{host.name} returns {name_of(key)}, which no fetch asked for")
        if effect.session_id:
            said = self._said.get(place, {}) if event.session_epoch > 0 else {}
            self._said[place] = {key: said[key] for key in wanted if key in said}
            self._judge_left_out(host, self._said[place], told)
            for key, asked in wanted.items():
                if key not in told:
                    is_new = event.session_epoch > 0 and key not in known
                    self._judge_unsaid(host, asked, is_new=is_new)
        self._judge_records(host, wanted, body)
        if event.replica_id == CONSUMER:
            self._judge_silence(host, place, wanted, effect, body)

    def _judge_ended(self, host: Host, effect: out.ReplyFetch, error: int) -> None:
        """D16: a session whose partitions have names ends when a topic of it is deleted."""
        node: Any = host.node
        names = node.image.stable.names
        if not effect.session_id or all(part.key[0] in names for part in effect.parts):
            self._fail("D16", f"{host.name} ends a fetch session with error {error} for no reason")

    def _judge_left_out(
        self,
        host: Host,
        said: dict[PartitionKey, tuple[int, int]],
        told: dict[PartitionKey, out.ReadPart],
    ) -> None:
        """D5, D11: a session leaves a partition out only while its offsets are those that were said
        (KIP-227)."""
        for key, (hw, start) in said.items():
            led = self._led(host, key)
            if key in told or led is None:
                continue
            least = self._least(host, *led)
            where = f"{host.name} leaves {name_of(key)} out of a session"
            if start < least.start:
                self._fail(
                    "D11", f"{where}, whose log begins at {led[1].start}; it was said to at {start}"
                )
            if hw < least.hw:
                self._fail(
                    "D5", f"{where}, whose high watermark is {led[0].hw}; it was said to be {hw}"
                )
        for key, part in told.items():
            said.pop(key, None)
            if part.error == errors.NONE:
                said[key] = part.high_watermark, part.log_start

    def _judge_unsaid(self, host: Host, asked: FetchPart, *, is_new: bool) -> None:
        """D5, D7: a session leaves out no partition that this request has added to it, and none
        whose history is not that of the request."""
        led, where = self._led(host, asked.key), f"{host.name} leaves {name_of(asked.key)} out of a"
        if is_new:
            self._fail("D5", f"{where} session whose request has just added it")
        if led is None or asked.leader_epoch not in (-1, led[0].assignment.leader_epoch):
            return
        partition, log = led
        if asked.offset < log.start or self._least(host, partition, log) == Span(0, 0, 0):
            return
        nothing = out.ReadPart(asked.key, errors.NONE)
        states = self._steps.states(host, asked.key, log)
        wrong = first_unless_right(_wrong_history(partition, s, asked, nothing) for s in states)
        if wrong:
            self._fail("D7", f"{where} session, and so takes a fetch at {asked.offset} {wrong}")

    def _judge_records(
        self, host: Host, wanted: dict[PartitionKey, FetchPart], body: dict[str, Any]
    ) -> None:
        """D2: the batches that a fetch gets are those of the log, from the offset on."""
        node: Any = host.node
        topics = node.image.stable.topics
        for topic in body["responses"]:
            named = topics.get(topic.get("topic"))
            topic_id = topic.get("topic_id") or (named.topic_id if named is not None else b"")
            for part in topic["partitions"]:
                key = topic_id, part["partition_index"]
                led = self._led(host, key)
                if led is None or key not in wanted or not part["records"]:
                    continue
                if wanted[key].offset < led[1].start:
                    continue  # The same step has deleted them, else D11 judges it.
                error = wrong_records(led[1], wanted[key].offset, part["records"])
                if error:
                    self._fail("D2", f"{host.name} answers a fetch of {name_of(key)} {error}")

    def _judge_part(self, host: Host, asked: FetchPart, told: out.ReadPart) -> None:
        """D7, D11: a fetch is answered from this offset of this history, or not at all."""
        led = self._led(host, asked.key)
        if told.error != errors.NONE or led is None:
            return
        partition, log = led
        where = f"{host.name} answers a fetch of {name_of(asked.key)} at {asked.offset}"
        if told.log_start > log.start:
            self._fail("D11", f"{where} with the log start {told.log_start}, not {log.start}")
        least = self._least(host, partition, log)
        if not least.hw <= told.high_watermark <= partition.hw:
            self._fail(
                "D5", f"{where} with high watermark {told.high_watermark}, not {partition.hw}"
            )
        states = self._steps.states(host, asked.key, log)
        wrong = first_unless_right(_wrong_history(partition, s, asked, told) for s in states)
        if wrong:
            self._fail("D7", f"{where} {wrong}")
        elif told.diverging is None and not least.start <= asked.offset <= log.end:
            self._fail("D11", f"{where}, outside of {log.start} to {log.end}")

    def _judge_silence(
        self,
        host: Host,
        place: tuple[int, int, int],
        wanted: dict[PartitionKey, FetchPart],
        effect: out.ReplyFetch,
        body: Any,
    ) -> None:
        """L13: a consumer gets records if there are some; within a session, by its next fetch."""
        given = [part for topic in body["responses"] for part in topic["partitions"]]
        if any(part["records"] or part["error_code"] for part in given):
            self._empty.pop(place, None)
            return
        told = {part.key: part for part in effect.parts}
        left = {}
        for key, asked in wanted.items():
            led = self._led(host, key)
            if led is None or asked.leader_epoch not in (-1, led[0].assignment.leader_epoch):
                continue
            if key in told and told[key].diverging is None:
                end = told[key].high_watermark
            elif key in told:
                end = -1
            else:
                end = led[0].hw
                left[key] = asked
            if not led[1].start <= asked.offset < end:
                left.pop(key, None)
            elif key in told or self._empty.get(place, {}).get(key) == asked:
                self._fail(
                    "L13",
                    f"{host.name} returns no records of {name_of(key)} at {asked.offset}, although"
                    f" they are committed to {end}",
                )
        self._empty[place] = left


def wrong_records(log: RecordLog, offset: int, records: bytes) -> str:
    """Return what is wrong with the answer to a fetch at ``offset``, "" if nothing is."""
    expected = offset
    try:
        for batch in split_batches(records):
            header = parse_header(batch)
            if header.base_offset > expected or header.last_offset < expected:
                return f"at {offset} with a batch from {header.base_offset}, not with {expected}"
            known = log.at(header.base_offset)
            if known is None or (known.crc, known.leader_epoch) != (header.crc, header.epoch):
                return f"with another batch at {header.base_offset} than its log has"
            expected = header.last_offset + 1
    except BatchError as error:
        return f"with damaged records: {error}"
    return ""


def _wrong_end(partition: Partition, log: RecordLog, asked: int, told: tuple[int, int]) -> str:
    """Return what is wrong with ``told``, an epoch and its end; "" if nothing is."""
    epoch, end = expected = _end_of(partition, log, asked)
    if told == expected:
        return ""
    return f"epoch {asked} ends at {told[1]} (epoch {told[0]}), not at {end} (epoch {epoch})"


def _wrong_history(
    partition: Partition, log: RecordLog, asked: FetchPart, told: out.ReadPart
) -> str:
    """Return what is wrong with an answer that says whether the asker's log and that of the leader
    are one up to the offset of a fetch, "" if nothing is."""
    epoch, end = _end_of(partition, log, asked.last_fetched_epoch)
    diverges = epoch < asked.last_fetched_epoch or end < asked.offset
    if asked.last_fetched_epoch >= 0 and (told.diverging is not None) != diverges:
        return (
            f"after epoch {asked.last_fetched_epoch} as"
            f" {'its' if told.diverging is None else 'another'} history; there epoch {epoch} ends"
            f" at {end}"
        )
    if told.diverging is not None and told.diverging != (epoch, end):
        return f"with the end {told.diverging}, not {(epoch, end)}"
    return ""


def _wrong_record(log: RecordLog, offset: int, timestamp: int, epoch: int) -> str:
    """Return what is wrong with the time and the leader epoch of the record at ``offset``, "" if
    nothing is. All records of a batch have the same timestamp."""
    for batch in log.batches:
        if batch.base_offset <= offset < batch.next_offset:
            right = batch.max_timestamp, batch.leader_epoch
            if epoch != right[1] or timestamp not in (NO_TIMESTAMP, right[0]):
                return f"has time {timestamp} and epoch {epoch}, not {right[0]} and {right[1]}"
    return ""


def first_since(log: RecordLog, lookup: out.Lookup) -> int:
    """Return the offset of the first record since a time, -1 if there is none.

    All records of a batch have the same timestamp.
    """
    for batch in log.batches:
        if batch.max_timestamp >= lookup.timestamp and batch.next_offset > lookup.start_offset:
            found = max(batch.base_offset, lookup.start_offset)
            return found if found < lookup.end_offset else -1
    return -1


def _may_begin_before(log: RecordLog, offset: int) -> bool:
    """Whether a replica's log, empty or with the whole batch that has ``offset``, may begin there.

    A follower that begins its log in the middle of a batch moves back to the start of the batch,
    appends it, and deletes up to the leader's log start again. A full disk may prevent the append,
    and then the rest. The leader sees the new start in the next fetch.
    """
    first = log.batches[0] if log.batches else None
    return first is None or (first.base_offset == log.start and offset < first.next_offset)


def _end_of(partition: Partition, log: RecordLog, epoch: int) -> tuple[int, int]:
    """Return the largest epoch up to ``epoch`` in the log of a leader, and where it ends."""
    starts: dict[int, int] = {}
    for batch in log.batches:
        starts.setdefault(batch.leader_epoch, max(batch.base_offset, log.start))
    starts.setdefault(partition.assignment.leader_epoch, max(partition.epoch_start, log.start))
    if epoch < 0 or epoch > max(starts):
        return UNDEFINED
    later = [(each, start) for each, start in sorted(starts.items()) if each > epoch]
    own = max((each for each in starts if each <= epoch), default=epoch)
    return own, later[0][1] if later else log.end
