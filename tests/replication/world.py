"""A world of brokers that are cores and lists: messages, kills and elections by a list of numbers.

Each number is one action. The same numbers give the same run, so a failure shrinks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.replicas import Replicas

KEY: PartitionKey = (b"t" * 16, 0)
LAG_US = 1_000_000
BROKERS = (1, 2, 3)
KINDS = 128
"""Actions; the share of each is in :meth:`World.act`."""
NUMBERS = KINDS * 64


def batch(ident: int, *, producer: int = -1, sequence: int = -1, count: int = 1) -> Batch:
    """A producer's batch; its checksum identifies its records."""
    epoch = 0 if producer >= 0 else -1
    return Batch(-1, count - 1, -1, producer, epoch, sequence, ident, count, 70 + count, ident, 0)


@dataclass
class Disk:
    """A log that survives kills; a loss of power takes what is not ``durable``."""

    start: int = 0
    batches: list[Batch] = field(default_factory=list)
    producers: list[Batch] = field(default_factory=list)
    epochs: tuple[tuple[int, int], ...] = ()
    watermark: int = 0
    durable: int = 0
    cuts: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start

    def opened(self) -> come.LogOpened:
        kept = tuple(self.producers)
        self.cuts = 0
        size = sum(each.size for each in self.batches)
        return come.LogOpened(
            KEY, self.start, self.end, self.epochs, kept, self.watermark, self.durable, size
        )

    def flush(self, number: int, cuts: int, end: int) -> come.LogFlushed:
        """End a flush that began when the log ended at ``end``."""
        if cuts == self.cuts:
            self.durable = max(self.durable, end)
        return come.LogFlushed(KEY, number, self.cuts, self.durable)

    def lose_power(self) -> None:
        """Keep what is durable only; other files are durable at once."""
        for each in (self.batches, self.producers):
            while each and each[-1].base_offset >= self.durable:
                each.pop()

    def carry_out(self, effect: out.Effect) -> None:
        match effect:
            case out.Append(batch=new):
                assert new.base_offset == self.end
                self.batches.append(new)
                self.producers.append(new)
            case out.Truncate(end_offset=end):
                for each in (self.batches, self.producers):
                    while each and each[-1].next_offset > end:
                        each.pop()
                self.cuts += 1
                self.durable = min(self.durable, self.end)
            case out.StartAt(offset=offset):
                self.batches.clear()
                self.producers.clear()
                self.start = self.durable = offset
                self.cuts += 1
            case out.DeleteUpTo(start_offset=start):
                self.start = start
                self.durable = max(self.durable, start)
                self.batches = [each for each in self.batches if each.next_offset > start]
            case out.WriteEpochs(entries=entries):
                self.epochs = entries
            case out.WriteHighWatermarks(offsets=offsets):
                self.watermark = offsets.get(KEY, self.watermark)

    def read(self, records: out.Slice | None) -> tuple[Batch, ...]:
        if records is None:
            return ()
        found = [
            each for each in self.batches
            if each.next_offset > records.offset and each.next_offset <= records.end_offset
        ]  # fmt: skip
        return tuple(found[:3])


@dataclass
class Host:
    """A broker's place: its disk, and the core while the process is alive."""

    disk: Disk = field(default_factory=Disk)
    core: Replicas | None = None
    process: int = 0
    epoch: int = 0
    metadata: deque[come.Published] = field(default_factory=deque)


@dataclass
class Message:
    """``kind`` is fetch, fetched, ask, asked, alter, altered, produce, produced or flush."""

    kind: str
    source: int
    process: int
    target: int
    body: Any
    about: Any = None


class World:
    """Three brokers with one partition, one controller that never fails, and two producers."""

    flush_messages = come.UNLIMITED
    quorum = False

    def __init__(self, min_insync: int = 1) -> None:
        self.now = 0
        self.min_insync = min_insync
        self.hosts = {broker: Host(self.new_disk(broker)) for broker in BROKERS}
        self.fenced: set[int] = set()
        self.assignment = come.Assignment(BROKERS, BROKERS, 1, 0, 0)
        self.messages: list[Message] = []
        self.tokens: dict[tuple[int, int], Message] = {}
        self.numbers = 0
        self.sequence = 0
        self.waiting: Batch | None = None
        self.acked: dict[int, int] = {}
        self.accepted: list[tuple[tuple[int, ...], out.Proposal]] = []
        for broker in BROKERS:
            self.start(broker)

    @property
    def least(self) -> int:
        """The size below which the ISR commits nothing."""
        return len(BROKERS) // 2 + 1 if self.quorum else self.min_insync

    def new_disk(self, broker: int) -> Disk:
        """Return the empty disk of a broker."""
        return Disk()

    # --- the controller -------------------------------------------------------------------

    def peers(self) -> dict[int, come.Peer]:
        return {
            broker: come.Peer(host.epoch, broker not in self.fenced)
            for broker, host in self.hosts.items()
        }

    def image(self) -> come.Published:
        settings = come.Settings(
            min_insync=self.min_insync,
            retention_ms=-1,
            flush_messages=self.flush_messages,
            quorum=self.quorum,
        )
        return come.Published((), {KEY: self.assignment}, {KEY: settings}, self.peers())

    def publish(self, **changes: Any) -> None:
        old = self.assignment
        new = replace(old, **changes)
        if new != old:
            new = replace(new, partition_epoch=old.partition_epoch + 1)
            if new.leader != old.leader:
                new = replace(new, leader_epoch=old.leader_epoch + 1)
        self.assignment = new
        for host in self.hosts.values():
            host.metadata.append(self.image())

    def fence(self, broker: int) -> None:
        self.fenced.add(broker)
        isr = tuple(each for each in self.assignment.isr if each != broker) or (broker,)
        leader = self.assignment.leader
        if leader == broker:
            leader = next((each for each in isr if each not in self.fenced), -1)
        self.publish(isr=isr, leader=leader)

    def unfence(self, broker: int) -> None:
        self.fenced.discard(broker)
        leader = self.assignment.leader
        if leader == -1 and broker in self.assignment.isr:
            leader = broker
        self.publish(leader=leader)

    def alter(self, source: int, proposal: out.Proposal) -> come.Altered:
        now = self.assignment
        fault = errors.NONE
        if proposal.leader_epoch < now.leader_epoch:
            fault = errors.FENCED_LEADER_EPOCH
        elif proposal.partition_epoch < now.partition_epoch:
            fault = errors.INVALID_UPDATE_VERSION
        elif any(
            broker in self.fenced or epoch not in (-1, self.hosts[broker].epoch)
            for broker, epoch in proposal.isr
        ):
            fault = errors.INELIGIBLE_REPLICA
        if fault != errors.NONE:
            return come.Altered(KEY, fault)
        self.accepted.append((now.isr, proposal))
        isr = tuple(broker for broker, _ in proposal.isr)
        self.publish(isr=isr, recovering=proposal.recovering)
        now = self.assignment
        epochs = (now.leader_epoch, now.partition_epoch)
        return come.Altered(KEY, errors.NONE, *epochs, now.isr, now.recovering)

    # --- processes ------------------------------------------------------------------------

    def start(self, broker: int) -> None:
        host = self.hosts[broker]
        host.process += 1
        host.epoch = host.process
        host.core = Replicas(broker, host.process, self.now, LAG_US)
        host.metadata.clear()
        if host.process > 1:
            self.fence(broker)
            host.metadata.clear()
            self.unfence(broker)
            host.metadata.clear()
        self.step(broker, self.image())

    def kill(self, broker: int) -> None:
        self.hosts[broker].core = None

    def step(self, broker: int, event: come.Event) -> None:
        host = self.hosts[broker]
        todo = deque([event])
        while todo and host.core is not None:
            for effect in host.core.step(todo.popleft(), self.now, 0):
                if isinstance(effect, out.OpenLog):
                    todo.append(host.disk.opened())
                host.disk.carry_out(effect)
                self.send(broker, host, effect)
        self.stepped(broker)

    def stepped(self, broker: int) -> None:
        """For checks after each step."""

    def acknowledged(self, broker: int, offset: int, sent: Batch) -> None:
        """For checks when a broker acknowledges an idempotent batch."""

    def send(self, broker: int, host: Host, effect: out.Effect) -> None:
        def say(kind: str, target: int, body: Any, about: Any = None) -> None:
            self.messages.append(Message(kind, broker, host.process, target, body, about))

        match effect:
            case out.FetchFrom():
                say("fetch", effect.leader, effect)
            case out.AskOffsets():
                say("ask", effect.leader, effect)
            case out.AlterPartition():
                say("alter", 0, effect)
            case out.FlushLog():
                say("flush", broker, effect, (host.disk.cuts, host.disk.end))
            case out.ReplyFetch():
                asked = self.tokens.pop((broker, effect.token))
                parts = tuple(
                    come.FetchedPart(
                        each.key, each.error, each.high_watermark, each.log_start,
                        host.disk.read(each.records), each.diverging,
                    )
                    for each in effect.parts
                )  # fmt: skip
                say(
                    "fetched",
                    asked.source,
                    come.FetchAnswered(asked.body.correlation, parts),
                    asked,
                )
            case out.ReplyListOffsets():
                asked = self.tokens.pop((broker, effect.token))
                first, last = effect.parts
                error = first.error or last.error
                offsets = ((KEY, error, first.offset, last.offset),)
                answer = come.OffsetsAnswered(asked.body.correlation, offsets)
                say("asked", asked.source, answer, asked)
            case out.ReplyProduce():
                asked = self.tokens.pop((broker, effect.token))
                if asked.about == "idempotent" and effect.parts[0].error == errors.NONE:
                    self.acknowledged(broker, effect.parts[0].base_offset, asked.body)
                say("produced", 0, effect.parts[0], asked)

    # --- messages ---------------------------------------------------------------------------

    def deliver(self, number: int) -> None:
        message = self.messages.pop(number % len(self.messages))
        if message.kind == "alter":
            answers = tuple(self.alter(message.source, each) for each in message.body.proposals)
            body = come.AlterPartitionAnswered(message.body.correlation, answers)
            answer = Message("altered", 0, 0, message.source, body, message)
            self.messages.append(answer)
        elif message.kind == "produced":
            self.produced(message)
        elif message.kind in ("fetched", "asked", "altered"):
            self.answer(message.about, message.body)
        elif message.kind == "flush":
            self.flush(message)
        elif self.hosts[message.target].core is None:
            self.fail(message)
        else:
            self.request(message)

    def flush(self, message: Message) -> None:
        host = self.hosts[message.source]
        if host.process == message.process and host.core is not None:
            self.step(message.source, host.disk.flush(message.body.number, *message.about))

    def request(self, message: Message) -> None:
        self.numbers += 1
        token, body = self.numbers, message.body
        self.tokens[message.target, token] = message
        event: come.Event
        if message.kind == "fetch":
            epoch = message.process
            event = come.FetchReceived(token, body.parts, message.source, epoch, 500, 1)
        elif message.kind == "ask":
            parts = tuple((key, at, epoch) for key, epoch in body.parts for at in (-2, -1))
            event = come.ListOffsetsReceived(token, parts, message.source)
        else:
            acks = -1 if message.about == "idempotent" else 1
            event = come.ProduceReceived(token, acks, 2000, ((KEY, body),))
        self.step(message.target, event)

    def answer(self, asked: Message, body: Any) -> None:
        host = self.hosts[asked.source]
        if host.process == asked.process and host.core is not None:
            self.step(asked.source, body)

    def drop(self, number: int) -> None:
        message = self.messages.pop(number % len(self.messages))
        if message.kind == "flush":
            self.flush(message)  # A flush that fails ends the process.
            return
        self.fail(message.about if message.kind in ("fetched", "asked", "altered") else message)

    def fail(self, message: Message) -> None:
        if message.kind in ("fetch", "ask", "alter"):
            kinds: dict[str, Any] = {
                "fetch": come.FetchAnswered,
                "ask": come.OffsetsAnswered,
                "alter": come.AlterPartitionAnswered,
            }
            self.answer(message, kinds[message.kind](message.body.correlation, None))

    def hang_up(self, broker: int) -> None:
        """Fail the requests that a killed broker had taken in."""
        for key in [key for key in self.tokens if key[0] == broker]:
            self.fail(self.tokens.pop(key))

    # --- clients ------------------------------------------------------------------------------

    def produce(self) -> None:
        """Send the next batch of the idempotent producer, or the last one again."""
        if self.waiting is None:
            self.waiting = batch(1000 + self.sequence, producer=7, sequence=self.sequence)
            self.sequence += 1
        self.send_batch(self.assignment.leader, self.waiting, "idempotent")

    def noise(self, broker: int) -> None:
        """Let some broker append with acks=1, if it believes that it leads."""
        self.numbers += 1
        self.send_batch(broker, batch(-self.numbers), "noise")

    def send_batch(self, target: int, each: Batch, about: str) -> None:
        if target in self.hosts:
            self.messages.append(Message("produce", 0, 0, target, each, about))

    def produced(self, message: Message) -> None:
        part, asked = message.body, message.about
        if asked.about != "idempotent" or self.waiting is None or self.waiting is not asked.body:
            return
        if part.error == errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.refused(self.waiting)
        elif part.error == errors.NONE:
            self.waiting = None

    def refused(self, sent: Batch) -> None:
        """The log lacks an earlier batch, although that was acknowledged."""
        raise AssertionError(f"D3: the batch before {sent.base_sequence} was lost")

    # --- actions ------------------------------------------------------------------------------

    def act(self, number: int) -> None:
        kind, which = number % KINDS, number // KINDS
        broker = BROKERS[which % 3]
        host = self.hosts[broker]
        if kind < 74:
            if self.messages:
                self.deliver(which)
        elif kind < 94:
            if host.metadata and host.core is not None:
                self.step(broker, host.metadata.popleft())
        elif kind < 106:
            self.tick(20_000)
        elif kind == 106:
            self.tick(LAG_US)
        elif kind == 107 and self.messages:
            self.drop(which)
        elif kind < 111:
            self.noise(broker)
        elif kind == 111:
            self.step(broker, come.DeleteRecordsReceived(0, 1000, ((KEY, -1),)))
        elif kind < 124:
            self.produce()
        elif kind < 126:
            self.fault(broker, host)
        elif kind == 126:
            self.elect(broker)
        elif broker in self.fenced and host.core is not None:
            self.unfence(broker)
        else:
            self.fence(broker)

    def fault(self, broker: int, host: Host) -> None:
        if host.core is None:
            self.start(broker)
        else:
            self.kill(broker)
            self.hang_up(broker)

    def elect(self, broker: int) -> None:
        if broker in self.assignment.isr and broker not in self.fenced:
            self.publish(leader=broker)

    def tick(self, by: int) -> None:
        self.now += by
        for broker in BROKERS:
            self.step(broker, come.Tick())

    def run(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.act(number)

    def heal(self) -> None:
        """Let all processes run and all messages arrive until nothing is left to do."""
        for broker, host in self.hosts.items():
            if host.core is None:
                self.start(broker)
        for broker in BROKERS:
            self.unfence(broker)
        for _ in range(40):
            for broker, host in self.hosts.items():
                while host.metadata:
                    self.step(broker, host.metadata.popleft())
            for _ in range(len(self.messages)):
                self.deliver(0)
            self.tick(200_000)
