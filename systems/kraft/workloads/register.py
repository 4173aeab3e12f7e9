"""Registers on top of topic configs: does every read return the latest write?

Key ``k`` is the topic ``register-<k>``, its value the config ``retention.ms``; a register whose
topic does not exist holds null. Keys rotate, so that every key's history stays small and all
clients use the same few keys at a time.

Two clients in five only read, and stay with the node that served them last. Most writes are hasty:
their clients give up early and try any other node, so they write to a new leader while the old one
still believes that it leads. Together they detect a leader that serves reads without confirming its
leadership with the quorum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraftwreck.harness.client import Completion, Invocation
from kraftwreck.harness.generator import Planned
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, KraftWorkload
from kraftwreck.systems.kraft.workloads.controller import (
    TOPIC,
    ask_controller,
    ask_elsewhere,
    ask_loyally,
    change,
    first_error,
    not_answered,
    refused_by_node,
)
from kraftwreck.systems.kraft.workloads.metadata import CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION

ALTER_CONFIGS_VERSION: Final = 1
DESCRIBE_CONFIGS_VERSION: Final = 4
CONFIG: Final = "retention.ms"

KEYS: Final = 3
"""Keys that are in use at a time."""
OPS_PER_ROUND: Final = 36
"""Operations of one thread before all move on to the next keys."""
HASTY_MS: Final = 500
"""How long a hasty client waits for an answer."""
_LOYAL_THREADS: Final = (1, 3)
_THREADS: Final = 5
_OLD_KEY_PERCENT: Final = 8
_SET: Final = 0
_LAST_VALUE: Final = 10**15
"""Above all values that a plan can hold."""


class RegisterWorkload(KraftWorkload):
    """Reads, unique writes, creations (``cas [null, v]``) and deletions of registers.

    A ``write`` or ``delete`` of a missing topic fails. Some reads return to an older key, so that
    they detect a value that was lost long after its write.
    """

    name = "register"
    about = "topic configs as linearizable registers"
    checkers: Sequence[str] = ("stats", "linearizable", "invariants")

    def __init__(self, timeout_ms: int = 3000) -> None:
        self.timeout_ms = timeout_ms

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of ``thread``; written values are unique."""
        turn, place = divmod(count, OPS_PER_ROUND)
        first = KEYS * turn
        key = first + draw_below(KEYS, seed, "key", thread, count)
        percent = draw_below(100, seed, "kind", thread, count)
        value = count * 1000 + thread + 1
        if turn and percent < _OLD_KEY_PERCENT:
            return Planned("read", draw_below(first, seed, "old", thread, count))
        if is_loyal(thread):
            return Planned("read", key)
        if place < KEYS:
            return Planned("cas", first + place, [None, value])
        if percent < 30:
            return Planned("read", key)
        if percent < 70:
            return Planned("write", key, value)
        if percent < 86:
            return Planned("cas", key, [None, value])
        return Planned("delete", key)

    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Execute ``op``."""
        match op.f:
            case "read":
                return self._read(op, client)
            case "write":
                return self._write(op, client)
            case "cas":
                return self._create(op, client)
            case "delete":
                return self._delete(op, client)
        raise ValueError(f"the register workload has no operation {op.f!r}")

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Use the two oldest registers once more: the healed system must serve."""
        return [
            Planned("read", 0, final=True),
            Planned("read", 1, final=True),
            Planned("cas", 0, [None, _LAST_VALUE], final=True),
            Planned("write", 0, _LAST_VALUE + 1, final=True),
            Planned("read", 0, final=True),
        ]

    def _read(self, op: Op, client: ClientState) -> Invocation:
        resource = {
            "resource_type": TOPIC,
            "resource_name": topic_of(op.key),
            "configuration_keys": [CONFIG],
        }
        ask, timeout_ms = ask_controller, self.timeout_ms
        if is_loyal(client.thread):
            ask, timeout_ms = ask_loyally, HASTY_MS
        answer, node = yield from ask(
            client,
            "DescribeConfigs",
            DESCRIBE_CONFIGS_VERSION,
            {"resources": [resource]},
            timeout_ms,
        )
        if answer.status != "ok":
            return not_answered(answer, node, write=False)
        code = first_error(answer.response, "results")
        if code == errors.UNKNOWN_TOPIC_OR_PARTITION:
            return Completion("ok", None, node=node)
        if code != errors.NONE:
            return refused_by_node(client, code, node, write=False)
        for config in answer.response["results"][0]["configs"]:
            if config["name"] == CONFIG and config["value"] is not None:
                return Completion("ok", int(config["value"]), node=node)
        return Completion("fail", error=f"no {CONFIG} in the answer", node=node)

    def _write(self, op: Op, client: ClientState) -> Invocation:
        setting = {"name": CONFIG, "config_operation": _SET, "value": str(op.value)}
        resource = {
            "resource_type": TOPIC,
            "resource_name": topic_of(op.key),
            "configs": [setting],
        }
        return change(
            op,
            client,
            "IncrementalAlterConfigs",
            ALTER_CONFIGS_VERSION,
            {"resources": [resource], "validate_only": False},
            "responses",
            self._patience_ms(client),
            ask_elsewhere,
        )

    def _create(self, op: Op, client: ClientState) -> Invocation:
        topic = {
            "name": topic_of(op.key),
            "num_partitions": 1,
            "replication_factor": -1,
            "configs": [{"name": CONFIG, "value": str(op.value[1])}],
        }
        timeout_ms = self._patience_ms(client)
        body = {"topics": [topic], "timeout_ms": timeout_ms}
        return change(op, client, "CreateTopics", CREATE_TOPICS_VERSION, body, "topics", timeout_ms)

    def _delete(self, op: Op, client: ClientState) -> Invocation:
        timeout_ms = self._patience_ms(client)
        body = {"topics": [{"name": topic_of(op.key)}], "timeout_ms": timeout_ms}
        return change(
            op,
            client,
            "DeleteTopics",
            DELETE_TOPICS_VERSION,
            body,
            "responses",
            timeout_ms,
            ask_elsewhere,
        )

    def _patience_ms(self, client: ClientState) -> int:
        """Return the timeout of a write: three of four are hasty."""
        patient = draw_below(4, client.seed, "patient", client.thread, client.calls) == 0
        return self.timeout_ms if patient else HASTY_MS


def is_loyal(thread: int) -> bool:
    """Whether the client ``thread`` only reads, from the node that served it last."""
    return thread % _THREADS in _LOYAL_THREADS


def topic_of(key: int) -> str:
    """Return the topic that is register ``key``."""
    return f"register-{key}"


WORKLOAD = RegisterWorkload()
