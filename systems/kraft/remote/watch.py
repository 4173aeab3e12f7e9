"""Observes nodes on hosts: the leader, the busiest broker, and the times of events."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from kraftwreck.checkers.recorded.clocks import NodeClock
from kraftwreck.harness.capabilities import Evidence
from kraftwreck.harness.remote.follow import TraceFollowers
from kraftwreck.harness.remote.session import on_all
from kraftwreck.harness.system import Seen
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.settings import LOGS

_QUORUM_QUESTION = {
    "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
}
_ALL_TOPICS: dict[str, Any] = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}
_TIMEOUT_MS = 700


class RemoteWatch:
    """Queries the nodes of a deployment, and follows their traces. Safe to share by threads."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._claim: tuple[int, str] | None = None
        self._clients = {
            name: deployment.client(name, "kraftwreck-nemesis") for name in deployment.controllers
        }
        self._clients_lock = threading.Lock()
        self._clocks_lock = threading.Lock()
        self._samples: dict[str, list[tuple[int, int]]] = {name: [] for name in deployment.nodes}
        self._offsets: dict[str, int] = {}
        self._followers: TraceFollowers | None = None

    # --- who leads ------------------------------------------------------------------------

    def leader(self) -> str | None:
        """Return the leader of the highest epoch, from the live traces if they are followed.

        Otherwise it queries all controllers at once. If none claims to lead, the last known claim
        counts, because paused nodes do not respond.
        """
        if self._followers is not None and self._claim is not None:
            return self._claim[1]
        with self._clients_lock:
            claims = on_all(self._deployment.controllers, self._claimed_epoch)
        fresh = [(epoch, name) for name, epoch in claims.items() if epoch is not None]
        if fresh:
            self._note_leader(*max(fresh))
        return self._claim[1] if self._claim else None

    def _claimed_epoch(self, name: str) -> int | None:
        """Return the epoch that the node claims to lead, None if it leads none."""
        client = self._clients[name]
        answer = client.call("DescribeQuorum", 1, _QUORUM_QUESTION, _TIMEOUT_MS)
        if answer.status != "ok" or answer.response["error_code"] != 0:
            return None
        for topic in answer.response["topics"]:
            for partition in topic["partitions"]:
                node_id = self._deployment.hosts[name].node_id
                if partition["error_code"] == 0 and partition["leader_id"] == node_id:
                    return int(partition["leader_epoch"])
        return None

    def _note_leader(self, epoch: int, node: str) -> None:
        if self._claim is None or epoch >= self._claim[0]:
            self._claim = (epoch, node)

    def busiest_broker(self) -> str | None:
        """Return the broker that leads most partitions, from the first response."""
        deployment = self._deployment
        names = {deployment.hosts[name].node_id: name for name in deployment.brokers}
        with self._clients_lock:
            for client in self._clients.values():
                answer = client.call("Metadata", 12, _ALL_TOPICS, _TIMEOUT_MS)
                if answer.status == "ok":
                    led = [
                        p["leader_id"] for t in answer.response["topics"] for p in t["partitions"]
                    ]
                    return names.get(max(names, key=led.count, default=-1))
        return None

    # --- live traces ----------------------------------------------------------------------

    def follow(self, seen: Seen) -> None:
        """Call ``seen`` for every new trace event, which :meth:`leader` then uses, too."""
        self.unfollow()

        def see(event: TraceEvent, host_us: int) -> None:
            if event.state == "leader":
                self._note_leader(event.epoch, event.node)
            seen(event, self._when(event, host_us))

        self._followers = TraceFollowers(self._deployment.remotes, f"{LOGS}/trace.jsonl", see)
        self._followers.start()

    def unfollow(self) -> None:
        """Stop following the traces."""
        if self._followers is not None:
            self._followers.close()
            self._followers = None

    # --- clocks ---------------------------------------------------------------------------

    def measure_clocks(self) -> dict[str, int]:
        """Return every host's monotonic clock minus the control node's, in µs, to date traces."""
        self._offsets = self._deployment.clock_offsets()
        return self._offsets

    def note_clock(self, node: str, set_clock: Evidence) -> None:
        """Record a change of the node's clocks, from its evidence."""
        with self._clocks_lock:
            self._samples[node].append((set_clock["since_us"], set_clock["mono_us"]))

    def clock_samples(self) -> dict[str, list[tuple[int, int]]]:
        """Return (host's, node's) monotonic clocks in µs at every change, and now, of nodes whose
        clocks were set."""
        changed = [node for node in self._deployment.nodes if self._samples[node]]
        now = on_all(changed, self._deployment.read_clock)
        return {node: sorted({*self._samples[node], now[node]}) for node in changed}

    def _when(self, event: TraceEvent, host_us: int) -> int:
        """Return when an event happened, by the control node's clock (µs)."""
        with self._clocks_lock:
            samples = list(self._samples.get(event.node, ()))
        happened = NodeClock(samples).time(event.mono) if samples else event.mono
        # It happened before the host passed it on, whatever its clocks say.
        return min(happened, host_us) - self._offsets.get(event.node, 0)

    def close(self) -> None:
        """Stop following; close the connections to the nodes."""
        self.unfollow()
        for client in self._clients.values():
            with contextlib.suppress(OSError):
                client.close()
