"""Reassignments that clients requested: a second one may replace the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import FAIL, INFO, OK

MANY = 1 << 62


class AskedReassignments:
    """Counts requests by topic and replicas, from the history and from captured answers."""

    def __init__(self, run: RunData) -> None:
        self._known: Counter[tuple[str | None, frozenset[int]]] = Counter()
        self._unsure: set[str | None] = set()
        self._any = False
        captured = run.capture is not None and self._count_answers(run)
        for call in run.calls:
            if call.f == "reassign" and call.type != FAIL:
                value = call.value
                if call.type == INFO or not isinstance(value, dict) or "replicas" not in value:
                    self._unsure.add(call.key)
                elif not captured:
                    self._known[call.key, frozenset(value["replicas"])] += 1
            elif call.f == "ask" and not (captured and call.type in (OK, FAIL)):
                self._ask(call.argument)

    def _count_answers(self, run: RunData) -> bool:
        """Count the requests that were granted; return whether any answer was captured."""
        answered = False
        for message in run.capture.messages if run.capture is not None else ():
            if message.api != "AlterPartitionReassignments" or not message.response:
                continue
            answered = True
            granted = {
                (topic["name"], part["partition_index"])
                for topic in message.response.get("responses", ())
                for part in topic["partitions"]
                if part["error_code"] == 0
            }
            for topic in message.request["topics"] if message.request else ():
                for part in topic["partitions"]:
                    replicas = part["replicas"]
                    if replicas and (topic["name"], part["partition_index"]) in granted:
                        self._known[topic["name"], frozenset(replicas)] += 1
        return answered

    def _ask(self, probe: Any) -> None:
        """Note the topic of a probe, which may have requested a reassignment."""
        if isinstance(probe, dict) and probe.get("kind", "reassign") != "reassign":
            self._unsure.add(probe.get("name"))
        else:
            self._any = True  # The topic is unknown.

    def times(self, topic: str | None, replicas: Iterable[int]) -> int:
        """Return how often a move of any partition to ``replicas`` may have been requested."""
        if self._any or topic in self._unsure:
            return MANY
        return self._known[topic, frozenset(replicas)]
