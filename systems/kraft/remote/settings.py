"""The settings of a run's nodes: roles, voters, ports, and the properties of each.

Controllers come first in the order of hosts, brokers follow them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.deploy import declaration
from kraftwreck.harness.deploy.declaration import MAIN, PortOpen, Process
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.uuids import draw_uuid, to_text
from kraftwreck.systems.kraft.options import BROKER, CONTROLLER, CONTROLLER_AND_BROKER

CODE = "/opt/kraftwreck/kraftwreck-nodes.pyz"
OTHER_CODE = "/opt/kraftwreck/kraftwreck-nodes-other.pyz"
CONFIG = "/etc/kraftwreck/node.properties"
DATA = f"{declaration.DATA}/data"
"""The data directory of a node; its parent may be a separate disk."""
LOGS = f"{declaration.LOGS}/{MAIN}"
IMAGES = f"{declaration.IMAGES}/{MAIN}"
PYTHON = "/usr/bin/python3"
START_S = 40.0
STOP_S = 5.0 * PATIENCE + 5
"""Seconds for a start (times the patience of the machine), and for an orderly shutdown."""
PORT = 9093
BROKER_PORT = 9092
FEW_VOTERS = 3
"""The number of initial voters in half of all dynamic quorums that have more controllers."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that all nodes of a run share.

    - ``brokers``: the number of hosts, the last ones, that are brokers
    - ``combined``: the other hosts are controllers and brokers, otherwise only controllers
    - ``port``, ``broker_port``: the ports of controllers and of brokers
    - ``dynamic``: voters can be changed (KIP-853), and some controllers may have to join
    - ``write_loss``: a kill loses the writes that a node has not fsynced, like a loss of power
    - ``own_clocks``: the clocks of each node can be set without affecting others
    - ``own_disks``: the disk of each node can be made to fail without affecting others
    - ``squeezable``: each node is in its own control groups, if the hosts have any
    - ``means``: the network fault drivers that hosts must have (``packets``, ``messages``)
    - ``tree``: the folder of the node code, a patched copy for planted bugs
    - ``other_tree``: the code to which nodes are upgraded, and from which they are downgraded
    - ``extra``: further properties, which override those set here
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
        """A Kafka uuid as text, drawn from the seed."""
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

    The seed chooses all controllers, or three of them.
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
        # Kept when the disk is replaced: all process starts of a host are distinct.
        "kraftwreck.incarnation.file": f"{LOGS}/incarnation",
        **({"kraftwreck.write.loss": "true"} if settings.write_loss else {}),
        **settings.extra,
    }


def process(
    host: Host, hosts: Sequence[Host], settings: Settings, code: Mapping[str, bytes]
) -> Process:
    """Return the node on ``host`` as a process; ``code`` has the files of its code by path."""
    lines = properties(host, hosts, settings)
    own = settings.port if roles(hosts, settings)[host.name] != BROKER else settings.broker_port
    return Process(
        argv=(PYTHON, CODE, "--config", CONFIG),
        files={CONFIG: "".join(f"{key}={value}\n" for key, value in lines.items()), **code},
        folders=(DATA,),
        ports={"requests": own},
        ready=PortOpen(own),
        ready_s=START_S,
        settle_s=0.0,
        stop_s=STOP_S,
        collect_mb=0,
        disk_limit_mb=0,
        images=True,
    )


def _quorum(controllers: Sequence[Host], settings: Settings) -> dict[str, str]:
    if settings.dynamic:
        servers = ",".join(f"{each.ip}:{settings.port}" for each in controllers)
        return {"controller.quorum.bootstrap.servers": servers}
    voters = ",".join(f"{each.node_id}@{each.ip}:{settings.port}" for each in controllers)
    return {"controller.quorum.voters": voters}
