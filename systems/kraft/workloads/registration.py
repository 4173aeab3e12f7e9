"""Brokers come and go: is a broker visible that was replaced, removed or fenced?

Key ``k`` is a broker id, its value the number of a process of that broker, which the rack of its
registration names. A client that writes plays the broker (:mod:`systems.kraft.workloads.phantoms`):
it registers the process and sends heartbeats until the controller unfences it. Then it falls
silent, so the controller fences it again when its session has ended. Until then no other process
can register under this id, unless an operator removes the broker.

A broker is visible, in the metadata that clients get, from its unfencing on. So its id is a
register whose value may expire (the model ``expiring-register``). A registration alone makes no
process visible: a write whose heartbeats were all refused has certainly failed, and so has that of
a process that dies before its first heartbeat. A write ends with its first lost heartbeat, because
that one may unfence the process at any later time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraftwreck.checkers.modelled import by_model
from kraftwreck.harness.client import Completion, Invocation
from kraftwreck.harness.generator import Planned
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, KraftWorkload
from kraftwreck.systems.kraft.workloads.controller import (
    METADATA_VERSION,
    ask_controller,
    ask_loyally,
    metadata_request,
    not_answered,
    refused_by_node,
)
from kraftwreck.systems.kraft.workloads.phantoms import (
    FIRST_ID,
    beat,
    incarnation,
    phantom,
    register,
)
from kraftwreck.systems.kraft.workloads.register import HASTY_MS, is_loyal

UNREGISTER_VERSION: Final = 0

KEYS: Final = 4
"""Broker ids that are in use at a time."""
OPS_PER_ROUND: Final = 24
"""Operations of one thread before all move on to the next ids."""
ROUNDS: Final = 12
"""Rounds until the ids repeat, so that a cluster never has more brokers than that."""
MOST_BEATS: Final = 4
"""Heartbeats of a process that stays fenced."""
SHORT_LIVED: Final = 6
"""One process in this many dies before its first heartbeat."""
RACK: Final = "process-"
_LAST_VALUE: Final = 10**15
"""Above all values that a plan can hold."""


class RegistrationWorkload(KraftWorkload):
    """``write`` (register a process and unfence it), ``delete`` (remove the broker) and ``read``.

    Two clients in five only read, and stay with the node that served them last, which may be a
    deposed leader.
    """

    name = "registration"
    about = "brokers that register, expire, are replaced and removed"
    checkers: Sequence[str] = ("stats", by_model("expiring-register"), "invariants")

    def __init__(self, timeout_ms: int = 3000) -> None:
        self.timeout_ms = timeout_ms

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of ``thread``; written values are unique."""
        turn = count // OPS_PER_ROUND % ROUNDS
        key = KEYS * turn + draw_below(KEYS, seed, "key", thread, count)
        percent = draw_below(100, seed, "kind", thread, count)
        if is_loyal(thread) or percent < 30:
            return Planned("read", key)
        if percent < 75:
            return Planned("write", key, count * 1000 + thread + 1)
        return Planned("delete", key)

    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Execute ``op``."""
        match op.f:
            case "read":
                return self._read(op, client)
            case "write":
                return _join(op, client)
            case "delete":
                return self._remove(op, client)
        raise ValueError(f"the registration workload has no operation {op.f!r}")

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Let a new broker join and leave again: the healed system must serve."""
        key = KEYS * ROUNDS
        return [
            Planned("read", 0, final=True),
            Planned("write", key, _LAST_VALUE, final=True),
            Planned("read", key, final=True),
            Planned("delete", key, final=True),
            Planned("read", key, final=True),
        ]

    def _read(self, op: Op, client: ClientState) -> Invocation:
        """Read from the metadata of the active controller, which confirms that it leads."""
        ask, timeout_ms = ask_controller, self.timeout_ms
        if is_loyal(client.thread):
            ask, timeout_ms = ask_loyally, HASTY_MS
        request = metadata_request(None)  # A request without topics is answered from any image.
        answer, node = yield from ask(client, "Metadata", METADATA_VERSION, request, timeout_ms)
        if answer.status != "ok":
            return not_answered(answer, node, write=False)
        controller = client.ids.get(answer.response["controller_id"])
        if controller != node:
            client.leader = controller
            return Completion("fail", error="not-controller", node=node)
        for broker in answer.response["brokers"]:
            if broker["node_id"] == FIRST_ID + op.key:
                return Completion("ok", int(broker["rack"].removeprefix(RACK)), node=node)
        return Completion("ok", None, node=node)

    def _remove(self, op: Op, client: ClientState) -> Invocation:
        body = {"broker_id": FIRST_ID + op.key}
        answer, node = yield from ask_controller(
            client, "UnregisterBroker", UNREGISTER_VERSION, body, self.timeout_ms
        )
        if answer.status != "ok":
            return not_answered(answer, node, write=True)
        code = int(answer.response["error_code"])
        if code != errors.NONE:
            return refused_by_node(client, code, node, write=True)
        return Completion("ok", node=node)


def _join(op: Op, client: ClientState) -> Invocation:
    """Register the process ``op.value`` of a broker, and send heartbeats until it is unfenced."""
    broker = phantom(client, FIRST_ID + op.key, op.value)
    process = incarnation(client, broker.id, op.value)
    how, seen = yield from register(client, broker, process, rack=f"{RACK}{op.value}")
    if how != "ok":
        return Completion("fail", error=seen["error"])
    # A broker's epoch is the offset of its registration: it knows its own.
    broker.epoch = broker.offset = seen["epoch"]
    if draw_below(SHORT_LIVED, client.seed, "short-lived", op.value) == 0:
        return Completion("fail", error="died before its first heartbeat")
    error = "still fenced"
    for _ in range(MOST_BEATS):
        how, seen = yield from beat(client, broker, epoch=broker.epoch)
        if how == "ok" and not seen["fenced"]:
            return Completion("ok", op.value)
        error = str(seen.get("error", error))
        if how == "info":
            return Completion("info", error=error)
    return Completion("fail", error=error)


WORKLOAD = RegistrationWorkload()
