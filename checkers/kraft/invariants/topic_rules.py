"""Names and ids: C10 (a name has one TopicRecord and collides with none), C11 IdUnique, and C2 for
producer ids."""

from __future__ import annotations

from kraftwreck.checkers.kraft.controller_model.metadata_model import Change
from kraftwreck.checkers.kraft.controller_model.refusals import collide
from kraftwreck.checkers.kraft.controller_model.replay import Step
from kraftwreck.checkers.kraft.invariants.report import Report


class TopicRules:
    """Rules for topics and producer ids."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ids: dict[bytes, tuple[int, str]] = {}
        self._producers = -1

    def step(self, step: Step, change: Change) -> None:
        """Judge a change that is neither of a partition nor of a broker."""
        if change.section == "producer ids":
            self._owner(step)
            self._report.held("C11")
            if change.new <= self._producers:
                self._report.broken(
                    "C11",
                    f"Offset {step.offset} continues producer ids at {change.new}, but those below "
                    f"{self._producers} were assigned before.",
                )
            self._producers = max(self._producers, change.new)
        elif change.section == "topic" and change.new is not None:
            self._report.held("C10")
            self._report.held("C11")
            first = self._ids.setdefault(change.new, (step.offset, change.key))
            if first[0] != step.offset:
                self._report.broken(
                    "C11",
                    f"Topic {change.key} at offset {step.offset} has the id {change.new.hex()}, "
                    f"which topic {first[1]} had before.",
                )
            other = next((name for name in step.model.topics if collide(name, change.key)), None)
            if other is not None:
                self._report.broken(
                    "C10",
                    f"Offset {step.offset} creates topic {change.key} beside topic {other}, whose "
                    "name differs in '.' and '_' only.",
                )

    def _owner(self, step: Step) -> None:
        """C2: producer ids are given to the registered incarnation only."""
        broker_id, epoch = step.fields["broker_id"], step.fields["broker_epoch"]
        broker = step.model.brokers.get(broker_id)
        if broker is not None:
            self._report.held("C2")
            if broker.epoch != epoch:
                self._report.broken(
                    "C2",
                    f"Offset {step.offset} gives producer ids to broker {broker_id} epoch {epoch}; "
                    f"its epoch is {broker.epoch}.",
                )

    def refused(self, offset: int, name: str, why: str) -> bool:
        """Report that an existing topic was created again."""
        if name != "TopicRecord":
            return False
        self._report.broken("C11" if "has the id" in why else "C10", f"Offset {offset}: {why}.")
        return True
