"""The store in the simulator: members with settings drawn from the seed, and the watch on them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kraftwreck.harness.simulated.core import CorePlace, CoreSystem, Watch
from kraftwreck.harness.simulated.embedded import EmbeddedBinding, EmbeddedMember
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Send
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.store.machine import Store
from kraftwreck.nodes.store.service import StoreService
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.knobs import WorldKnobs, draw_world, pick
from kraftwreck.simulation.world import World
from kraftwreck.systems.raft.client import VERBS, StoreClient
from kraftwreck.systems.raft.invariants import BrokenError, Invariants, Seen

CLUSTER_ID: Final = "store"
SETTLED_US: Final = 10_000_000
"""Microseconds of health after which one leader has brought all members up."""
_SNAPSHOT_BYTES: Final = "snapshot_bytes"


class RecordedStore(Store):
    """A store that remembers which records it was given, with their offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.applied: list[tuple[int, bytes]] = []

    def apply(self, offset: int, record: bytes) -> dict[str, Any]:
        """Apply a committed command."""
        self.applied.append((offset, record))
        return super().apply(offset, record)


def make(place: CorePlace) -> EmbeddedMember:
    """Return a member of the store on the disk of ``place``."""
    members = {i: Endpoint(name, 1) for i, name in enumerate(place.names, 1)}
    settings: dict[str, Any] = dict(place.settings)
    snapshot_bytes = settings.pop(_SNAPSHOT_BYTES, 1 << 20)
    config = RaftConfig(place.id, CLUSTER_ID, members, place.seed, place.incarnation, **settings)
    recovered: Any = place.stored
    core = RaftCore(config, recovered, place.now, place.wall_ms)
    return EmbeddedMember(
        StoreService(core, machine=RecordedStore(), snapshot_bytes=snapshot_bytes)
    )


def draw_raft(seed: int, nodes: int) -> WorldKnobs:
    """Return the settings of a simulated run: those of the world, and Raft's options."""
    world = draw_world(seed, nodes)
    node = {
        "pre_vote": pick((1, 0), seed, "pre-vote"),
        "check_quorum": pick((1, 1, 0), seed, "check-quorum"),
        "read_index": pick((1, 1, 1, 0), seed, "read-index"),
        "append_max_bytes": pick((1 << 20, 1 << 20, 300, 1), seed, "append"),
        "snapshot_piece_bytes": pick((1 << 18, 100, 60), seed, "piece"),
        _SNAPSHOT_BYTES: pick((1 << 20, 4000, 1000), seed, "snapshot"),
    }
    if pick((False, True), seed, "quick"):
        node |= {"election_timeout_ms": 300, "heartbeat_ms": 50, "request_timeout_ms": 150}
    return msgspec.structs.replace(world, node=node)


class RaftWatch(Watch):
    """Judges each member once the durable effects of a step are complete, before its messages."""

    def __init__(self, world: World, failures: Failures) -> None:
        super().__init__(world, failures)
        self._rules = Invariants()
        world.wires.on_send.append(self._on_send)
        world.wires.on_reply.append(self._on_reply)

    def on_trace(self, host: Host, event: TraceEvent) -> None:
        """Judge the member, or its death by an assertion of its own."""
        if event.kind == "fatal":
            self.fail("fatal", f"{event.node}: {event.detail.get('reason')}", event)
        elif event.kind != "stop":
            self._judge(host)

    def _on_send(self, host: Host, effect: Send) -> None:
        self._judge(host)

    def _on_reply(self, host: Host, rpc: Any, effect: Any) -> None:
        self._judge(host, effect.message)

    def _judge(self, host: Host, message: Any = None) -> None:
        if host.node is None:
            return
        seen = _seen(host)
        try:
            self._rules.step(seen)
            if message is not None:
                self._rules.sends(seen, message)
        except BrokenError as broken:
            name, _, _ = str(broken).partition(":")
            shown = [] if host.last_trace is None else [host.last_trace]
            self.fail(name.replace(" ", "-"), f"{host.name}: {broken}", *shown)

    def finish(self) -> None:
        """Let the healed cluster run on; then one member leads, and all hold the same."""
        world = self.world
        world.run(world.now + SETTLED_US, stop=self._settled)
        if self._settled():
            return
        members = {h.name: _member(h) for h in world.hosts if h.node is not None}
        found = {name: (m.consensus.core.term, m.consensus.leads) for name, m in members.items()}
        if not any(member.consensus.leads for member in members.values()):
            self.fail("liveness", f"nobody leads; terms and leaders are {found}")
        elif len({_commit(m) for m in members.values()}) > 1 or len(members) < len(world.hosts):
            self.fail("liveness", f"members do not catch up; terms and leaders are {found}")
        else:
            self.fail("state-machine-safety", "members hold different values")

    def _settled(self) -> bool:
        members = [_member(host) for host in self.world.hosts if host.node is not None]
        if len(members) < len(self.world.hosts) or not any(m.consensus.leads for m in members):
            return False
        states = [(_commit(m), m.machine.values) for m in members]
        return all(state == states[0] for state in states)


def _member(host: Host) -> StoreService:
    node = host.node
    assert isinstance(node, EmbeddedMember)
    assert isinstance(node.service, StoreService)
    return node.service


def _core(member: StoreService) -> RaftCore:
    core = member.consensus.core
    assert isinstance(core, RaftCore)
    return core


def _commit(member: StoreService) -> int:
    return _core(member).commit_offset


def _seen(host: Host) -> Seen:
    member, disk = _member(host), host.disk
    assert isinstance(disk, Disk)
    assert isinstance(member.machine, RecordedStore)
    saved = disk.quorum_state
    return Seen(
        id=host.id,
        life=host.life,
        core=_core(member),
        saved=(saved.epoch, saved.voted_id) if saved is not None else (0, -1),
        flushed_end=disk.ends[disk.flushed - 1] if disk.flushed else disk.start,
        applied=member.machine.applied,
    )


def _state(node: Any) -> object:
    core = node.service.consensus.core
    return core.state.name, core.term, core.voted_for, core.log.end_offset, core.commit_offset


CORE = CoreSystem(
    name="raft",
    about="a replicated store on push Raft",
    make=make,
    client=StoreClient,
    verbs=VERBS,
    generic=("cas-register", "register", "append", "set", "counter", "txn"),
    sizes=(3, 3, 5, 4),
    draw=draw_raft,
    watches=(RaftWatch,),
    binding=EmbeddedBinding,
    state=_state,
)
"""The core of the system ``raft``."""
