"""Partition changes by replicas, brokers and operators, without any data.

The first clients play phantom brokers (:mod:`~systems.kraft.workloads.phantoms`): some of them lead
partitions and propose ISRs (:mod:`~systems.kraft.workloads.proposals`). All clients are operators
that create, grow, reassign, elect and configure. Real brokers hold replicas beside the phantoms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from kraftwreck.harness.client import Completion, Invocation
from kraftwreck.harness.generator import Planned
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, KraftWorkload
from kraftwreck.systems.kraft.workloads.administration import OPERATIONS, metadata_of
from kraftwreck.systems.kraft.workloads.controller import (
    ask_controller,
    ask_for_write,
    change,
    error_name,
    not_answered,
    refused_by_node,
)
from kraftwreck.systems.kraft.workloads.metadata import (
    CREATE_TOPICS_VERSION,
    DELETE_TOPICS_VERSION,
    read_names,
)
from kraftwreck.systems.kraft.workloads.phantoms import (
    NO_EPOCH,
    THREADS,
    TIMEOUT_MS,
    Phantom,
    incarnation,
    live,
    phantoms_of,
    register,
    restart,
)
from kraftwreck.systems.kraft.workloads.probes import ask, probe_of
from kraftwreck.systems.kraft.workloads.proposals import HONEST, WRONG, propose
from kraftwreck.systems.kraft.workloads.stories import story_of

UNREGISTER_VERSION: Final = 0
PRODUCER_IDS_VERSION: Final = 0

MOOD_LENGTH: Final = 16
"""Operations of a client until the mood of its brokers changes."""

MOODS: Final = (
    *("serve",) * 9,
    *("silent",) * 2,
    "half",
    "fence",
    "lag",
    *("stop",) * 2,
)
"""The behaviour of a client's brokers for some operations.

``silent``: the brokers send nothing, so that their sessions expire; ``half``: all but one send
nothing; ``lag``: they learn no metadata, so that once fenced they must stay fenced.
"""

LOOSE_PERCENT: Final = 20
"""Topics that may lose records: only these get unclean elections."""

NAMES: Final = 64
"""Operations of a client until its names repeat: half a minute at two a second.

This bounds the number of topics in the cluster.
"""

_LOOK_BACK: Final = 12
_REMEMBERED: Final = 1 << 14
_BROKER_OPS: Final = ("beat", "isr", "ids", "twin", "restart", "unregister")
_OF_BROKERS: Final = {
    "beat": 44,
    "isr": 22,
    "ids": 3,
    "twin": 2,
    "restart": 2,
    "unregister": 1,
    "story": 5,
}
_OF_OPERATORS: Final = {
    "create": 24,
    "delete": 9,
    "read": 10,
    "describe": 8,
    "grow": 6,
    "elect": 10,
    "reassign": 11,
    "cancel": 4,
    "configure": 9,
    "features": 1,
    "ask": 8,
}


class PartitionsWorkload(KraftWorkload):
    """Every client is an operator; each of the first few also plays three brokers.

    ``create`` and ``delete`` have the topic's name as key, ``read`` returns all names, as in the
    workload ``metadata``. The functions of the other operations describe their values.
    """

    name = "partitions"
    about = "play brokers and operators: sessions, ISRs, elections, reassignments"
    checkers: Sequence[str] = ("stats", "topics", "invariants")
    owed = ("beat", "create", "read")
    clients = (4, 6, 8)
    """Possible numbers of clients, drawn by the seed: few enough to keep sessions alive."""

    rate_per_client = 4.0
    of_brokers: Mapping[str, int] = _OF_BROKERS
    of_operators: Mapping[str, int] = _OF_OPERATORS
    """The shares of operations, in percent; operators get those that brokers do not use."""

    def __init__(self, timeout_ms: int = 5000) -> None:
        self.timeout_ms = timeout_ms
        # Earlier operations are needed again and again.
        self._kind = lru_cache(maxsize=_REMEMBERED)(self._draw_kind)

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of ``thread``."""
        key = (thread, count)
        f = self._kind(seed, thread, count)
        if f in _BROKER_OPS:
            return Planned(f, value=_broker_value(f, seed, thread, count))
        if f == "ask":
            return Planned(f, value=probe_of(seed, thread, count))
        if f == "story":
            return Planned("ask", value=story_of(seed, thread, count, NAMES))
        if f in ("create", "read", "features"):
            name = _name(seed, thread, count)
            return Planned(f, name, name) if f == "create" else Planned(f)
        victim = self._earlier_topic(seed, thread, count)
        if victim is None:
            name = _name(seed, thread, count)
            return Planned("create", name, name)
        if f in ("delete", "describe"):
            return Planned(f, victim, victim if f == "delete" else None)
        value = OPERATIONS[f].value(victim, lambda n, *k: draw_below(n, seed, f, *k, *key))
        return Planned(f, victim, value)

    def _draw_kind(self, seed: int, thread: int, count: int) -> str:
        if thread < THREADS:
            percent = draw_below(100, seed, "kind", thread, count)
            for f, share in self.of_brokers.items():
                percent -= share
                if percent < 0:
                    return f
        percent = draw_below(100, seed, "operator", thread, count)
        for f, share in self.of_operators.items():
            percent -= share
            if percent < 0:
                return f
        raise AssertionError("the shares of operations make 100 percent")

    def _earlier_topic(self, seed: int, thread: int, count: int) -> str | None:
        """Return the name of a topic that any thread was to create a short time ago."""
        if draw_below(2, seed, "others", thread, count):
            thread = draw_below(THREADS, seed, "owner", thread, count)
        creations: list[int] = []
        place = count - 1
        while place >= 0 and len(creations) < _LOOK_BACK and count - place < 400:
            if self._kind(seed, thread, place) == "create":
                creations.append(place)
            place -= 1
        if not creations:
            return None
        victim = creations[draw_below(len(creations), seed, "victim", thread, count)]
        return _name(seed, thread, victim)

    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Execute ``op``."""
        match op.f:
            case "create":
                return self._create(op, client)
            case "delete":
                return self._delete(op, client)
            case "read":
                return read_names(op, client, self.timeout_ms)
            case "describe":
                return _describe(op, client, self.timeout_ms)
            case "isr":
                return propose(op, client)
            case "ask":
                return ask(op, client, self.timeout_ms)
            case "beat":
                return _beat(op, client)
            case "twin" | "restart":
                return _other_process(op, client)
            case "ids":
                return _producer_ids(op, client)
            case "unregister":
                return _unregister(op, client)
        return OPERATIONS[op.f].carry_out(op, client, self.timeout_ms)

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Read every node's own view of the topics."""
        return [Planned("read", node=node, final=True) for node in nodes]

    def _create(self, op: Op, client: ClientState) -> Invocation:
        """Create a topic, in half of the cases on the client's own brokers."""

        def choose(bound: int, what: str) -> int:
            return draw_below(bound, client.seed, what, op.key)

        partitions = 1 + choose(3, "partitions")
        topic: dict[str, Any] = {
            "name": op.key,
            "num_partitions": partitions,
            "replication_factor": 2 + choose(2, "factor"),
            "configs": [],
        }
        own = [p.id for p in phantoms_of(client) if p.epoch != NO_EPOCH]
        if len(own) >= 2 and choose(2, "own"):
            topic |= {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [
                    {"partition_index": i, "broker_ids": own[i % len(own) :] + own[: i % len(own)]}
                    for i in range(partitions)
                ],
            }
        if is_loose(op.key) and choose(2, "unclean"):
            unclean = {"name": "unclean.leader.election.enable", "value": "true"}
            topic["configs"].append(unclean)
        body = {"topics": [topic], "timeout_ms": self.timeout_ms}
        return change(
            op, client, "CreateTopics", CREATE_TOPICS_VERSION, body, "topics", self.timeout_ms
        )

    def _delete(self, op: Op, client: ClientState) -> Invocation:
        body = {"topics": [{"name": op.key}], "timeout_ms": self.timeout_ms}
        return change(
            op, client, "DeleteTopics", DELETE_TOPICS_VERSION, body, "responses", self.timeout_ms
        )


# --- the plan -----------------------------------------------------------------------------


def is_loose(name: str) -> bool:
    """Whether records of the topic may be lost."""
    return name.startswith("loose")


def mood_of(seed: int, thread: int, count: int) -> str:
    """Return the mood of the brokers of ``thread`` at its ``count``-th operation."""
    turn = count // MOOD_LENGTH
    return "serve" if turn == 0 else MOODS[draw_below(len(MOODS), seed, "mood", thread, turn)]


def _broker_value(f: str, seed: int, thread: int, count: int) -> Any:
    key = (thread, count)
    if f == "isr":
        wrong = draw_below(100, seed, "wrong", *key) < 30
        choice = WRONG if wrong else HONEST
        return choice[draw_below(len(choice), seed, "how", *key)]
    if f == "beat":
        return mood_of(seed, thread, count)
    return draw_below(1 << 16, seed, "which", *key)


def _name(seed: int, thread: int, count: int) -> str:
    place = count % NAMES
    loose = draw_below(100, seed, "loose", thread, place) < LOOSE_PERCENT
    return f"{'loose' if loose else 'p'}{thread}-{place}"


# --- broker operations --------------------------------------------------------------------


def _beat(op: Op, client: ClientState) -> Invocation:
    """Send the heartbeats of the client's brokers by their mood; the value is a report of each."""
    phantoms = phantoms_of(client)
    mood = op.value
    if mood == "silent":
        return Completion("ok", [])
    if mood == "half":
        phantoms = phantoms[:1]
    stop = mood == "stop"
    if stop:
        phantoms = phantoms[1:]
    how, reports = yield from live(
        client, phantoms, learn=mood != "lag", fence=mood == "fence", stop=stop
    )
    return _reported(how, reports)


def _other_process(op: Op, client: ClientState) -> Invocation:
    """Replace the process of a broker.

    ``restart``: the process died, and a new one starts. ``twin``: a new one starts while the first
    still runs. It replaces the first if the controller accepts it, else it ends.
    """
    phantoms = phantoms_of(client)
    phantom = phantoms[op.value % len(phantoms)]
    if op.f == "restart":
        restart(client, phantom)
        how, seen = yield from register(client, phantom, phantom.incarnation, phantom.previous)
        if how == "ok":
            phantom.epoch = seen["epoch"]
        return _reported(how, [seen])
    process = incarnation(client, phantom.id, phantom.lives + 1)
    how, seen = yield from register(client, phantom, process)
    if how != "fail":
        phantom.replace(process)
        phantom.epoch = seen.get("epoch", NO_EPOCH)
    else:
        phantom.lives += 1
    return _reported(how, [seen])


def _reported(how: str, reports: list[dict[str, Any]]) -> Completion:
    error = next((report["error"] for report in reports if "error" in report), None)
    if how == "ok":
        return Completion("ok", reports)
    return Completion("info" if how == "info" else "fail", reports, error=error or "nobody asked")


def _chosen(op: Op, client: ClientState) -> Phantom | None:
    registered = [p for p in phantoms_of(client) if p.epoch != NO_EPOCH]
    return registered[op.value % len(registered)] if registered else None


def _producer_ids(op: Op, client: ClientState) -> Invocation:
    """Allocate a block of producer ids; the value is {broker, epoch, start, length}."""
    phantom = _chosen(op, client)
    if phantom is None:
        return Completion("fail", error="no broker is registered")
    body = {"broker_id": phantom.id, "broker_epoch": phantom.epoch}
    asked: dict[str, Any] = {"broker": phantom.id, "epoch": phantom.epoch}
    answer, node = yield from ask_controller(
        client, "AllocateProducerIds", PRODUCER_IDS_VERSION, body, TIMEOUT_MS
    )
    if answer.status != "ok":
        return not_answered(answer, node, write=True)
    code = int(answer.response["error_code"])
    if code != errors.NONE:
        return refused_by_node(client, code, node, write=True)
    block = {
        "start": answer.response["producer_id_start"],
        "length": answer.response["producer_id_len"],
    }
    return Completion("ok", asked | block, node=node)


def _unregister(op: Op, client: ClientState) -> Invocation:
    """Let a broker die, and unregister it; the value is its id."""
    phantom = _chosen(op, client)
    if phantom is None:
        return Completion("fail", error="no broker is registered")
    restart(client, phantom)
    body = {"broker_id": phantom.id}
    answer, node = yield from ask_for_write(
        client, "UnregisterBroker", UNREGISTER_VERSION, body, TIMEOUT_MS
    )
    if answer.status != "ok":
        return not_answered(answer, node, write=True)
    code = int(answer.response["error_code"])
    if code != errors.NONE:
        return refused_by_node(client, code, node, write=True)
    return Completion("ok", {"broker": phantom.id}, node=node)


def _describe(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Read one topic: {id, partitions: [[leader, leader epoch, replicas, isr]]}, or null."""
    answer, node, topic = yield from metadata_of(op.key, client, timeout_ms)
    if answer.status != "ok":
        return not_answered(answer, node, write=False)
    if topic is None:
        return Completion("fail", error="not-controller", node=node)
    if topic["error_code"] == errors.UNKNOWN_TOPIC_OR_PARTITION:
        return Completion("ok", None, node=node)
    if topic["error_code"] != errors.NONE:
        return Completion("fail", error=error_name(topic["error_code"]), node=node)
    partitions = [
        [p["leader_id"], p["leader_epoch"], p["replica_nodes"], p["isr_nodes"]]
        for p in sorted(topic["partitions"], key=lambda p: p["partition_index"])
    ]
    return Completion("ok", {"id": topic["topic_id"].hex(), "partitions": partitions}, node=node)


WORKLOAD = PartitionsWorkload()
