"""Shapes that hit brokers, RPCs of the quorum and its port, for the families of any system."""

from __future__ import annotations

from typing import Any, ClassVar

from kraftwreck.histories.disturbance import Part
from kraftwreck.nemesis.families.hosts import Host
from kraftwreck.nemesis.families.network import Network, NetworkShape, choose, pick_links, slow
from kraftwreck.nemesis.families.partitions import (
    Partition,
    PartitionShape,
    from_target,
    isolate,
)
from kraftwreck.nemesis.families.processes import Kill, Pause, Power, Terminate
from kraftwreck.nemesis.families.wire import Wire
from kraftwreck.nemesis.family import Aims, Shapes
from kraftwreck.nemesis.shapes import Shape, pick_one, pick_ring
from kraftwreck.systems.kraft.options import BROKER

RPCS = (
    *("Fetch", "Fetch", "Fetch", "Fetch", "Vote", "Vote", "Vote"),
    *("BeginQuorumEpoch", "BeginQuorumEpoch", "BeginQuorumEpoch"),
    *("EndQuorumEpoch", "FetchSnapshot", "AddRaftVoter", "UpdateRaftVoter", "ApiVersions"),
    *("BrokerRegistration", "BrokerHeartbeat", "ControllerRegistration", "Envelope"),
)
"""RPCs between nodes; those that elections and replication depend on are listed twice."""


def one_rpc(number: int) -> dict[str, Any]:
    """Drop or delay one kind of RPC only, or only its requests or responses.

    A middlebox, a full listener queue or a handler that hangs can make a single kind fail.
    """
    parts: tuple[Part, ...] = ("both", "request", "response", "response")
    what: dict[str, Any] = choose(({"drop": 100}, {"drop": 100}, {"drop": 50}, {}), number, "what")
    apis = (choose(RPCS, number, "api"),)
    return (what or slow(number)) | {"apis": apis, "part": choose(parts, number, "part")}


def port(number: int) -> dict[str, Any]:
    """Drop only packets of the controllers' port, like a firewall."""
    return {"drop": 100, "port": "controller"}


def _one(weight: int) -> Shape:
    return Shape(weight, 2, pick_one, role=BROKER)


def _all(weight: int) -> Shape:
    return Shape(weight, 2, pick_ring, role=BROKER, most=True)


_KILLED = (
    ("one", ("@",)),
    ("one", ("@",)),
    ("one", ("@leader",)),
    ("leader", ()),
    ("broker", ()),
    ("minority", ()),
    ("all", ()),
)


class BrokerPartition(Partition):
    """Partitions, also of brokers."""

    shapes: ClassVar[Shapes] = {
        **Partition.shapes,
        "broker": PartitionShape(20, 2, pick_one, isolate, role=BROKER),
        "mute-broker": PartitionShape(5, 2, pick_one, from_target, role=BROKER),
    }
    aimed: ClassVar[Aims] = (*Partition.aimed, ("broker", ()), ("mute-broker", ()))


class BrokerKill(Kill):
    """Kills, also of brokers."""

    shapes: ClassVar[Shapes] = {**Kill.shapes, "broker": _one(20), "brokers": _all(10)}
    aimed: ClassVar[Aims] = _KILLED


class BrokerPause(Pause):
    """Pauses, also of brokers."""

    shapes: ClassVar[Shapes] = {**Pause.shapes, "broker": _one(20), "brokers": _all(10)}
    aimed: ClassVar[Aims] = (*Pause.aimed, ("broker", ()))


class BrokerTerminate(Terminate):
    """Controlled shutdowns, also of brokers, which hand over their partitions."""

    shapes: ClassVar[Shapes] = {**Terminate.shapes, "broker": _one(30), "brokers": _all(10)}
    aimed: ClassVar[Aims] = (*Terminate.aimed, ("broker", ()))


class BrokerPower(Power):
    """Losses of power, also of brokers."""

    shapes: ClassVar[Shapes] = {**Power.shapes, "broker": _one(15)}
    aimed: ClassVar[Aims] = _KILLED


class BrokerHost(Host):
    """Crashes of machines, also of brokers."""

    shapes: ClassVar[Shapes] = {**Host.shapes, "broker": _one(15)}


class QuorumNetwork(Network):
    """Disturbed messages, also of one kind of RPC."""

    shapes: ClassVar[Shapes] = {**Network.shapes, "rpc": NetworkShape(30, 2, pick_links, one_rpc)}
    aimed: ClassVar[Aims] = (
        *Network.aimed,
        ("rpc", ()),
        ("rpc", ("@",)),
        ("rpc", ("@leader",)),
        ("rpc", ("@", "@leader")),
        ("rpc", ("@leader", "@")),
    )


class QuorumWire(Wire):
    """Damaged packets, also of the port of the quorum."""

    shapes: ClassVar[Shapes] = {
        **{name: shape for name, shape in Wire.shapes.items() if name != "names"},
        "port": NetworkShape(15, 2, pick_links, port),
        "names": Wire.shapes["names"],
    }
