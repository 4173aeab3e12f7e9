"""Faults on real hosts: nftables drops, kill -9, SIGSTOP, disks, each with measured evidence."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from harness.deployment import Deployment
from harness.environment import ClockSetting, Evidence, Grudge
from harness.kafka_client import KafkaClient
from harness.remote import RemoteError, on_all
from harness.remote_admin import RemoteAdmin
from harness.voter_changes import Members, VoterChange
from harness.workload import Answer, Call
from nodes.consensus.endpoint import Endpoint
from nodes.log.uuids import from_text

_QUORUM_QUESTION = {
    "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
}
_LEADER_TIMEOUT_MS = 700


class RemoteEnvironment:
    """The :class:`~harness.environment.Environment` of a deployment over SSH.

    Errors are :class:`RemoteError`. The control node's own packets are never dropped,
    because only addresses of nodes can be held a grudge against.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.nodes = tuple(deployment.nodes)
        self._kills = dict.fromkeys(self.nodes, 0)
        self._claim: tuple[int, str] | None = None
        self._clients = {
            name: KafkaClient(*deployment.address(name), "kraftwreck-nemesis")
            for name in deployment.controllers
        }
        self._clients_lock = threading.Lock()
        self._admin_clients = {
            name: KafkaClient(*deployment.address(name), "kraftwreck-admin")
            for name in deployment.controllers
        }
        self._admin = RemoteAdmin(self._members(), self._send)

    def _members(self) -> Members:
        deployment = self.deployment
        return Members(
            {name: deployment.hosts[name].node_id for name in deployment.controllers},
            {name: Endpoint(*deployment.address(name)) for name in deployment.controllers},
            deployment.settings.cluster_id,
            lambda name: from_text(deployment.directories[name]),
        )

    def _send(self, call: Call) -> Answer:
        client = self._admin_clients[call.node]
        return client.call(call.api, call.version, call.body, call.timeout_ms)

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(self.deployment.controllers)

    @property
    def dynamic_quorum(self) -> bool:
        return self.deployment.settings.dynamic

    @property
    def concurrent(self) -> bool:
        return True

    @property
    def open_changes(self) -> int:
        """How many voter changes that were asked for are not there yet."""
        return self._admin.open

    def leader(self) -> str | None:
        """Ask all controllers at once; return who claims the highest epoch, now or else lastly."""
        with self._clients_lock:
            claims = on_all(self.controllers, self._claimed_epoch)
        fresh = [(epoch, name) for name, epoch in claims.items() if epoch is not None]
        if fresh:
            self._claim = max(fresh)
        return self._claim[1] if self._claim else None

    def _claimed_epoch(self, name: str) -> int | None:
        """Return the epoch that the node says it leads, None when it leads none."""
        client = self._clients[name]
        answer = client.call("DescribeQuorum", 1, _QUORUM_QUESTION, _LEADER_TIMEOUT_MS)
        if answer.status != "ok" or answer.body["error_code"] != 0:
            return None
        for topic in answer.body["topics"]:
            for partition in topic["partitions"]:
                node_id = self.deployment.hosts[name].node_id
                if partition["error_code"] == 0 and partition["leader_id"] == node_id:
                    return int(partition["leader_epoch"])
        return None

    def drop(self, grudge: Grudge) -> Evidence:
        """Make every node drop what arrives from those it holds a grudge against.

        A node without a grudge drops nothing afterwards. Evidence per node: ``sources``,
        the ``ruleset`` read back, and the packets an earlier grudge had dropped.
        """
        unknown = set(grudge).union(*grudge.values()) - set(self.nodes)
        if unknown:
            raise ValueError(f"a grudge names unknown nodes: {', '.join(sorted(unknown))}")

        def drop_on(name: str) -> Evidence:
            peers = grudge.get(name, frozenset()) - {name}
            sources = [self.deployment.hosts[peer].ip for peer in sorted(peers)]
            return self.deployment.agents[name].ask("drop", sources=sources)

        return self._on_all(drop_on)

    def heal(self) -> Evidence:
        """Remove every drop; evidence per node: packets ``dropped`` by peer, and in all.

        Every node is tried, also when another one fails.
        """
        names = {host.ip: name for name, host in self.deployment.hosts.items()}

        def heal_on(name: str) -> Evidence:
            evidence = self.deployment.agents[name].ask("heal")
            evidence["dropped"] = {
                names.get(source, source): count for source, count in evidence["dropped"].items()
            }
            return evidence

        return self._on_all(heal_on)

    def _on_all(self, function: Callable[[str], dict[str, Any]]) -> Evidence:
        return dict(on_all(self.nodes, function))

    def kill(self, node: str) -> Evidence:
        """kill -9; the data directory as it was left becomes image ``kill-<k>``."""
        return {node: self.deployment.kill(node, self._label(node))}

    def _label(self, node: str) -> str:
        self._kills[node] += 1
        return f"kill-{self._kills[node]}"

    def start(self, node: str) -> Evidence:
        """Start the node again and wait until its port is open."""
        return {node: self.deployment.start(node)}

    def pause(self, node: str) -> Evidence:
        """SIGSTOP; evidence: the state letter before and after (T)."""
        return {node: self.deployment.pause(node)}

    def resume(self, node: str) -> Evidence:
        """SIGCONT; evidence: the state letter before (T) and after."""
        return {node: self.deployment.resume(node)}

    def cut_power(self, node: str) -> Evidence:
        """kill -9 a node that keeps to itself what it has not fsynced; image ``kill-<k>``.

        The evidence adds the log end the node told last, and the one its disk has. Refused
        (RemoteError) where the nodes were deployed without write loss: the kernel would
        keep what they wrote.
        """
        if not self.deployment.settings.write_loss:
            raise RemoteError(node, "the nodes were deployed without write loss: add -n power")
        return {node: self.deployment.cut_power(node, self._label(node))}

    def wipe(self, node: str) -> Evidence:
        """Remove the data directory and format a new one; evidence: both directory ids."""
        return {node: self.deployment.replace_disk(node)}

    def set_clock(self, node: str, setting: ClockSetting) -> Evidence:
        """Refused (RemoteError): the nodes run by their hosts' own clocks."""
        raise RemoteError(node, "the node was deployed without a clock of its own: add -n clock")

    def change_voters(self, changes: Sequence[VoterChange]) -> Evidence:
        """Hand ``changes`` to the operator; RemoteError for a static quorum."""
        if not self.dynamic_quorum:
            raise RemoteError("the quorum", "its voters are fixed: add --quorum dynamic")
        self._admin.ask(changes)
        return {change.node: {"asked": change.action} for change in changes}

    def voter_changes(self) -> Evidence:
        return {"ended": self._admin.take_ended(), "open": self._admin.open}

    def restore(self) -> list[str]:
        """Heal, resume and start everything, whatever state it is in; return what failed.

        For the end of a run: it never raises, and one broken node hides no other.
        """
        problems: list[str] = []

        def restore_one(name: str) -> None:
            steps: list[Callable[[], object]] = [
                lambda: self.deployment.agents[name].ask("heal"),
                lambda: self._resume_if_paused(name),
                lambda: self.deployment.start(name),
            ]
            for step in steps:
                try:
                    step()
                except RemoteError as error:
                    problems.append(str(error))

        on_all(self.nodes, restore_one)
        return problems

    def _resume_if_paused(self, name: str) -> None:
        if self.deployment.status(name).get("state") == "T":
            self.deployment.resume(name)

    def close(self) -> None:
        """End the operator, with what is open left undone; close the connections to the nodes."""
        self._admin.close()
        for client in (*self._clients.values(), *self._admin_clients.values()):
            with contextlib.suppress(OSError):
                client.close()
