"""Faults on real hosts: nftables drops, kill -9, SIGSTOP, each with measured evidence."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from harness.deployment import Deployment
from harness.environment import Evidence, Grudge
from harness.kafka_client import KafkaClient
from harness.remote import RemoteError, on_all
from harness.voter_changes import VoterChange

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

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(self.deployment.controllers)

    @property
    def dynamic_quorum(self) -> bool:
        """Deployed quorums are static."""
        return False

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
        self._kills[node] += 1
        label = f"kill-{self._kills[node]}"
        return {node: self.deployment.kill(node, label)}

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
        """Refused (RemoteError): a host would have to lose its page cache."""
        raise RemoteError(node, "a loss of power is simulated only; run this test with -c sim")

    def wipe(self, node: str) -> Evidence:
        """Refused (RemoteError)."""
        raise RemoteError(node, "disks are wiped in the simulator only; use -c sim")

    def change_voters(self, changes: Sequence[VoterChange]) -> Evidence:
        """Refused (RemoteError): the deployed quorum is static."""
        raise RemoteError(
            "the quorum", "the voters of a deployed quorum are fixed; change them with -c sim"
        )

    def voter_changes(self) -> Evidence:
        """Nothing is under way."""
        return {"ended": [], "open": 0}

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
        """Close the connections to the nodes."""
        for client in self._clients.values():
            with contextlib.suppress(OSError):
                client.close()
