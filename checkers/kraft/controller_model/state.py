"""All states of the metadata that the committed log went through, by offset.

A state is named by its end: it includes every record below that offset. Batches are atomic, so
only the ends of batches name states.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    BROKER,
    ELR_FEATURE,
    TOPIC,
    Broker,
    MetadataModel,
    Partition,
    PartitionKey,
)
from kraftwreck.checkers.kraft.controller_model.replay import Step

T = TypeVar("T")
_FOREVER: Final = 1 << 62
NEXT_PRODUCER_ID: Final = "next producer id"


class Versions(Generic[T]):
    """The values of one item over time; None while it does not exist."""

    __slots__ = ("_ends", "_values")

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._values: list[T | None] = []

    def put(self, end: int, value: T | None) -> None:
        """Set the value from the state ``end`` on; ends never decrease."""
        if self._ends and self._ends[-1] == end:
            self._values[-1] = value
        else:
            self._ends.append(end)
            self._values.append(value)

    def at(self, end: int) -> T | None:
        """Return the value in the state ``end``."""
        place = bisect_right(self._ends, end) - 1
        return self._values[place] if place >= 0 else None

    def since(self, low: int, high: int) -> Iterator[tuple[int, T | None, T | None]]:
        """Yield (end, before, after) of the changes in states above ``low``, up to ``high``."""
        for place in range(bisect_right(self._ends, low), bisect_right(self._ends, high)):
            before = self._values[place - 1] if place else None
            yield self._ends[place], before, self._values[place]

    def changes(self) -> Iterator[tuple[int, T | None, T | None]]:
        """Yield (end, before, after) of all changes."""
        return self.since(-1, _FOREVER)

    def among(self, low: int, high: int) -> Iterator[T | None]:
        """Yield the values in the states from ``low`` to ``high``, the latest first."""
        for place in range(bisect_right(self._ends, high) - 1, -1, -1):
            yield self._values[place]
            if self._ends[place] <= low:
                return
        yield None


NEVER: Final[Versions[Any]] = Versions()
"""The versions of an item that never existed."""


DIRECTORIES: Final = 17
"""The first level of metadata.version with directories (3.7-IV2)."""
ELIGIBLE_LEADERS: Final = 23
"""The first with eligible leader replicas (4.0-IV1)."""


class Changes:
    """The ends of the batches that changed something, in order."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: list[int] = []

    def note(self, end: int) -> None:
        """Note a change in the state ``end``; ends never decrease."""
        if not self._ends or self._ends[-1] != end:
            self._ends.append(end)

    def until(self, end: int) -> int:
        """Return the number of changes up to ``end``: equal numbers mean equal states."""
        return bisect_right(self._ends, end)


class StateHistory:
    """All states, built from a replay; ``whole`` is True if the log is known from its beginning.

    ``ends`` are those of the batches that changed anything, in order.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Versions[bytes]] = {}
        self.ids: dict[bytes, Versions[str]] = {}
        self.partitions: dict[PartitionKey, Versions[Partition]] = {}
        self.counts: dict[bytes, int] = {}
        """The most partitions a topic id ever had."""
        self.configs: dict[tuple[int, str, str], Versions[str]] = {}
        self.brokers: dict[int, Versions[Broker]] = {}
        self.features: dict[str, Versions[int]] = {}
        self.producers: Versions[int] = Versions()
        self.controllers: dict[int, Versions[Any]] = {}
        self.ends: list[int] = []
        self.topic_changes = Changes()
        self.broker_changes = Changes()
        self.changes_of: dict[bytes, Changes] = {}
        """By topic id: changes of its name and its partitions."""
        self.shown: dict[Any, tuple[Any, Any]] = {}
        """The last lookup by item: (number of changes, value). Most reads find the item unchanged
        since the read before."""
        self.others = False
        """Whether there are other records: quotas, access control and the like."""
        self.reach = 0
        self.segments = 0
        self.whole = False
        self._by_section: dict[str, dict[Any, Any]] = {
            "topic": self.topics,
            "partition": self.partitions,
            "config": self.configs,
            "broker": self.brokers,
            "feature": self.features,
            "controller": self.controllers,
        }

    def begin(self, start: int, reach: int) -> None:
        """Begin a part of the log, from ``start`` to ``reach``."""
        self.reach = reach
        self.segments += 1
        self.whole = self.segments == 1 and start == 0

    def step(self, step: Step) -> None:
        """Take in a record that was applied."""
        end, change = step.batch.last + 1, step.change
        if not self.ends or self.ends[-1] != end:
            self.ends.append(end)
        if change is None:
            if step.name == "ClearElrRecord":
                self._compare(end, step.model)
            return
        if change.section == "producer ids":
            self.producers.put(end, change.new)
            return
        section = self._by_section.get(change.section)
        if section is None:
            self.others = True
            return
        section.setdefault(change.key, Versions()).put(end, change.new)
        if change.section == "broker":
            self.broker_changes.note(end)
        elif change.section == "topic":
            self.topic_changes.note(end)
            self._topic(end, change.key, change.old, change.new)
        elif change.section == "partition":
            topic_id, number = change.key
            self._of(topic_id).note(end)
            self.counts[topic_id] = max(self.counts.get(topic_id, 0), number + 1)

    def _of(self, topic_id: bytes) -> Changes:
        return self.changes_of.setdefault(topic_id, Changes())

    def _topic(self, end: int, name: str, old: bytes | None, new: bytes | None) -> None:
        for topic_id in (old, new):
            if topic_id is not None:
                self._of(topic_id).note(end)
        if new is not None:
            self.ids.setdefault(new, Versions()).put(end, name)
            return
        assert old is not None
        self.ids.setdefault(old, Versions()).put(end, None)
        for number in range(self.counts.get(old, 0)):
            # After a gap in the log some partitions may be known, and others not.
            self.partitions.setdefault((old, number), Versions()).put(end, None)
        for key, versions in self.configs.items():
            if key[:2] == (TOPIC, name) and versions.at(end) is not None:
                versions.put(end, None)

    def _compare(self, end: int, model: MetadataModel) -> None:
        """Take in changes of partitions without a record of their own."""
        for key, partition in model.partitions.items():
            versions = self.partitions.setdefault(key, Versions())
            if versions.at(end) != partition:
                versions.put(end, partition)
                self._of(key[0]).note(end)

    def changes(self) -> Iterator[tuple[int, str, Any, Any]]:
        """Yield every change: (end, name of the map, key, value or None), by map and key."""
        maps = {f"{section}s": of for section, of in self._by_section.items()}
        maps["numbers"] = {NEXT_PRODUCER_ID: self.producers}
        for name, of in maps.items():
            for key, versions in of.items():
                for end, _, value in versions.changes():
                    yield end, name, key, value

    def states(self, low: int, high: int) -> Iterator[State]:
        """Yield the states from ``low`` to ``high``, the latest first, ``low`` itself last."""
        for place in range(bisect_right(self.ends, high) - 1, bisect_right(self.ends, low) - 1, -1):
            yield State(self, self.ends[place])
        yield State(self, low)

    def as_made(self, topic_id: bytes, low: int) -> list[Partition]:
        """Return the partitions of a topic that was created after ``low``, as they were then."""
        made: list[Partition] = []
        created = -1
        while (versions := self.partitions.get((topic_id, len(made)))) is not None:
            end, _, partition = next(versions.since(low, _FOREVER), (-1, None, None))
            if partition is None or created not in (-1, end):
                break  # The others were added later.
            created = end
            made.append(partition)
        return made

    def before(self, end: int) -> State:
        """Return the state that the batch ending at ``end`` was applied to."""
        place = bisect_left(self.ends, end)
        return State(self, self.ends[place - 1] if place else 0)


class State:
    """The metadata in one state."""

    __slots__ = ("_history", "end")

    def __init__(self, history: StateHistory, end: int) -> None:
        self._history = history
        self.end = end

    def as_before(self, what: Any, changes: int, find: Callable[[], T]) -> T:
        """Return ``find()``, or the last value for ``what`` if ``changes`` is still the same."""
        shown = self._history.shown
        known = shown.get(what)
        if known is None or known[0] != changes:
            known = shown[what] = changes, find()
        found: T = known[1]
        return found

    def was_right(self, what: Any, changes: Any, told: Any) -> bool:
        """Whether ``told`` was the last right answer for ``what``, after as many changes."""
        return self._history.shown.get(what) == (changes, told)

    def is_right(self, what: Any, changes: Any, told: Any) -> None:
        """Remember ``told`` as right for ``what``."""
        self._history.shown[what] = changes, told

    def topic(self, name: str) -> bytes | None:
        """Return the id of a topic, None if there is none."""
        return self._history.topics.get(name, NEVER).at(self.end)

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        history = self._history
        changes = history.topic_changes.until(self.end)
        return self.as_before("topics", changes, self._find_topics)

    def _find_topics(self) -> list[str]:
        return sorted(n for n, v in self._history.topics.items() if v.at(self.end) is not None)

    def changes_of(self, topic_id: bytes) -> int:
        """Return how often a topic or its partitions have changed."""
        changes = self._history.changes_of.get(topic_id)
        return 0 if changes is None else changes.until(self.end)

    def changes_of_brokers(self) -> int:
        """Return how often registrations have changed."""
        return self._history.broker_changes.until(self.end)

    def name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, None if there is none."""
        return self._history.ids.get(topic_id, NEVER).at(self.end)

    def partition(self, topic_id: bytes | None, number: int) -> Partition | None:
        """Return a partition, None if there is none; a topic that does not exist has no id."""
        key = topic_id or b"", number
        return self._history.partitions.get(key, NEVER).at(self.end)

    def partitions(self, topic_id: bytes) -> list[Partition]:
        """Return the partitions of a topic, from 0 on."""
        found = (self.partition(topic_id, n) for n in range(self._history.counts.get(topic_id, 0)))
        return [partition for partition in found if partition is not None]

    def config(self, kind: int, resource: str, name: str) -> str | None:
        """Return a setting, None if it is not set."""
        return self._history.configs.get((kind, resource, name), NEVER).at(self.end)

    def configs(self, kind: int, resource: str) -> dict[str, str]:
        """Return all settings of a resource."""
        values = {}
        for key, versions in self._history.configs.items():
            if key[0] == kind and key[1] == resource:
                value = versions.at(self.end)
                if value is not None:
                    values[key[2]] = value
        return values

    def broker(self, broker_id: int) -> Broker | None:
        """Return a registration, None if there is none."""
        return self._history.brokers.get(broker_id, NEVER).at(self.end)

    def brokers(self) -> dict[int, Broker]:
        """Return all registrations by id, in order."""
        return self.as_before("brokers", self.changes_of_brokers(), self._find_brokers)

    def _find_brokers(self) -> dict[int, Broker]:
        found = ((i, v.at(self.end)) for i, v in sorted(self._history.brokers.items()))
        return {i: broker for i, broker in found if broker is not None}

    def level(self, feature: str) -> int:
        """Return the finalized level of a feature, 0 if there is none."""
        return self._history.features.get(feature, NEVER).at(self.end) or 0

    def levels(self) -> dict[str, int]:
        """Return all finalized levels."""
        found = {name: v.at(self.end) for name, v in self._history.features.items()}
        return {name: level for name, level in found.items() if level}

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead and join an ISR."""
        broker = self.broker(broker_id)
        return broker is not None and broker.active

    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are kept (KIP-966)."""
        return self.level(ELR_FEATURE) >= 1 and self.level("metadata.version") >= ELIGIBLE_LEADERS

    def has_directories(self) -> bool:
        """Whether registrations have the directories of brokers (KIP-858)."""
        return self.level("metadata.version") >= DIRECTORIES

    def setting(self, topic: str, name: str) -> str | None:
        """Return a topic's own setting, or the cluster's for all topics."""
        own = self.config(TOPIC, topic, name)
        return own if own is not None else self.config(BROKER, "", name)
