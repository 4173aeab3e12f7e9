"""Random lives of brokers and controllers, judged by the committed log and the answers alone.

Two controllers take turns. The judge knows no code of theirs: it reads records as they lie in
the log, and keeps its own idea of registrations, ISRs and producer ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.log.batch import decode_batch, encode_batch
from kraftwreck.nodes.protocol.records import encode_record

SESSION, PERIOD, STEP = 9_000_000, 1_125_000, 250_000
BROKERS = (1, 2, 3)
Body = dict[str, Any]


@dataclass
class Registration:
    incarnation: bytes
    epoch: int
    fenced: bool
    stopping: bool


@dataclass
class Partition:
    replicas: list[int]
    isr: list[int]
    leader: int


@dataclass
class Judge:
    """Replays the log and holds it against the invariants."""

    length: int = 0
    brokers: dict[int, Registration] = field(default_factory=dict)
    epochs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    partitions: dict[tuple[bytes, int], Partition] = field(default_factory=dict)
    topics: set[bytes] = field(default_factory=set)
    producer_ids: int = 0
    blocks: list[int] = field(default_factory=list)
    open: list[tuple[int, str, Body]] | None = None
    torn: set[str] = field(default_factory=set)

    def batch(self, rig: Any, batch: bytes) -> None:
        header, values = decode_batch(batch)
        assert header.base_offset == self.length
        self.length = header.last_offset + 1
        left: set[int] = set()
        if not header.is_control:
            for name, fields in rig.decoded(values):
                if name == "BeginTransactionRecord":
                    assert self.open is None
                    self.open = []
                elif name == "AbortTransactionRecord":
                    assert self.open is not None
                    self.torn |= {f["name"] for _, n, f in self.open if n == "TopicRecord"}
                    self.open = None
                elif name == "EndTransactionRecord":
                    assert self.open is not None
                    done, self.open = self.open, None
                    for base, inner, content in done:
                        left |= self.record(base, inner, content)
                elif self.open is not None:
                    self.open.append((header.base_offset, name, fields))
                else:
                    left |= self.record(header.base_offset, name, fields)
        for broker in left:
            for partition in self.partitions.values():
                assert partition.leader != broker, "C3"
                assert broker not in partition.isr or partition.isr == [broker], "C3"
        for partition in self.partitions.values():
            if partition.leader != -1:
                leader = self.brokers[partition.leader]
                assert not leader.fenced and not leader.stopping, "C4"
                assert partition.leader in partition.isr, "C4"
            assert set(partition.isr) <= set(partition.replicas), "C4"

    def record(self, base: int, name: str, fields: Body) -> set[int]:
        """Take one record in; return the brokers it takes out of their partitions."""
        if name == "RegisterBrokerRecord":
            self.registration(base, fields)
        elif name == "BrokerRegistrationChangeRecord":
            broker = self.brokers[fields["broker_id"]]
            assert broker.epoch == fields["broker_epoch"], "C2"
            broker.fenced = {-1: False, 0: broker.fenced, 1: True}[fields["fenced"]]
            broker.stopping |= fields["in_controlled_shutdown"] == 1
            if fields["fenced"] == 1 or fields["in_controlled_shutdown"] == 1:
                return {fields["broker_id"]}
        elif name == "UnregisterBrokerRecord":
            assert self.brokers.pop(fields["broker_id"]).epoch == fields["broker_epoch"], "C2"
            self.epochs[fields["broker_id"]].append((self.length, -1))
        elif name == "TopicRecord":
            assert fields["topic_id"] not in self.topics, "C11"
            self.topics.add(fields["topic_id"])
        elif name == "PartitionRecord":
            key = (fields["topic_id"], fields["partition_id"])
            self.partitions[key] = Partition(fields["replicas"], fields["isr"], fields["leader"])
        elif name == "PartitionChangeRecord":
            partition = self.partitions[fields["topic_id"], fields["partition_id"]]
            if fields["isr"] is not None:
                partition.isr = fields["isr"]
            if fields["leader"] != -2:
                partition.leader = fields["leader"]
        elif name == "ProducerIdsRecord":
            assert fields["next_producer_id"] > self.producer_ids, "C11"
            self.producer_ids = fields["next_producer_id"]
            assert self.brokers[fields["broker_id"]].epoch == fields["broker_epoch"], "C2"
        return set()

    def registration(self, base: int, fields: Body) -> None:
        broker_id, epoch = fields["broker_id"], fields["broker_epoch"]
        known = self.brokers.get(broker_id)
        history = self.epochs.setdefault(broker_id, [])
        if known is not None and known.incarnation == fields["incarnation_id"]:
            assert epoch == known.epoch, "C1"
        else:
            assert epoch == base, "C1"
            assert all(earlier < epoch for _, earlier in history), "C1"
            assert fields["fenced"] and not fields["in_controlled_shutdown"], "C1"
            history.append((self.length, epoch))
        self.brokers[broker_id] = Registration(
            fields["incarnation_id"], epoch, fields["fenced"], fields["in_controlled_shutdown"]
        )

    def was_current(self, broker_id: int, epoch: int, since: int) -> bool:
        """Tell whether a broker had this epoch at any time since the log had this length."""
        history = self.epochs.get(broker_id, [])
        before = [entry for entry in history if entry[0] <= since][-1:]
        return any(e == epoch for _, e in (*before, *(h for h in history if h[0] > since)))


class World:
    """Two controllers, one log, and what brokers would know."""

    def __init__(self, make_rig: Callable[..., Any]) -> None:
        self.rigs = [make_rig(node_id=1), make_rig(node_id=2)]
        self.active = 0
        self.epoch = 1
        self.judge = Judge()
        self.judged = 0
        self.process = dict.fromkeys(BROKERS, 1)
        self.stopping: set[tuple[int, int]] = set()  # (broker, process)
        self.contact: dict[int, int] = {}
        self.claimed_at = 0
        self.asked: dict[int, tuple[str, Body, int]] = {}
        self.names = 0
        self.leader.lead(self.epoch)
        self.settle()

    @property
    def leader(self) -> Any:
        return self.rigs[self.active]

    def settle(self) -> None:
        """Commit, judge what is new, and compare the other controller."""
        leader, other = self.leader, self.rigs[1 - self.active]
        leader.commit()
        for batch in leader.committed_batches[self.judged :]:
            self.judge.batch(leader, batch)
            other.now = leader.now
            other.deliver(batch)
        self.judged = len(leader.committed_batches)
        self.judge_answers(leader)
        for rig in self.rigs:
            assert not self.judge.torn & set(rig.image.stable.topics), "C12"
            assert self.judge.open is None or not any(
                f["name"] in rig.image.stable.topics
                for _, n, f in self.judge.open
                if n == "TopicRecord"
            ), "C12"
        assert leader.image == other.image

    def judge_answers(self, rig: Any) -> None:
        for token in [t for t in self.asked if t in rig.answers]:
            api, body, since = self.asked.pop(token)
            answer = rig.answers[token]
            if answer["error_code"] != 0:
                continue
            if api != "BrokerRegistration":
                assert self.judge.was_current(body["broker_id"], body["broker_epoch"], since), "C2"
            if api == "BrokerHeartbeat" and answer["is_caught_up"]:
                assert body["current_metadata_offset"] >= body["broker_epoch"], "unfenced too early"
            if api == "AllocateProducerIds":
                start = answer["producer_id_start"]
                assert answer["producer_id_len"] == 1000 and start % 1000 == 0, "C11"
                assert start not in self.judge.blocks, "C11"
                assert start + 1000 <= self.judge.producer_ids, "C11: given before it was taken"
                self.judge.blocks.append(start)

    def ask(self, api: str, version: int, body: Body) -> None:
        token = self.leader.ask(api, version, body)
        self.asked[token] = (api, body, self.judge.length)
        self.judge_answers(self.leader)

    # --- what may happen

    def register(self, broker: int, fresh: bool) -> None:
        if fresh:
            self.process[broker] += 1
        body = self.leader.registration(broker, self.process[broker])
        self.ask("BrokerRegistration", 4, body)
        # Whether it was accepted is for the log to say; it may count as contact.
        self.contact[broker] = self.leader.now

    def heartbeat(self, broker: int, stale: bool, fence: bool, stop: bool, behind: bool) -> None:
        # A process that wants to shut down never thinks better of it.
        this = broker, self.process[broker]
        if stop:
            self.stopping.add(this)
        known = self.judge.brokers.get(broker)
        epoch = -1 if known is None else known.epoch - stale
        if known is not None and not stale:
            self.contact[broker] = self.leader.now
        offset = epoch - 1 if behind else self.judge.length - 1
        body = {
            "broker_id": broker,
            "broker_epoch": epoch,
            "current_metadata_offset": offset,
            "want_fence": fence,
            "want_shut_down": this in self.stopping,
        }
        self.ask("BrokerHeartbeat", 1, body)

    def create(self) -> None:
        if not self.leader.image.brokers:
            return  # the voters would stand in for brokers
        self.names += 1
        body = self.leader.creation(f"t{self.names}", num_partitions=2, replication_factor=2)
        self.leader.ask("CreateTopics", 7, body)

    def allocate(self, broker: int, stale: bool) -> None:
        known = self.judge.brokers.get(broker)
        epoch = -1 if known is None else known.epoch - stale
        self.ask("AllocateProducerIds", 0, {"broker_id": broker, "broker_epoch": epoch})

    def unregister(self, broker: int) -> None:
        self.leader.ask("UnregisterBroker", 0, {"broker_id": broker})

    def wait(self, steps: int) -> None:
        for _ in range(steps):
            self.leader.wait(STEP // 1000)
            self.settle()
            for broker_id, broker in self.judge.brokers.items():
                silent = self.leader.now - max(self.claimed_at, self.contact.get(broker_id, 0))
                bound = SESSION + PERIOD + (len(BROKERS) + 1) * STEP
                assert broker.fenced or silent <= bound, "C16"

    def change_controller(self, keep: int, back: bool, torn: bool) -> None:
        """The leader fails; ``keep`` of its uncommitted batches survive it."""
        old = self.leader
        survivors = old.quorum.uncommitted[:keep]
        old.quorum.uncommitted = survivors
        old.commit()
        self.settle()
        self.epoch += 1
        if torn:
            self.names += 1
            topic = {"name": f"torn{self.names}", "topic_id": self.names.to_bytes(16, "little")}
            values: list[tuple[str, Body]] = [
                ("BeginTransactionRecord", {"name": "x"}),
                ("TopicRecord", topic),
            ]
            framed = [(None, encode_record(name, 0, fields)) for name, fields in values]
            old.follow(3, self.epoch)
            old.deliver(encode_batch(old.quorum.log_end, self.epoch, 0, framed, False))
            self.settle()
            self.epoch += 1
        old.follow(3, self.epoch)
        old.collect()
        self.judge_answers(old)
        self.asked.clear()
        if not back:
            self.active = 1 - self.active
        new = self.leader
        new.now = max(new.now, old.now)
        self.claimed_at = new.now
        new.quorum.log_end = new.quorum.high_watermark
        new.lead(self.epoch)
        self.settle()
        other = self.rigs[1 - self.active]
        other.follow(new.quorum.node_id, self.epoch)


brokers = st.sampled_from(BROKERS)
flags = st.booleans()
rarely = st.sampled_from((False, False, False, True))
ACTIONS = st.one_of(
    st.tuples(st.just("register"), brokers, rarely),
    st.tuples(st.just("heartbeat"), brokers, rarely, rarely, rarely, rarely),
    st.tuples(st.just("heartbeat"), brokers, *[st.just(False)] * 4),
    st.tuples(st.just("create")),
    st.tuples(st.just("allocate"), brokers, rarely),
    st.tuples(st.just("unregister"), brokers),
    st.tuples(st.just("wait"), st.sampled_from((1, 4, 12, 45))),
    st.tuples(st.just("settle")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("change_controller"), st.integers(0, 3), flags, rarely),
)
STARTED = [
    *[("register", broker, False) for broker in BROKERS],
    ("settle",),
    *[("heartbeat", broker, False, False, False, False) for broker in BROKERS],
    ("settle",),
    ("create",),
]


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.booleans(), st.lists(ACTIONS, max_size=30))
def test_any_life_keeps_the_invariants(
    make_rig: Any, started: bool, actions: list[tuple[Any, ...]]
) -> None:
    world = World(make_rig)
    for action, *arguments in (*(STARTED if started else ()), *actions):
        getattr(world, action)(*arguments)
    world.settle()
    world.wait(46)
