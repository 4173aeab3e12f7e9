"""The system ``raft`` on hosts: a process of the store on each, from the archive of the nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kraftwreck.harness.archive import PROJECT_TREE, build_archive, digest, with_bytecode
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.gateway import dial
from kraftwreck.harness.deploy.declaration import OutputLine, Place, Process
from kraftwreck.harness.deploy.plain import PlainDeployed, PlainSystem
from kraftwreck.harness.options import RunOptions
from kraftwreck.nodes.store.serve import READY
from kraftwreck.nodes.store.service import NOT_LEADER
from kraftwreck.systems.raft.client import PORT, VERBS, HostClient

MEMBERS_PORT: Final = 9093
"""Where members listen for each other."""
_PYTHON: Final = "/usr/bin/python3"
_ASK_S: Final = 0.3


class RaftSystem(PlainSystem):
    """The store on Raft. ``tree`` is the folder of the node code."""

    name = "raft"
    about = "a replicated store on push Raft; the second consensus core"
    default_workload = "cas-register"
    workloads = ()
    verbs = VERBS

    def __init__(self, tree: Path = PROJECT_TREE) -> None:
        self._tree = tree

    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> PlainDeployed:
        """Install the tree ``nodes`` on ``hosts``."""
        return PlainSystem.deploy(RaftSystem(nodes), hosts, options, nodes)

    def describe(self, nodes: Path) -> Mapping[str, Any]:
        """Return the digest of the node code."""
        return {"nodes": digest(build_archive(nodes))}

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        """Return the one process of a host."""
        archive = f"{place.configuration()}/nodes.zip"
        members = ",".join(f"{p.number}@{p.ip}:{MEMBERS_PORT}" for p in places)
        argv = (
            *(_PYTHON, "-m", "kraftwreck.nodes.store.serve", "--id", str(place.number)),
            *("--members", members, "--clients", f"{place.ip}:{PORT}", "--data", place.data()),
        )
        return [
            Process(
                argv=argv,
                environment={"PYTHONPATH": archive},
                files={archive: with_bytecode(build_archive(self._tree))},
                folders=(place.data(),),
                ports={"members": MEMBERS_PORT, "clients": PORT},
                ready=OutputLine(READY),
                collect=(place.data(),),
            )
        ]

    def client(self, place: Place) -> HostClient:
        """Open a client of the member at ``place``."""
        return HostClient(place)

    def unready(self, places: Sequence[Place]) -> str:
        """Return that nobody leads yet, "" once a member does."""
        return "" if self.leader(places) is not None else "no member leads"

    def leader(self, places: Sequence[Place]) -> str | None:
        """Return the host that leads by a member's word, None if none is known."""
        names = {place.number: place.name for place in places}
        for place in places:
            told = _told(place)
            if told is None:
                continue
            if told.get("error") != NOT_LEADER:
                return place.name
            if told["leader"] in names:
                return names[told["leader"]]
        return None


def _told(place: Place) -> dict[str, Any] | None:
    """Return the answer of a member to a read, None if there is none soon."""
    try:
        with dial((place.ip, PORT), _ASK_S, place.gateway) as connection:
            connection.sendall(b'{"do":"read","key":0}\n')
            answer: dict[str, Any] = json.loads(connection.makefile("rb").readline())
            return answer
    except (OSError, ValueError):
        return None


SYSTEM: Final = RaftSystem()
"""The entry point ``raft``."""
