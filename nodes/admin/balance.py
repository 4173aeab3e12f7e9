"""Carry out plans: reassign partitions, wait for the copies, elect the preferred leaders."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.nodes.admin.client import LONGEST_PAUSE_S, PAUSE_S, refused
from kraftwreck.nodes.admin.cluster import Cluster, Key, State
from kraftwreck.nodes.admin.failure import NOT_DONE, AdminError
from kraftwreck.nodes.admin.planner import Move, Plan, PlanError, plan_balance
from kraftwreck.nodes.protocol.errors import (
    ELECTION_NOT_NEEDED,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

Say = Callable[[str], None]

MOST_ROUNDS: Final = 20
"""Plans in a row that leave something to do, as topics are created meanwhile."""
PREFERRED: Final = 0
_GONE: Final = (UNKNOWN_TOPIC_OR_PARTITION,)


@dataclass(slots=True)
class Done:
    """Numbers of the changes that a command has made so far."""

    partitions: int = 0
    replicas: int = 0
    bytes: int = 0
    leaders: int = 0

    def counted(self) -> dict[str, Any]:
        """Return the numbers for ``--json``."""
        return {
            "partitions_changed": self.partitions,
            "replicas_copied": self.replicas,
            "bytes_copied": self.bytes,
            "leaders_elected": self.leaders,
        }


class Balancer:
    """Balances a cluster on some of its brokers, at most ``batch`` partitions at a time.

    ``timeout_s`` is how long it waits for the next partition to complete.
    """

    def __init__(self, cluster: Cluster, say: Say, timeout_s: float, batch: int) -> None:
        self._cluster = cluster
        self._say = say
        self._timeout_s = timeout_s
        self._batch = batch
        self.done = Done()

    def plan(self, state: State, brokers: Collection[int]) -> Plan:
        """Return the plan that balances ``state`` on ``brokers``. Raises AdminError."""
        _check_alive(state, brokers)
        sizes = self._cluster.sizes(state.brokers.values())
        racks = {broker: state.brokers[broker].rack for broker in brokers}
        try:
            return plan_balance(state.placed(sizes), racks)
        except PlanError as error:
            raise AdminError(f"{error}; add a broker first, or lower the replicas") from error

    def run(self, choose: Callable[[State], Collection[int]]) -> State:
        """Balance the cluster on the brokers that ``choose`` names; return the balanced state."""
        for _ in range(MOST_ROUNDS):
            state = self._cluster.state()
            plan = self.plan(state, choose(state))
            moving = [key for key, partition in state.partitions.items() if partition.moving]
            if not plan.moves and not moving:
                return self._elect(state)
            self._say(
                f"{len(plan.moves)} partition(s) to change, {plan.copied} replica(s) to copy "
                f"({plan.bytes} bytes known), {len(moving)} partition(s) moving already"
            )
            if not plan.moves:
                self._wait(moving)
            for first in range(0, len(plan.moves), self._batch):
                self._carry_out(plan.moves[first : first + self._batch])
        raise AdminError("the cluster changes all the time; repeat the command", NOT_DONE)

    def _carry_out(self, moves: Sequence[Move]) -> None:
        wanted = {(move.old.topic, move.old.partition): move.brokers for move in moves}
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": number, "replicas": list(wanted[topic, number])}
                    for number in numbers
                ],
            }
            for topic, numbers in _by_topic(wanted)
        ]
        body = {"timeout_ms": 30_000, "allow_replication_factor_change": False, "topics": topics}
        answer = self._cluster.client.call("AlterPartitionReassignments", body)
        if answer["error_code"] != NONE:
            raise refused("reassignment", answer["error_code"], answer["error_message"])
        for topic in answer["responses"]:
            for part in topic["partitions"]:
                if part["error_code"] not in (NONE, *_GONE):
                    name = f"{topic['name']}-{part['partition_index']}"
                    raise refused(name, part["error_code"], part["error_message"])
        self._wait(list(wanted))
        self.done.partitions += len(moves)
        self.done.replicas += sum(move.copied for move in moves)
        self.done.bytes += sum(move.copied * move.old.size for move in moves)

    def _wait(self, keys: Collection[Key]) -> None:
        """Wait until the moves of ``keys`` are complete."""
        left, since, pause = len(keys), time.monotonic(), PAUSE_S
        while still := {key: p for key, p in self._cluster.moving().items() if key in keys}:
            now = time.monotonic()
            if len(still) < left:
                left, since, pause = len(still), now, PAUSE_S
                self._say(f"{len(keys) - left} of {len(keys)} partition(s) moved")
            if now - since > self._timeout_s:
                (topic, number), part = next(iter(sorted(still.items())))
                raise AdminError(
                    f"{topic}-{number}: no partition was completed for {self._timeout_s:g} s "
                    f"(it waits for brokers {part['adding_replicas']}); check that they run, and "
                    "repeat the command",
                    NOT_DONE,
                )
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _elect(self, state: State) -> State:
        """Elect the preferred leaders of all partitions that others lead."""
        since = time.monotonic()
        elected: set[Key] = set()
        while wanted := _led_by_others(state):
            body = {
                "election_type": PREFERRED,
                "topic_partitions": [
                    {"topic": topic, "partitions": numbers} for topic, numbers in _by_topic(wanted)
                ],
                "timeout_ms": 30_000,
            }
            answer = self._cluster.client.call("ElectLeaders", body)
            if answer["error_code"] != NONE:
                raise refused("election of leaders", answer["error_code"], None)
            failed = ""
            for topic in answer["replica_election_results"]:
                for part in topic["partition_result"]:
                    if part["error_code"] == NONE:
                        elected.add((topic["topic"], part["partition_id"]))
                    elif part["error_code"] not in (ELECTION_NOT_NEEDED, *_GONE):
                        name = f"{topic['topic']}-{part['partition_id']}"
                        failed = str(refused(name, part["error_code"], part["error_message"]))
            self.done.leaders = len(elected)
            if failed and time.monotonic() - since > self._cluster.client.patience_s:
                raise AdminError(f"{failed}; repeat the command later", NOT_DONE)
            time.sleep(PAUSE_S)
            state = self._cluster.state()
        return state


def _led_by_others(state: State) -> list[Key]:
    return [
        key
        for key, partition in sorted(state.partitions.items())
        if partition.leader != partition.replicas[0] and partition.replicas[0] in partition.isr
    ]


def _by_topic(keys: Iterable[Key]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(keys):
        topics[topic].append(number)
    return list(topics.items())


def _check_alive(state: State, brokers: Collection[int]) -> None:
    for broker in sorted(brokers):
        if state.brokers[broker].fenced:
            at = state.brokers[broker].endpoint
            raise AdminError(
                f"broker {broker} ({at}) is fenced, so nothing can move to it; start it, or "
                "remove it first",
                NOT_DONE,
            )
