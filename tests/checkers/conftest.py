"""Histories and traces written by hand, shortly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.kraft.recorded.disk_image import DiskImage
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op, OpType
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.protocol.records import LEADER_CHANGE, encode_control, encode_record

NODES = ["n1", "n2", "n3"]
SECOND = 1_000_000_000


class History:
    """Events in the order of the calls; ``time`` is in seconds and may be set ahead."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.time = 0.0
        self._open: dict[int, Op] = {}

    def invoke(self, process: int, f: str, value: Any = None, **more: Any) -> None:
        op = self._add("invoke", process, f, value, **more)
        self._open[process] = op

    def end(self, process: int, kind: OpType = "ok", value: Any = None, **more: Any) -> None:
        op = self._open.pop(process)
        more = {"key": op.key, "final": op.final, "node": op.node, **more}
        self._add(kind, process, op.f, op.value if value is None else value, **more)

    def did(
        self,
        process: int,
        f: str,
        value: Any = None,
        *,
        saw: Any = None,
        kind: OpType = "ok",
        **more: Any,
    ) -> None:
        """An operation during which nothing else happens."""
        self.invoke(process, f, value, **more)
        self.end(process, kind, saw)

    def _add(self, kind: OpType, process: int, f: str, value: Any, **more: Any) -> Op:
        self.time += 0.001
        op = Op(
            index=len(self.ops),
            process=process,
            type=kind,
            f=f,
            value=value,
            time=int(self.time * SECOND),
            **more,
        )
        self.ops.append(op)
        return op


class Quorum:
    """Three nodes whose traces, and if wanted disks, come out as correct nodes would do.

    Tests break a rule by calling :meth:`event` with a wrong position, or by leaving steps
    out. ``time`` is seconds; all clocks agree.
    """

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.logs: dict[str, list[bytes]] = {name: [] for name in NODES}
        self.time = 0.0
        self.at: dict[str, dict[str, Any]] = {}
        for name in NODES:
            self.start(name)

    def event(self, node: str, kind: str, detail: dict[str, Any] | None = None, **to: Any) -> None:
        """Trace ``kind`` after moving the node ``to`` a new position."""
        position = self.at[node]
        position.update(to)
        self.time += 0.001
        self.events.append(
            TraceEvent(
                node=node,
                mono=int(self.time * 1e6),
                wall=int(self.time * 1e6),
                kind=kind,
                detail=detail or {},
                **position,
            )
        )
        position["seq"] += 1

    def start(self, node: str, **to: Any) -> None:
        """A new process on the same disk."""
        old = self.at.get(node, {"incarnation": 0, "epoch": 0, "voted": -1})
        self.at[node] = {
            "incarnation": old["incarnation"] + 1,
            "seq": 0,
            "state": "unattached",
            "epoch": old["epoch"],
            "leader": -1,
            "voted": old["voted"],
            "leo": self._end(node),
            "hw": -1,
        }
        log = self.logs[node]
        last_epoch = parse_header(log[-1]).epoch if log else 0
        self.event(node, "start", {"last_epoch": last_epoch}, **to)

    def _end(self, node: str) -> int:
        return parse_header(self.logs[node][-1]).last_offset + 1 if self.logs[node] else 0

    def grant(self, voter: str, candidate: str, epoch: int, **change: Any) -> None:
        ours = parse_header(self.logs[voter][-1]).epoch if self.logs[voter] else 0
        theirs = parse_header(self.logs[candidate][-1]).epoch if self.logs[candidate] else 0
        candidate_id = NODES.index(candidate) + 1
        detail = {
            "epoch": epoch,
            "candidate": candidate_id,
            "pre": False,
            "candidate_last_epoch": theirs,
            "candidate_last_offset": self._end(candidate),
            "last_epoch": ours,
            "last_offset": self._end(voter),
            **change,
        }
        self.event(
            voter, "grant", detail, epoch=epoch, voted=candidate_id, leader=-1, state="unattached"
        )

    def elect(self, leader: str, epoch: int, voters: Sequence[str] = ("n2", "n3")) -> None:
        """``leader`` wins ``epoch`` with the votes of ``voters`` and its own."""
        own = NODES.index(leader) + 1
        voters = [v for v in voters if v != leader]
        self.event(leader, "state", {"from": "follower"}, state="prospective")
        self.event(
            leader,
            "state",
            {"from": "prospective"},
            state="candidate",
            epoch=epoch,
            voted=own,
            leader=-1,
        )
        for voter in voters:
            self.grant(voter, leader, epoch)
        self.win(leader, epoch, [own, *(NODES.index(v) + 1 for v in voters)])
        for voter in voters:
            self.event(voter, "state", {"from": "unattached"}, state="follower", leader=own)

    def win(self, leader: str, epoch: int, granting: list[int], **change: Any) -> None:
        own = NODES.index(leader) + 1
        self.event(
            leader,
            "state",
            {"from": "candidate"},
            state="leader",
            epoch=epoch,
            leader=own,
            voted=-1,
            hw=-1,
        )
        detail = {"granting": granting, "voters": [1, 2, 3], "epoch_start": self._end(leader)}
        self.event(leader, "elected", {**detail, **change})
        self.append(leader, epoch, control=True)

    def append(
        self, leader: str, epoch: int, value: bytes = b"v", *, control: bool = False
    ) -> bytes:
        """The leader writes a batch; return it for followers."""
        base = self._end(leader)
        if control:
            batch = leader_change(base, epoch, NODES.index(leader) + 1)
        else:
            batch = encode_batch(base, epoch, 0, [(None, setting(value))], control)
        self.store(leader, batch, "leader")
        return batch

    def store(self, node: str, batch: bytes, by: str = "follower") -> None:
        self.logs[node].append(batch)
        self.event(
            node, "append", {**about(batch), "by": by}, leo=parse_header(batch).last_offset + 1
        )

    def copy(self, leader: str, *followers: str) -> None:
        """Followers fetch what they lack."""
        for follower in followers:
            for batch in self.logs[leader][len(self.logs[follower]) :]:
                self.store(follower, batch)

    def commit(self, *nodes: str) -> None:
        """Each node's high watermark reaches its log end, and it delivers."""
        for node in nodes:
            old, new = max(self.at[node]["hw"], 0), self._end(node)
            self.event(node, "hw", hw=new)
            for batch in self.logs[node]:
                if parse_header(batch).base_offset >= max(old, self.delivered(node)):
                    self.event(node, "commit", about(batch))

    def delivered(self, node: str) -> int:
        last = [
            e.detail["last"] + 1
            for e in self.events
            if e.node == node
            and e.kind == "commit"
            and e.incarnation == self.at[node]["incarnation"]
        ]
        return int(last[-1]) if last else 0

    def images(self, label: str = "final") -> list[DiskImage]:
        return [self.image(name, label) for name in NODES]

    def image(self, node: str, label: str = "final") -> DiskImage:
        at = self.at[node]
        state = {"leaderEpoch": at["epoch"], "leaderId": at["leader"], "votedId": at["voted"]}
        log = b"".join(self.logs[node])
        return DiskImage(node=node, label=label, pieces=(log,), quorum_state=state)

    def write(self, *records: bytes, control: bool = False) -> int:
        """n1, which leads epoch 1, commits one batch of ``records`` on all; return its offset."""
        base = self._end("n1")
        pairs: list[tuple[bytes | None, bytes | None]] = [(None, record) for record in records]
        self.store("n1", encode_batch(base, 1, 0, pairs, control), "leader")
        self.copy("n1", "n2", "n3")
        self.commit("n1", "n2", "n3")
        return base

    def write_control(self, *records: tuple[bytes, bytes]) -> int:
        """As :meth:`write`, for control records (key, value)."""
        base = self._end("n1")
        self.store("n1", encode_batch(base, 1, 0, list(records), True), "leader")
        self.copy("n1", "n2", "n3")
        self.commit("n1", "n2", "n3")
        return base

    def one_epoch(self) -> None:
        """n1 leads epoch 1 and commits two batches everywhere."""
        self.elect("n1", 1)
        self.append("n1", 1)
        self.copy("n1", "n2", "n3")
        self.commit("n1", "n2", "n3")


def about(batch: bytes) -> dict[str, int]:
    header = parse_header(batch)
    return {
        "base": header.base_offset,
        "last": header.last_offset,
        "epoch": header.epoch,
        "crc": header.crc,
    }


def leader_change(base: int, epoch: int, leader: int) -> bytes:
    """The batch that begins an epoch."""
    body = {"version": 0, "leader_id": leader, "voters": [], "granting_voters": []}
    return encode_batch(base, epoch, 0, [encode_control(LEADER_CHANGE, body)], control=True)


def setting(value: bytes) -> bytes:
    """A metadata record that may stand anywhere."""
    fields = {"resource_type": 4, "resource_name": "", "name": "k", "value": value.decode()}
    return encode_record("ConfigRecord", 0, fields)


MakeRun = Callable[..., RunData]


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def quorum() -> Quorum:
    return Quorum()


@pytest.fixture
def traces(quorum: Quorum) -> Quorum:
    """Traces and logs of nodes, for tests that any system could write."""
    return quorum


@pytest.fixture
def make_run() -> MakeRun:
    def make(
        history: History | None = None,
        quorum: Quorum | None = None,
        *,
        images: Sequence[DiskImage] | None = None,
        faults: Sequence[FaultEvent] = (),
        ordered: bool = True,
        capture: Capture | None = None,
        **test: Any,
    ) -> RunData:
        if images is None:
            images = quorum.images() if quorum else []
        ops = history.ops if history else []
        events = quorum.events if quorum else []
        ended = max([event.mono * 1000 for event in events] + [op.time for op in ops], default=0)
        clock = {name: {"offset_us": 0} for name in NODES}
        return RunData.from_memory(
            ops,
            events,
            faults,
            images,
            {"nodes": NODES, "clock": clock, "judged_until": ended, **test},
            ordered=ordered,
            capture=capture,
        )

    return make


@pytest.fixture
def capture() -> Capture:
    return Capture()


class Records:
    """Metadata records, shortly; topics have ids made of one byte, brokers one incarnation."""

    TOPIC = bytes(15) + b"\x99"

    def topic(self, name: str = "t", topic_id: bytes = TOPIC) -> bytes:
        return encode_record("TopicRecord", 0, {"name": name, "topic_id": topic_id})

    def remove_topic(self, topic_id: bytes = TOPIC) -> bytes:
        return encode_record("RemoveTopicRecord", 0, {"topic_id": topic_id})

    def partition(self, replicas: list[int], isr: list[int] | None = None, **more: Any) -> bytes:
        isr = replicas if isr is None else isr
        fields = {
            "partition_id": 0,
            "topic_id": self.TOPIC,
            "replicas": replicas,
            "isr": isr,
            "leader": isr[0] if isr else -1,
            "leader_epoch": 0,
            "partition_epoch": 0,
            **more,
        }
        return encode_record("PartitionRecord", 2, fields)

    def change(self, **fields: Any) -> bytes:
        fields = {"partition_id": 0, "topic_id": self.TOPIC, **fields}
        return encode_record("PartitionChangeRecord", 2, fields)

    def register(
        self, broker_id: int, epoch: int, *, incarnation: int = 1, fenced: bool = True
    ) -> bytes:
        fields = {
            "broker_id": broker_id,
            "incarnation_id": bytes(15) + bytes([incarnation]),
            "broker_epoch": epoch,
            "end_points": [],
            "features": [],
            "rack": None,
            "fenced": fenced,
            "in_controlled_shutdown": False,
        }
        return encode_record("RegisterBrokerRecord", 1, fields)

    def fence(self, broker_id: int, epoch: int, fenced: int) -> bytes:
        """``fenced`` 1 to fence, -1 to unfence."""
        fields = {"broker_id": broker_id, "broker_epoch": epoch, "fenced": fenced}
        return encode_record("BrokerRegistrationChangeRecord", 1, fields)

    def stopping(self, broker_id: int, epoch: int) -> bytes:
        """The broker has begun its controlled shutdown."""
        fields = {"broker_id": broker_id, "broker_epoch": epoch, "in_controlled_shutdown": 1}
        return encode_record("BrokerRegistrationChangeRecord", 1, fields)

    def record(self, kind: str, /, **fields: Any) -> bytes:
        return encode_record(kind, 0, fields)

    def record_of(self, kind: str, version: int, /, **fields: Any) -> bytes:
        return encode_record(kind, version, fields)

    def feature(self, name: str, level: int) -> bytes:
        return self.record("FeatureLevelRecord", name=name, feature_level=level)

    def clear_elr(self, topic: str) -> bytes:
        return self.record("ClearElrRecord", topic_name=topic)

    def config(self, topic: str, name: str, value: str | None) -> bytes:
        return self.record(
            "ConfigRecord", resource_type=2, resource_name=topic, name=name, value=value
        )


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def first_of_epoch() -> Callable[[int, int, int], bytes]:
    return leader_change


def fault(
    number: int, kind: str, begin: float, end: float | None, *targets: str
) -> list[FaultEvent]:
    """The events of one fault, times in seconds; ``end`` None when it never ended."""
    times = [("start", begin)] + ([("stop", end)] if end is not None else [])
    return [
        FaultEvent(
            id=number,
            phase="start" if phase == "start" else "stop",
            kind=kind,
            shape="one",
            targets=list(targets),
            time=int(at * SECOND),
            done=int(at * SECOND),
        )
        for phase, at in times
    ]


@pytest.fixture
def make_fault() -> Callable[..., list[FaultEvent]]:
    return fault


@pytest.fixture
def cluster(quorum: Any, records: Any) -> Any:
    """n1 leads epoch 1; brokers 1, 2 and 3 are registered, unfenced and hold partition t-0."""
    quorum.one_epoch()
    quorum.epochs = {}
    for broker in (1, 2, 3):
        epoch = quorum.epochs[broker] = quorum._end("n1")
        quorum.write(records.register(broker, epoch))
        quorum.write(records.fence(broker, epoch, -1))
    quorum.write(records.topic(), records.partition([1, 2, 3]))
    return quorum
