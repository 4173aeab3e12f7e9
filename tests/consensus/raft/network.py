"""A deterministic network and disks for members of a Raft group, in virtual time.

The test decides about everything: which message is delivered, lost or duplicated, who is cut off,
and which part of a disk that was not flushed survives a crash. ``watch`` (``invariants.Watch``)
checks the invariants after every step of a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.nodes.consensus.effects import (
    Abandon,
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    Effect,
    Event,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    Message,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Tick,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.embedded import Embedded, StateMachine
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import read_header
from kraftwreck.systems.raft.invariants import BrokenError

MS = 1000
CLUSTER = "raft"


@dataclass
class Disk:
    """A member's disk: ``flushed`` counts the batches that survive any crash."""

    quorum_state: WriteQuorumState | None = None
    batches: list[bytes] = field(default_factory=list)
    flushed: int = 0
    start_offset: int = 0
    snapshots: dict[tuple[int, int], bytes] = field(default_factory=dict)
    parts: dict[tuple[int, int], bytearray] = field(default_factory=dict)

    def apply(self, effect: Effect) -> None:
        """Carry out a durable effect; other effects do nothing."""
        if isinstance(effect, WriteQuorumState):
            self.quorum_state = effect
        elif isinstance(effect, AppendLog):
            self.batches.append(effect.batch)
        elif isinstance(effect, FlushLog):
            self.flushed = len(self.batches)
        elif isinstance(effect, TruncateLog):
            while self.batches and parse_header(self.batches[-1]).last_offset >= effect.end_offset:
                self.batches.pop()
            self.flushed = len(self.batches)
        elif isinstance(effect, AppendSnapshot):
            key = (effect.end_offset, effect.epoch)
            if effect.position == 0:
                self.parts[key] = bytearray()
            if len(self.parts[key]) != effect.position:
                raise BrokenError(f"snapshots: a piece at {effect.position} of {key}")
            self.parts[key] += effect.data
        elif isinstance(effect, FinishSnapshot):
            key = (effect.end_offset, effect.epoch)
            self.snapshots[key] = bytes(self.parts.pop(key))
        elif isinstance(effect, DropSnapshot):
            self.parts.pop((effect.end_offset, effect.epoch), None)
        elif isinstance(effect, InstallSnapshot):
            self.batches, self.flushed = [], 0
            self._start_at(effect.end_offset)
        elif isinstance(effect, CleanLog):
            kept = [b for b in self.batches if parse_header(b).last_offset >= effect.start_offset]
            self.flushed = max(0, self.flushed - (len(self.batches) - len(kept)))
            self.batches = kept
            self._start_at(effect.start_offset)

    def _start_at(self, offset: int) -> None:
        self.start_offset = offset
        self.snapshots = {k: v for k, v in self.snapshots.items() if k[0] >= offset}

    @property
    def flushed_end(self) -> int:
        """The end offset of the part of the log that survives any crash."""
        if not self.flushed:
            return self.start_offset
        return parse_header(self.batches[self.flushed - 1]).last_offset + 1

    def lose_unflushed(self, keep: int) -> None:
        """Lose what was not flushed, but for the first ``keep`` batches of it."""
        del self.batches[self.flushed + keep :]
        self.flushed = len(self.batches)
        self.parts.clear()

    def recovered(self) -> Recovered:
        """Return the state that a new process finds."""
        files = [
            SnapshotFile(*key, len(content), read_header(content).timestamp)
            for key, content in sorted(self.snapshots.items())
        ]
        latest = self.snapshots[files[-1].id] if files else b""
        if files and self.start_offset + 1 <= files[-1].end_offset:
            last = parse_header(self.batches[-1]).last_offset + 1 if self.batches else 0
            if last < files[-1].end_offset:  # As recovery does: the log starts at the snapshot.
                self.batches, self.flushed = [], 0
                self._start_at(files[-1].end_offset)
        return Recovered(self.quorum_state, list(self.batches), self.start_offset, files, latest)


@dataclass(slots=True)
class Packet:
    """A message under way. ``life`` is the process of the request's sender."""

    source: int
    target: int
    message: Message
    correlation: int
    life: int
    is_answer: bool


class Register:
    """A state machine: one value, with reads, writes and compare-and-set."""

    def __init__(self) -> None:
        self.value = 0
        self.applied: list[tuple[int, bytes]] = []

    def apply(self, offset: int, record: bytes) -> Any:
        self.applied.append((offset, record))
        kind, *values = record.decode().split()
        if kind == "write":
            self.value = int(values[0])
            return True
        if kind == "cas":
            done = self.value == int(values[0])
            self.value = int(values[1]) if done else self.value
            return done
        return self.value

    def snapshot(self) -> Iterable[bytes]:
        yield str(self.value).encode()

    def restore(self, records: Iterable[bytes]) -> None:
        (self.value,) = (int(record) for record in records)


class Group:
    """Members 1..n with their disks and the messages between them.

    ``settings`` go into each RaftConfig.
    """

    def __init__(
        self,
        size: int,
        seed: int = 1,
        *,
        machine: Callable[[], StateMachine] = Register,
        snapshot_bytes: int = 1 << 20,
        watch: Callable[[Group, int], None] = lambda group, i: None,
        **settings: Any,
    ) -> None:
        self.now = 0
        self.seed = seed
        self.settings = settings
        self.snapshot_bytes = snapshot_bytes
        self.watch = watch
        self.make = machine
        self.addresses = {i: Endpoint(f"m{i}", 1) for i in range(1, size + 1)}
        self.disks = {i: Disk() for i in self.addresses}
        self.lives = dict.fromkeys(self.addresses, 0)
        self.members: dict[int, Embedded] = {}
        self.packets: list[Packet] = []
        self.cut: set[tuple[int, int]] = set()
        self.abandoned = 0
        self.sent: list[Packet] = []
        self._tokens: dict[int, Packet] = {}
        self._token = 0

    # --- life of members --------------------------------------------------------------------

    def start_all(self) -> None:
        for i in self.addresses:
            self.start(i)

    def start(self, i: int) -> None:
        self.lives[i] += 1
        config = RaftConfig(i, CLUSTER, self.addresses, self.seed, self.lives[i], **self.settings)
        core = RaftCore(config, self.disks[i].recovered(), self.now, 0)
        self.members[i] = Embedded(core, self.make(), snapshot_bytes=self.snapshot_bytes)
        self._carry_out(i, self.members[i].start(self.now, self.now // MS))

    def kill(self, i: int, keep: int = 0) -> None:
        """Kill a member with loss of what it has not flushed, but for ``keep`` batches."""
        del self.members[i]
        self.disks[i].lose_unflushed(keep)

    def core(self, i: int) -> RaftCore:
        core = self.members[i].core
        assert isinstance(core, RaftCore)
        return core

    def machine(self, i: int) -> Any:
        return self.members[i]._machine

    # --- steps ------------------------------------------------------------------------------

    def step(self, i: int, event: Event) -> None:
        self._carry_out(i, self.members[i].step(event, self.now, self.now // MS))

    def settle(self, i: int) -> None:
        """Carry out what a member does after a proposal."""
        self.core(i).now = self.now
        self._carry_out(i, self.members[i].settle())

    def _carry_out(self, i: int, effects: list[Effect]) -> None:
        for effect in effects:
            self.disks[i].apply(effect)
        for effect in effects:
            if isinstance(effect, Send):
                packet = Packet(
                    i, effect.destination, effect.message, effect.correlation, self.lives[i], False
                )
                self.packets.append(packet)
                self.sent.append(packet)
            elif isinstance(effect, Reply):
                asked = self._tokens.pop(effect.token)
                answer = Packet(
                    i, asked.source, effect.message, asked.correlation, asked.life, True
                )
                self.packets.append(answer)
                self.sent.append(answer)
            elif isinstance(effect, Abandon):
                self.abandoned += 1
                self._tokens.pop(effect.token)
        self.watch(self, i)

    def deliver(self, packet: Packet) -> None:
        """Deliver one message; nothing happens if its receiver is down or cut off."""
        if packet.target not in self.members or (packet.source, packet.target) in self.cut:
            return
        if packet.is_answer:
            if self.lives[packet.target] == packet.life:
                answer = ResponseReceived(packet.source, packet.correlation, packet.message)
                self.step(packet.target, answer)
            return
        self._token += 1
        self._tokens[self._token] = packet
        self.step(packet.target, RequestReceived(self._token, packet.message))

    def tick(self) -> None:
        """Let every member whose deadline has passed act."""
        for i in list(self.members):
            if i in self.members and self.members[i].deadline <= self.now:
                self.step(i, Tick())

    def flush(self, most: int = 10_000) -> None:
        """Deliver everything under way, in order."""
        for _ in range(most):
            if not self.packets:
                return
            self.deliver(self.packets.pop(0))
        raise BrokenError("liveness: members exchange messages without end")

    def run(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, with a reliable network but for ``cut``; True once ``until`` holds."""
        for _ in range(milliseconds // 5):
            if until():
                return True
            self.now += 5 * MS
            self.tick()
            self.flush()
        return until()

    # --- partitions -------------------------------------------------------------------------

    def isolate(self, *group: int) -> None:
        """Cut all links between ``group`` and the other members."""
        inside = set(group)
        self.cut = {
            (a, b) for a in self.addresses for b in self.addresses if (a in inside) != (b in inside)
        }

    def heal(self) -> None:
        self.cut = set()

    # --- clients ----------------------------------------------------------------------------

    def leader(self) -> int | None:
        """The member that leads the highest term, with an entry of it committed."""
        leading = [i for i in self.members if self.members[i].leads]
        return max(leading, key=lambda i: self.core(i).term, default=None)

    def elect(self) -> int:
        """Run until there is a leader."""
        assert self.run(20_000, lambda: self.leader() is not None), "no leader"
        leader = self.leader()
        assert leader is not None
        return leader

    def propose(self, i: int, *records: bytes) -> list[Any]:
        """Propose records to member ``i``; the list receives the outcome."""
        outcomes: list[Any] = []
        self.members[i].propose(records, outcomes.append)
        self.settle(i)
        return outcomes

    def read(self, i: int) -> list[Any]:
        """Begin a linearizable read at member ``i``; the list receives the outcome."""
        outcomes: list[Any] = []
        self.members[i].barrier(outcomes.append)
        self.settle(i)
        return outcomes
