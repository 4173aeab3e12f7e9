"""What the nodes of a run are told: roles, voters, ports, and the properties of each.

Controllers come first in the order of hosts, brokers follow them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.archive import PROJECT_TREE
from harness.clusters.cluster import Host
from harness.options import BROKER, CONTROLLER, CONTROLLER_AND_BROKER
from harness.remote.service import DATA, LOGS
from nodes.draw import draw_below
from nodes.log.uuids import draw_uuid, to_text

PORT = 9093
BROKER_PORT = 9092
FEW_VOTERS = 3
"""How many controllers vote at first in half of all dynamic quorums that have more."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all nodes of a run share.

    ``brokers`` of the hosts, the last ones, are brokers; with ``combined`` the others are
    controllers and brokers, otherwise controllers. ``port`` is that of controllers,
    ``broker_port`` that of brokers. In a ``dynamic`` quorum (KIP-853) voters can be changed,
    and some controllers may have to join. With ``write_loss`` a kill loses what a node has
    not fsynced, as a loss of power does. With ``own_clocks`` the clocks of nodes can be set,
    nobody else's being touched. With ``own_disks`` their disks can be made to fail, likewise.
    ``squeezable`` ones are in control groups of their own where the hosts have any. Hosts must
    have the ``means`` to disturb what is named there (``packets``, ``messages``). ``tree`` is
    the folder of the node code, a mutated copy for planted bugs; ``other_tree`` the code that
    nodes are upgraded to, and back. ``extra`` are further properties, which win over the ones
    written here.
    """

    seed: int
    tree: Path = PROJECT_TREE
    port: int = PORT
    brokers: int = 0
    combined: bool = False
    broker_port: int = BROKER_PORT
    dynamic: bool = False
    write_loss: bool = False
    own_clocks: bool = False
    own_disks: bool = False
    squeezable: bool = False
    means: frozenset[str] = frozenset()
    other_tree: Path | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster_id(self) -> str:
        """A Kafka uuid in its text form, drawn from the seed."""
        return to_text(draw_uuid(self.seed, "cluster.id"))


def roles(hosts: Sequence[Host], settings: Settings) -> dict[str, str]:
    """Return the ``process.roles`` of every host, by name."""
    controllers = len(hosts) - settings.brokers
    if controllers < 1:
        raise ValueError(f"{len(hosts)} hosts are too few for {settings.brokers} brokers")
    role = CONTROLLER_AND_BROKER if settings.combined else CONTROLLER
    return {
        host.name: role if position < controllers else BROKER for position, host in enumerate(hosts)
    }


def first_voters(hosts: Sequence[Host], settings: Settings) -> dict[str, str]:
    """Return the directory ids of the first voters of a dynamic quorum, by name.

    All controllers, or three of them, by seed.
    """
    by_name = roles(hosts, settings)
    controllers = [host for host in hosts if by_name[host.name] != BROKER]
    few = draw_below(2, settings.seed, "first voters")
    return {
        host.name: to_text(draw_uuid(settings.seed, "directory", host.node_id))
        for host in (controllers[:FEW_VOTERS] if few else controllers)
    }


def properties(host: Host, hosts: Sequence[Host], settings: Settings) -> dict[str, str]:
    """Return the configuration of the node on ``host``."""
    by_name = roles(hosts, settings)
    role = by_name[host.name]
    controllers = [each for each in hosts if by_name[each.name] != BROKER]
    listeners = []
    if role != BROKER:
        listeners.append(f"CONTROLLER://{host.ip}:{settings.port}")
    if role != CONTROLLER:
        listeners.append(f"PLAINTEXT://{host.ip}:{settings.broker_port}")
    return {
        "process.roles": role,
        "node.id": str(host.node_id),
        "cluster.id": settings.cluster_id,
        **_quorum(controllers, settings),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "log.dirs": DATA,
        "kraftwreck.node.name": host.name,
        "kraftwreck.seed": str(settings.seed),
        "kraftwreck.trace.file": f"{LOGS}/trace.jsonl",
        "kraftwreck.input.log": f"{LOGS}/inputs.log",
        # Counts on when the disk is replaced: no two process starts of a host are the same.
        "kraftwreck.incarnation.file": f"{LOGS}/incarnation",
        **({"kraftwreck.write.loss": "true"} if settings.write_loss else {}),
        **settings.extra,
    }


def _quorum(controllers: Sequence[Host], settings: Settings) -> dict[str, str]:
    if settings.dynamic:
        servers = ",".join(f"{each.ip}:{settings.port}" for each in controllers)
        return {"controller.quorum.bootstrap.servers": servers}
    voters = ",".join(f"{each.node_id}@{each.ip}:{settings.port}" for each in controllers)
    return {"controller.quorum.voters": voters}
