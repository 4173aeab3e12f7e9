"""Two quorums of the same size on this machine, one of Apache Kafka and one of ours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.oracle.controller import BENCH_FLAGS, KafkaController
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, OURS, Quorum, wait_until
from kraftwreck.oracle.silent_broker import SilentBroker

KINDS: Final = (KAFKA, OURS)
BROKERS: Final = (100, 101, 102)
QUIET_CORES: Final = 0.25
QUIET_S: Final = 0.5
SETTLE_S: Final = 20.0


class Pair:
    """Both quorums, started; ``properties`` are those of every controller of both.

    Use it as a context manager: nothing outlives it.
    """

    def __init__(self, directory: Path, size: int, properties: Mapping[str, object]) -> None:
        self.quorums = {
            kind: Quorum(
                directory / kind, [kind] * size, free_ports(size), properties, flags=BENCH_FLAGS
            )
            for kind in KINDS
        }
        for quorum in self.quorums.values():
            for controller in quorum.controllers.values():
                if isinstance(controller, KafkaController):
                    controller.level = "WARN"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for quorum in self.quorums.values():
            self._stack.enter_context(quorum)
            quorum.format()
            quorum.start()
        for quorum in self.quorums.values():
            quorum.leader()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def register_brokers(self) -> None:
        """Give both quorums three brokers that hold the replicas, until the end."""
        for quorum in self.quorums.values():
            register_brokers(quorum, self._stack)

    def settle(self) -> None:
        """Wait until the processes of both are nearly idle, 20 s at most."""
        limit = time.monotonic() + SETTLE_S
        while time.monotonic() < limit:
            before = self._cpu_seconds()
            time.sleep(QUIET_S)
            if self._cpu_seconds() - before < QUIET_CORES * QUIET_S:
                return

    def _cpu_seconds(self) -> float:
        return sum(
            controller.cpu_seconds()
            for quorum in self.quorums.values()
            for controller in quorum.controllers.values()
        )


def register_brokers(quorum: Quorum, stack: ExitStack) -> None:
    """Register three brokers without data; they stay until ``stack`` is closed."""
    ports = list(quorum.ports.values())
    brokers = [
        stack.enter_context(SilentBroker(number, 9092, CLUSTER_ID, ports)) for number in BROKERS
    ]
    for broker in brokers:
        if not broker.unfenced.wait(60):
            raise TimeoutError(f"broker {broker.broker_id} is fenced for 60 s")


def create_topic(quorum: Quorum, name: str) -> None:
    """Create a topic. Raises RuntimeError when that is refused."""
    error = quorum.create_topic(name)
    if error != NONE:
        raise RuntimeError(f"CreateTopics {name}: error {error}")


def wait_until_replicated(quorum: Quorum) -> None:
    """Wait until every voter's log reaches the present end of the leader's."""
    leader = quorum.leader()
    partition = quorum.describe(leader)
    goal = 0 if partition is None else partition["high_watermark"]

    def replicated() -> bool:
        partition = quorum.describe(leader)
        return partition is not None and all(
            voter["log_end_offset"] >= goal for voter in partition["current_voters"]
        )

    wait_until("every voter has the log", replicated)
