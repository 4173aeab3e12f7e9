"""Reassignments that clients requested: a second one may replace the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kraftwreck.checkers.kraft.recorded.arrived import all_arrived, arrived, may_be_done
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.message import Message

MANY = 1 << 62


class AskedReassignments:
    """Counts requests by topic and replicas. Any number is possible if some were not captured."""

    def __init__(self, run: RunData) -> None:
        self._all = all_arrived(run)
        self._known: Counter[tuple[str, frozenset[int]]] = Counter()
        for message in arrived(run, ("AlterPartitionReassignments",)):
            self._count(message)

    def _count(self, message: Message) -> None:
        answer = message.response
        if not may_be_done(answer):
            return
        parts = {
            (topic["name"], part["partition_index"]): part
            for topic in (answer or {}).get("responses", ())
            for part in topic["partitions"]
        }
        for topic in message.request["topics"]:
            for part in topic["partitions"]:
                told = parts.get((topic["name"], part["partition_index"]))
                if part["replicas"] and may_be_done(told):
                    self._known[topic["name"], frozenset(part["replicas"])] += 1

    def times(self, topic: str | None, replicas: Iterable[int]) -> int:
        """Return how often a move of any partition to ``replicas`` may have been requested."""
        if not self._all or topic is None:
            return MANY
        return self._known[topic, frozenset(replicas)]
