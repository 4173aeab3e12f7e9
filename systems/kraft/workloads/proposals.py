"""ISR proposals of phantom leaders, honest and stale (AlterPartition, KIP-497 and KIP-903).

The leader proposes against the epochs it knows. No API reports the partition epoch to clients. So
an honest leader starts from the lowest possible one and raises it while the answer is
INVALID_UPDATE_VERSION. A deliberately stale proposal uses epochs older than those in an earlier
answer to this very client. If it is accepted, the compare-and-set is broken, whatever else happens.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Completion, Invocation
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.controller import (
    METADATA_VERSION,
    ask_controller,
    error_name,
    metadata_request,
    not_answered,
    refused_by_node,
)
from kraftwreck.systems.kraft.workloads.phantoms import NO_EPOCH, Phantom, phantoms_of

ALTER_PARTITION_VERSION: Final = 3
ELECT_LEADERS_VERSION: Final = 2
TIMEOUT_MS: Final = 3000
MOST_GUESSES: Final = 10

HONEST: Final = ("expand", "expand", "one-more", "shrink", "alone", "same", "recovering")
"""Proposals that a leader may make.

``recovering`` claims that a leader, alone in its ISR, is still recovering, which is seldom true.
"""
WRONG: Final = (
    "stale-leader-epoch",
    "stale-partition-epoch",
    "ahead",
    "stale-broker",
    "stale-member",
    "not-leader",
    "stranger",
    "twice",
)
"""Proposals that must be refused, by their fault."""

Known = dict[tuple[bytes, int], tuple[int, int]]
"""(topic id, partition) -> (leader epoch, partition epoch) as of the last accepted proposal."""


def propose(op: Op, client: ClientState) -> Invocation:
    """Read the leaders, and propose an ISR in the name of a phantom that leads.

    ``op.value`` is one of :data:`HONEST` and :data:`WRONG`. The value of the completion holds the
    proposal that was sent last and, if it was accepted, ``new``.
    """
    answer, node = yield from ask_controller(
        client, "Metadata", METADATA_VERSION, metadata_request(None), TIMEOUT_MS
    )
    if answer.status != "ok":
        return not_answered(answer, node, write=False)
    if client.ids.get(answer.response["controller_id"]) != node:
        client.leader = client.ids.get(answer.response["controller_id"])
        return Completion("fail", error="not-controller", node=node)
    leaders = {p.id: p for p in phantoms_of(client) if p.epoch != NO_EPOCH}
    led = [
        (topic, part)
        for topic in answer.response["topics"]
        for part in topic["partitions"]
        if part["leader_id"] in leaders
    ]
    if not led:
        return Completion("fail", error="leads nothing", node=node)
    client.calls += 1
    topic, part = led[draw_below(len(led), client.seed, "led", client.thread, client.calls)]
    # Some elections are left to operators and to the controller, which elect preferred leaders too.
    asks = draw_below(2, client.seed, "prefer", client.thread, client.calls)
    if op.value in WRONG:
        # The proposal must have a single fault, so that there is no other reason to refuse it.
        honest = _proposal("same", client, leaders, topic, part)
        learnt = None if honest is None else (yield from _negotiate("same", client, honest))
        if learnt is not None and learnt.type == "ok" and "new" in learnt.value:
            part = {**part, "isr_nodes": learnt.value["new"]["isr"]}
    proposal = _proposal(op.value, client, leaders, topic, part)
    if proposal is None:
        return Completion("fail", error="nothing to propose", node=node)
    ended = yield from _negotiate(op.value, client, proposal)
    usurps = part["leader_id"] != part["replica_nodes"][0]
    if ended.type == "ok" and op.value in HONEST and usurps and asks:
        yield from _prefer(client, topic["name"], part["partition_index"])
    return ended


def _prefer(client: ClientState, name: str, number: int) -> Generator[Call, Answer, None]:
    """Request the election of the preferred leader, which may be in sync now.

    The checkers judge the result by the log.
    """
    body = {
        "election_type": 0,
        "topic_partitions": [{"topic": name, "partitions": [number]}],
        "timeout_ms": TIMEOUT_MS,
    }
    yield from ask_controller(client, "ElectLeaders", ELECT_LEADERS_VERSION, body, TIMEOUT_MS)


def _proposal(
    how: str,
    client: ClientState,
    leaders: dict[int, Phantom],
    topic: dict[str, Any],
    part: dict[str, Any],
) -> dict[str, Any] | None:
    """Return the proposal as the history shows it; None if it cannot be made."""
    leader = leaders[part["leader_id"]]
    key = bytes(topic["topic_id"]), part["partition_index"]
    known: Known = client.memory.setdefault("partitions", {})
    leader_epoch, partition_epoch = known.get(key, (0, 0))
    # Every change of the leader also changes the partition epoch.
    base = max(partition_epoch + part["leader_epoch"] - leader_epoch, part["leader_epoch"])
    replicas, isr = list(part["replica_nodes"]), list(part["isr_nodes"])
    members = _members(how, client, leader.id, replicas, isr)
    sender, broker_epoch, sent_epoch = leader.id, leader.epoch, part["leader_epoch"]
    if how == "stale-leader-epoch":
        sent_epoch -= 1
    elif how == "stale-partition-epoch":
        if key not in known:
            return None
        base = partition_epoch - 1
    elif how == "ahead":
        base += 1000
    elif how == "stale-broker":
        if not leader.old_epochs:
            return None
        broker_epoch = leader.old_epochs[-1]
    elif how == "not-leader":
        others = [p for p in leaders.values() if p.id != leader.id]
        if not others:
            return None
        sender, broker_epoch = others[0].id, others[0].epoch
    epochs = {p.id: p.epoch for p in leaders.values()}
    if how == "stale-member":
        old = {p.id: p.old_epochs[-1] for p in leaders.values() if p.old_epochs}
        old = {i: e for i, e in old.items() if i in replicas}
        if not old:
            return None
        epochs |= old
        members = sorted({*members, *old})
    if sent_epoch < 0 or base < 0:
        return None
    return {
        "how": how,
        "topic": topic["name"],
        "id": key[0].hex(),
        "partition": key[1],
        "broker": sender,
        "broker_epoch": broker_epoch,
        "leader_epoch": sent_epoch,
        "base": base,
        "recovery": int(how == "recovering"),
        "members": [[i, epochs.get(i, NO_EPOCH)] for i in members],
    }


def _members(
    how: str, client: ClientState, leader: int, replicas: list[int], isr: list[int]
) -> list[int]:
    match how:
        case "expand":
            return replicas
        case "one-more":
            # Followers catch up one by one.
            missing = [i for i in replicas if i not in isr]
            if missing:
                place = draw_below(len(missing), client.seed, "in", client.thread, client.calls)
                isr.append(missing[place])
        case "alone" | "recovering":
            return [leader]
        case "shrink":
            others = [i for i in isr if i != leader]
            if others:
                place = draw_below(len(others), client.seed, "out", client.thread, client.calls)
                isr.remove(others[place])
            return isr or [leader]
        case "stranger":
            return [*isr, max(replicas) + 1]
        case "twice":
            return [*isr, leader]
    return isr if leader in isr else [leader, *isr]


def _negotiate(how: str, client: ClientState, proposal: dict[str, Any]) -> Invocation:
    """Send the proposal; repeat an honest one with the next partition epoch while it is behind."""
    known: Known = client.memory["partitions"]
    key = bytes.fromhex(proposal["id"]), proposal["partition"]
    for _ in range(MOST_GUESSES):
        answer, node = yield from ask_controller(
            client, "AlterPartition", ALTER_PARTITION_VERSION, _body(proposal), TIMEOUT_MS
        )
        if answer.status != "ok":
            ended = not_answered(answer, node, write=True)
            ended.value = proposal
            return ended
        code = int(answer.response["error_code"])
        if code == errors.NONE:
            done = answer.response["topics"][0]["partitions"][0]
            code = int(done["error_code"])
            if code == errors.NONE:
                known[key] = done["leader_epoch"], done["partition_epoch"]
                new = {
                    "leader": done["leader_id"],
                    "leader_epoch": done["leader_epoch"],
                    "partition_epoch": done["partition_epoch"],
                    "isr": list(done["isr"]),
                }
                return Completion("ok", proposal | {"new": new}, node=node)
            if code == errors.NEW_LEADER_ELECTED:
                # An error with an effect: a reassignment is complete, and the sender was removed.
                return Completion("ok", proposal | {"error": error_name(code)}, node=node)
            if code == errors.NOT_CONTROLLER:  # its partition epoch is older than ours
                known.pop(key, None)
                return Completion("fail", proposal, error="ahead", node=node)
        if code != errors.INVALID_UPDATE_VERSION or how not in HONEST:
            ended = refused_by_node(client, code, node, write=True)
            ended.value = proposal
            return ended
        proposal["base"] += 1
    known[key] = proposal["leader_epoch"], proposal["base"] - 1
    return Completion("fail", proposal, error="invalid-update-version", node=node)


def _body(proposal: dict[str, Any]) -> dict[str, Any]:
    partition = {
        "partition_index": proposal["partition"],
        "leader_epoch": proposal["leader_epoch"],
        "new_isr_with_epochs": [
            {"broker_id": i, "broker_epoch": epoch} for i, epoch in proposal["members"]
        ],
        "leader_recovery_state": proposal["recovery"],
        "partition_epoch": proposal["base"],
    }
    topic = {"topic_id": bytes.fromhex(proposal["id"]), "partitions": [partition]}
    return {
        "broker_id": proposal["broker"],
        "broker_epoch": proposal["broker_epoch"],
        "topics": [topic],
    }
