"""Watches the ISRs that leaders propose (D9): each member with the epoch that its fetches carried.

A replica that restarts may have lost records. So the fetches of its last process say nothing about
it, and the controller must refuse a proposal that rests on them (KIP-903). It can only if the
proposal names the epoch of the process that fetched.

The request names the members with the epochs, and the state of recovery, that the leader has
proposed.

A leader knows the end of a follower's log by a fetch since it leads. Before, the log may have been
cut, and another broker has led.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.metadata.change_builder import RECOVERING
from kraftwreck.nodes.replication.events import FetchReceived
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on
from kraftwreck.systems.kraft.simulated.requests_of_step import requests_of_step

ALTER: Final = "AlterPartition"
UNKNOWN: Final = -1
Place = tuple[int, int, PartitionKey, int]


class ProposalWatch:
    """Compares proposals with the fetches that their leaders have read."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._fetched: dict[Place, set[int]] = {}
        """By leader, its life, partition and follower: the broker epochs of its fetches."""
        self._since: dict[tuple[int, int, PartitionKey], set[int]] = {}
        """By leader, its life and partition: the followers that have fetched since it leads."""
        record_traffic(world).on_request.append(self._read)
        world.on_step.append(self._on_step)
        world.on_emit.append(self._on_emit)
        world.wires.on_ask.append(self._on_ask)
        world.wires.on_reply.append(self._on_reply)

    def _read(self, host: Host, message: RecordMessage) -> None:
        event = message.call.event if message.call is not None else None
        if isinstance(event, FetchReceived) and event.replica_id >= 0:
            for part in event.parts:
                place = host.id, host.life, part.key, event.replica_id
                self._fetched.setdefault(place, set()).add(event.broker_epoch)

    def _on_step(self, host: Host, event: Any) -> None:
        for request in requests_of_step(event):
            if isinstance(request, FetchReceived) and request.replica_id >= 0:
                for part in request.parts:
                    place = host.id, host.life, part.key
                    self._since.setdefault(place, set()).add(request.replica_id)

    def _on_emit(self, host: Host) -> None:
        for key, partition in replicas_on(host).items():
            place = host.id, host.life, key
            if not partition.leading:
                if partition.log is not None:
                    self._since.pop(place, None)
                continue
            for follower, remote in partition.in_sync.remotes.items():
                if remote.end != UNKNOWN and follower not in self._since.get(place, ()):
                    self._failures.add(
                        "D9",
                        self._world.now,
                        f"{host.name} takes {remote.end} for the end of {name_of(key)} at broker"
                        f" {follower}, which has not fetched since {host.name} leads",
                    )

    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        """Compare a request with the proposals of the leader after the step that sends it."""
        message = rpc.message
        if not isinstance(message, ApiMessage) or message.api != ALTER:
            return
        replicas = replicas_on(host)
        for topic in message.body["topics"]:
            for part in topic["partitions"]:
                key = topic["topic_id"], part["partition_index"]
                partition = replicas.get(key)
                pending = None if partition is None else partition.in_sync.pending
                if pending is None:
                    continue
                proposal, members = pending.proposal, part["new_isr_with_epochs"]
                asked = tuple((each["broker_id"], each["broker_epoch"]) for each in members)
                epochs = part["leader_epoch"], part["partition_epoch"]
                if (proposal.leader_epoch, proposal.partition_epoch) != epochs:
                    continue  # The step has proposed again.
                if [each for each, _ in asked] != [each for each, _ in proposal.isr]:
                    continue
                recovering = part["leader_recovery_state"] == RECOVERING
                if (asked, recovering) != (proposal.isr, proposal.recovering):
                    self._failures.add(
                        "D9",
                        self._world.now,
                        f"{host.name} sends (broker, broker epoch) {list(asked)} as the ISR of"
                        f" {name_of(key)}, recovering={recovering}, and has proposed"
                        f" {list(proposal.isr)}, recovering={proposal.recovering}",
                    )

    def _on_reply(self, host: Host, rpc: Rpc, effect: Any) -> None:
        message = rpc.message
        if not isinstance(message, ApiMessage) or message.api != ALTER:
            return
        if message.body["broker_id"] != rpc.source:
            return  # A client plays a broker.
        for topic in message.body["topics"]:
            for part in topic["partitions"]:
                key = topic["topic_id"], part["partition_index"]
                for member in part["new_isr_with_epochs"]:
                    self._judge(rpc, key, member["broker_id"], member["broker_epoch"])

    def _judge(self, rpc: Rpc, key: PartitionKey, member: int, epoch: int) -> None:
        if member == rpc.source or epoch == UNKNOWN:
            return
        known = self._fetched.get((rpc.source, rpc.source_life, key, member), set())
        if epoch not in known:
            self._failures.add(
                "D9",
                self._world.now,
                f"broker {rpc.source} proposes {member} for the ISR of {name_of(key)} with epoch"
                f" {epoch}, by which it has not fetched",
            )
