"""A quorum of controllers of both kinds on loopback, and the requests of tests to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kraftwreck.nodes.log.format import load_meta
from kraftwreck.nodes.log.uuids import random_uuid, to_text
from kraftwreck.nodes.protocol.errors import NONE, NOT_CONTROLLER, TOPIC_ALREADY_EXISTS
from kraftwreck.oracle.controller import HOST, Controller, KafkaController, OurController
from kraftwreck.systems.kraft.client import KafkaClient

T = TypeVar("T")
Body = dict[str, Any]

KAFKA: Final = "kafka"
OURS: Final = "ours"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
PATIENCE_S: Final = 90.0
"""Timeout for actions that take seconds on an idle machine."""
CALL_MS: Final = 10_000
FAIL_OVERS: Final = 8
METADATA_PARTITION: Final = {"topic_name": "__cluster_metadata", "partitions": [{}]}


def wait_until(what: str, check: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
    """Call ``check`` until it returns something true and return that.

    Raises TimeoutError naming ``what`` when that takes longer than ``patience_s``.
    """
    limit = time.monotonic() + patience_s
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > limit:
            raise TimeoutError(f"not within {patience_s:g} s: {what}")
        time.sleep(0.1)


class Quorum:
    """Controllers; ``kinds`` are ``"kafka"`` or ``"ours"``, ids from 1.

    ``properties`` are those of all, ``by_kind`` additional ones of one kind. All controllers are
    voters for good, except in a dynamic quorum, where at first only those with the ids ``initial``
    are. Use it as a context manager: no process outlives it.
    """

    def __init__(
        self,
        directory: Path,
        kinds: Iterable[str],
        ports: Iterable[int],
        properties: Mapping[str, object] | None = None,
        by_kind: Mapping[str, Mapping[str, object]] | None = None,
        flags: tuple[str, ...] | None = None,
        format_options: tuple[str, ...] = (),
        initial: Collection[int] | None = None,
    ) -> None:
        self.kinds = dict(enumerate(kinds, 1))
        self.ports = dict(zip(self.kinds, ports, strict=True))
        self.initial = initial
        self.directory_ids = {node: to_text(random_uuid()) for node in self.kinds}
        self.controllers: dict[int, Controller] = {}
        for node, kind in self.kinds.items():
            build = KafkaController if kind == KAFKA else OurController
            controller = build(
                directory / f"n{node}",
                node,
                CLUSTER_ID,
                self.ports,
                {**(properties or {}), **(by_kind or {}).get(kind, {})},
                dynamic=initial is not None,
            )
            controller.format_options = (*format_options, *self._first_voters(node))
            if isinstance(controller, KafkaController):
                controller.flags = flags or controller.flags
            self.controllers[node] = controller

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill every process."""
        for controller in self.controllers.values():
            controller.kill()

    def of_kind(self, kind: str) -> list[int]:
        """Return the ids of the controllers of one kind."""
        return [node for node, its in self.kinds.items() if its == kind]

    @property
    def running(self) -> list[int]:
        """Ids of the controllers whose process is running."""
        return [node for node, controller in self.controllers.items() if controller.running]

    def format(self) -> None:
        """Format every data directory; Kafka's tool runs once per variant, others are copied."""
        formatted: dict[tuple[str, ...], KafkaController] = {}
        for node, controller in self.controllers.items():
            if isinstance(controller, KafkaController):
                like = formatted.setdefault(controller.format_options, controller)
                if like is controller:
                    controller.format()
                else:
                    controller.format(like, self.directory_ids[node])
            else:
                controller.format()

    def _first_voters(self, node: int) -> tuple[str, ...]:
        """Return the format options that select the first voters."""
        if self.initial is None:
            return ()
        if node not in self.initial:
            return ("--no-initial-controllers",)
        voters = (f"{v}@{HOST}:{self.ports[v]}:{self.directory_ids[v]}" for v in self.initial)
        return ("--initial-controllers", ",".join(voters))

    def directory_id(self, node: int) -> str:
        """Return the directory id in the node's ``meta.properties``."""
        return to_text(load_meta(self.controllers[node].data).directory_id)

    def addresses(self) -> str:
        """Return all addresses in the form of ``--bootstrap-controller``."""
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def start(self, *nodes: int) -> None:
        """Start these controllers, or all, without waiting until they are ready."""
        for node in nodes or tuple(self.controllers):
            self.controllers[node].start()

    def kill(self, node: int) -> None:
        """Send one controller SIGKILL."""
        self.controllers[node].kill()

    # --- requests -------------------------------------------------------------------------

    def call(
        self, node: int, api: str, version: int, body: Body, timeout_ms: int = CALL_MS
    ) -> Body | None:
        """Send one request to one controller; None if there was no answer."""
        client = KafkaClient(HOST, self.ports[node], "oracle")
        try:
            answer = client.call(api, version, body, timeout_ms)
        finally:
            client.close()
        return answer.response if answer.status == "ok" else None

    def describe(self, node: int) -> Body | None:
        """Return the metadata partition of DescribeQuorum, None unless ``node`` leads."""
        answer = self.call(node, "DescribeQuorum", 2, {"topics": [METADATA_PARTITION]}, 2000)
        if not answer or answer["error_code"] != NONE:
            return None
        partition: Body = answer["topics"][0]["partitions"][0]
        leads = partition["error_code"] == NONE and partition["leader_id"] == node
        return partition if leads else None

    def leader(self, among: Iterable[int] | None = None, patience_s: float = PATIENCE_S) -> int:
        """Wait until one controller (of ``among``) leads and has committed; return its id."""
        wanted = set(self.controllers if among is None else among)

        def find() -> int | None:
            for node in self.running:
                partition = self.describe(node) if node in wanted else None
                if partition is not None and partition["high_watermark"] > 0:
                    return node
            return None

        try:
            return wait_until(f"one of {sorted(wanted)} leads", find, patience_s)
        except TimeoutError as error:
            said = {node: c.said()[-1500:] for node, c in self.controllers.items()}
            raise TimeoutError(f"{error}; they said {said}") from None

    def fail_over(self, kind: str) -> tuple[int, int]:
        """Kill leaders until one of ``kind`` leads; return the last killed and the new leader.

        The next leader is never certain. One of the wrong kind is killed too, once the controller
        killed before it is back and has caught up.
        """
        dead = self.leader()
        self.kill(dead)
        for _ in range(FAIL_OVERS):
            leader = self.leader()
            if leader in self.of_kind(kind):
                return dead, leader
            self.start(dead)
            self.wait_for_log(dead)
            self.kill(leader)
            dead = leader
        raise TimeoutError(f"none of {kind} led after {FAIL_OVERS} fail-overs")

    def wait_for_log(self, *nodes: int) -> None:
        """Wait until these voters (all by default) have everything that is committed now."""
        partition = self.describe(self.leader())
        goal = 0 if partition is None else partition["high_watermark"]
        wanted = nodes or tuple(self.controllers)

        def have() -> bool:
            ends = self.end_offsets()
            return all(ends.get(node, -1) >= goal for node in wanted)

        wait_until(f"{wanted} have the log up to {goal}", have)

    def create_topic(self, name: str, node: int | None = None, **topic: Any) -> int:
        """Create a topic through the leader, or through ``node``; return the error code.

        A leader that resigns meanwhile is no answer: the next one is asked, and a topic that it
        has already was created by the first request.
        """
        body = {
            "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1, **topic}],
            "timeout_ms": CALL_MS,
        }

        resigned = False

        def create() -> tuple[int] | None:
            nonlocal resigned
            answer = self.call(node or self.leader(), "CreateTopics", 7, body)
            if answer is None:
                return None
            error = answer["topics"][0]["error_code"]
            if node is None and error == NOT_CONTROLLER:
                resigned = True
                return None
            return (NONE if resigned and error == TOPIC_ALREADY_EXISTS else error,)

        return wait_until(f"an answer to CreateTopics {name}", create)[0]

    def has_topic(self, node: int, name: str) -> bool:
        """Whether the leader ``node`` has a topic: it then refuses to create it again."""
        return self.create_topic(name, node, num_partitions=1) == TOPIC_ALREADY_EXISTS

    def end_offsets(self) -> dict[int, int]:
        """Return the end offset of each voter's log, as the leader knows it."""
        partition = self.describe(self.leader())
        if partition is None:
            return {}
        return {v["replica_id"]: v["log_end_offset"] for v in partition["current_voters"]}
