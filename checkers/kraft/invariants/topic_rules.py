"""Names and ids: C10 (one TopicRecord per live name) and C11 TopicIdUnique, ProducerIdUnique."""

from __future__ import annotations

from kraftwreck.checkers.kraft.controller_model.replay import Step
from kraftwreck.checkers.kraft.invariants.report import Report


class TopicRules:
    """Rules for topics. ``created`` and ``removed`` are the names of all topics ever."""

    def __init__(self, report: Report) -> None:
        self.created: set[str] = set()
        self.removed: set[str] = set()
        self._report = report
        self._ids: dict[bytes, tuple[int, str]] = {}
        self._producers = -1

    def step(self, step: Step) -> None:
        """Judge a change that is neither of a partition nor of a broker."""
        change = step.change
        assert change is not None
        if change.section == "producer ids":
            self._report.held("C11")
            if change.new <= self._producers:
                self._report.broken(
                    "C11",
                    f"Offset {step.offset} continues producer ids at {change.new}, but those below "
                    f"{self._producers} were assigned before.",
                )
            self._producers = max(self._producers, change.new)
        elif change.section == "topic" and change.new is not None:
            self.created.add(change.key)
            self._report.held("C10")
            self._report.held("C11")
            first = self._ids.setdefault(change.new, (step.offset, change.key))
            if first[0] != step.offset:
                self._report.broken(
                    "C11",
                    f"Topic {change.key} at offset {step.offset} has the id {change.new.hex()}, "
                    f"which topic {first[1]} had before.",
                )
        elif change.section == "topic":
            self.removed.add(change.key)

    def refused(self, offset: int, name: str, why: str) -> bool:
        """Report that an existing topic was created again."""
        if name != "TopicRecord":
            return False
        self._report.broken("C11" if "has the id" in why else "C10", f"Offset {offset}: {why}.")
        return True
