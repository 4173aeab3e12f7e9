"""Watches when the ISRs that leaders propose are decided (D18).

Until it knows the outcome of a proposal, a leader counts the members of both ISRs (KIP-497). So it
may not take an answer to an earlier request, or to another proposal, for the one that it waits for.
And once a proposal is refused, it must be able to propose again. It repeats a proposal that an
answer did not decide after a pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kraftwreck.checkers.kraft.limits import ASKED_AGAIN_US
from kraftwreck.nodes.consensus.effects import ApiResponseReceived
from kraftwreck.nodes.protocol.errors import INELIGIBLE_REPLICA, NONE, OPERATION_NOT_ATTEMPTED
from kraftwreck.nodes.replication.effects import Proposal
from kraftwreck.nodes.replication.events import Peer
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on

NOT_MADE: Final = (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED)
"""Errors of a proposal that was not made, and that was based on the newest state."""
ALTER: Final = "AlterPartition"
UNKNOWN: Final = -1
"""The broker epoch of a follower that did not name one."""

Asked = tuple[int, int, tuple[int, ...]]
"""A proposal in a request: leader epoch, partition epoch, members."""


class _Waiting(NamedTuple):
    """A proposal that a leader waits for, and the epochs of the partition that it knows.

    ``is_sent``: the proposal is in the request in flight.
    """

    proposal: Proposal
    leader_epoch: int
    partition_epoch: int
    is_sent: bool


class ProposalOutcomes:
    """Compares what each answer to AlterPartition changes with the request that it answers."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._asked: dict[tuple[int, int, int], dict[PartitionKey, Asked]] = {}
        """By broker, its life and correlation: the proposals of requests that were answered."""
        self._waiting: dict[tuple[int, int], dict[PartitionKey, _Waiting]] = {}
        """By broker and its life: the proposals after its last step."""
        self._undecided: dict[tuple[int, int], dict[PartitionKey, tuple[Asked, int]]] = {}
        """By broker and its life: the proposals that the last answer about them did not decide, and
        when it came."""
        self._peers: dict[tuple[int, int], Mapping[int, Peer]] = {}
        """By broker and its life: the brokers that it knew after its last step. A step may take
        newer metadata after it has proposed an ISR."""
        world.wires.on_reply.append(self._on_reply)
        world.on_step.append(self._on_step)

    def _on_reply(self, host: Host, rpc: Rpc, effect: Any) -> None:
        message = rpc.message
        if isinstance(message, ApiMessage) and message.api == ALTER:
            asked = asked_in(message)
            self._asked[rpc.source, rpc.source_life, rpc.correlation] = asked
            self._judge_pause(rpc, asked)

    def _on_step(self, host: Host, event: Any) -> None:
        replicas = replicas_on(host)
        if not replicas:
            return
        process = host.id, host.life
        before = self._waiting.get(process, {})
        errors: dict[PartitionKey, int] = {}
        asked: dict[PartitionKey, Asked] = {}
        is_current = False
        if type(event) is ApiResponseReceived:
            asked = self._asked.pop((*process, event.correlation), {})
            is_current = bool(asked) and not self._asked_again(host, event.correlation)
            errors = _errors(event.body) if is_current else {}
        for key, waiting in before.items():
            partition = replicas.get(key)
            if partition is not None:
                own = asked.get(key) == asked_for(waiting.proposal)
                error = errors.get(key) if own else None
                self._judge(host, partition, waiting, error)
                if own and is_current and waiting.is_sent and _waits(partition, waiting):
                    undecided = self._undecided.setdefault(process, {})
                    undecided[key] = asked_for(waiting.proposal), self._world.now
        for key, partition in replicas.items():
            pending = partition.in_sync.pending
            known = before.get(key)
            if pending is not None and (known is None or known.proposal is not pending.proposal):
                self._judge_need(host, partition, pending.proposal)
        self._peers[process] = next(iter(replicas.values())).with_.peers
        self._waiting[process] = {
            key: _Waiting(
                partition.in_sync.pending.proposal,
                partition.assignment.leader_epoch,
                partition.assignment.partition_epoch,
                key not in partition.with_.proposed,
            )
            for key, partition in replicas.items()
            if partition.in_sync.pending is not None
        }

    def _asked_again(self, host: Host, correlation: int) -> bool:
        """Whether a later AlterPartition of the process is on its way."""
        return any(
            isinstance(rpc.message, ApiMessage)
            and rpc.message.api == ALTER
            and rpc.correlation > correlation
            for rpc in host.requests.values()
        )

    def _judge(
        self, host: Host, partition: Partition, waiting: _Waiting, error: int | None
    ) -> None:
        """D18: compare a step with the answer in it, ``error``; None if it decides nothing."""
        assignment, waits = partition.assignment, _waits(partition, waiting)
        known = waiting.leader_epoch, waiting.partition_epoch
        moved = (assignment.leader_epoch, assignment.partition_epoch) != known
        # A process that has given a request up ignores its answer, and proposes again.
        again = partition.key in partition.with_.proposed
        if waits and error in NOT_MADE and not again:
            why = "still waits for the ISR {}, which was refused"
        elif not (waits or moved or error == NONE or error in NOT_MADE) and partition.leading:
            why = "waits no longer for the ISR {}, whose outcome it does not know"
        else:
            return
        self._failures.add(
            "D18",
            self._world.now,
            f"{host.name} leads {name_of(partition.key)}, and "
            + why.format(_members(waiting.proposal)),
        )

    def _judge_pause(self, rpc: Rpc, asked: Mapping[PartitionKey, Asked]) -> None:
        """D18: a leader pauses before it repeats a proposal that an answer did not decide."""
        source = self._world.hosts[rpc.source - 1]
        undecided = self._undecided.get((rpc.source, rpc.source_life), {})
        for key, proposed in asked.items():
            before, at = undecided.get(key, (None, 0))
            if before != proposed or rpc.sent < at:
                continue  # A request may arrive twice.
            if source.clock.elapsed(at, rpc.sent) < ASKED_AGAIN_US:
                self._failures.add(
                    "D18",
                    self._world.now,
                    f"{source.name} leads {name_of(key)}, and proposes the ISR {list(proposed[2])}"
                    " again at once after an answer that did not decide it",
                )

    def _judge_need(self, host: Host, partition: Partition, proposal: Proposal) -> None:
        """D18: a leader proposes a change, or that its partition has recovered. It adds no other
        process of a broker than its metadata has (KIP-903)."""
        isr, peers = partition.in_sync.isr, self._peers.get((host.id, host.life), {})
        where = f"{host.name} leads {name_of(partition.key)}, and proposes"
        members = _members(proposal)
        if set(members) == set(isr) and not partition.assignment.recovering:
            self._failures.add("D18", self._world.now, f"{where} the ISR {members} that it has")
        for member, epoch in proposal.isr:
            peer, now = peers.get(member), partition.with_.peers.get(member)
            if member in isr or epoch == UNKNOWN or peer is None or now is None:
                continue
            if epoch not in (peer.epoch, now.epoch):
                self._failures.add(
                    "D18",
                    self._world.now,
                    f"{where} to add {member} with broker epoch {epoch}, whose epoch it knows to be"
                    f" {peer.epoch}",
                )


def _waits(partition: Partition, waiting: _Waiting) -> bool:
    """Return whether a leader still waits for the same proposal."""
    pending = partition.in_sync.pending
    return pending is not None and pending.proposal is waiting.proposal


def _members(proposal: Proposal) -> list[int]:
    return [broker for broker, _ in proposal.isr]


def asked_for(proposal: Proposal) -> Asked:
    """Return a proposal as a request has it."""
    return proposal.leader_epoch, proposal.partition_epoch, tuple(_members(proposal))


def asked_in(request: ApiMessage) -> dict[PartitionKey, Asked]:
    """Return the proposals in a request."""
    return {
        (topic["topic_id"], part["partition_index"]): (
            part["leader_epoch"],
            part["partition_epoch"],
            tuple(member["broker_id"] for member in part["new_isr_with_epochs"]),
        )
        for topic in request.body["topics"]
        for part in topic["partitions"]
    }


def _errors(body: dict[str, Any] | None) -> dict[PartitionKey, int]:
    """Return the error of each partition in an answer, none if all of it failed."""
    if body is None or body["error_code"] != NONE:
        return {}
    return {
        (topic["topic_id"], part["partition_index"]): part["error_code"]
        for topic in body["topics"]
        for part in topic["partitions"]
    }
