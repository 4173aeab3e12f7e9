"""The events of different replicas must agree, in whatever order they are read.

Nodes of a real cluster share no clock, so nothing here orders events of different nodes. Each
event only needs a cause: a leader for each follower, pre-votes for each candidate, and a leader's
high watermark for each that a follower has learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kraftwreck.checkers.kraft.quorum_model.replica import Replica
from kraftwreck.checkers.kraft.quorum_model.transitions import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    NONE,
    RESIGNED,
)
from kraftwreck.histories.trace import TraceEvent

OF_OTHERS = frozenset(("hw", "append", "truncate", "grant", "elected", "state", "start"))
"""The kinds of events that need a cause, or are one."""

Proof = tuple[str, list[TraceEvent]]


class Causes:
    """The acts of the replicas ``by_id`` that need a cause, and the causes."""

    def __init__(self, by_id: Mapping[int, Replica]) -> None:
        self._by_id = by_id
        self._led: dict[tuple[int, int], int] = {}  # (leader, epoch): its last high watermark
        self._followed: dict[tuple[int, int], TraceEvent] = {}
        self._learned: dict[tuple[int, int], TraceEvent] = {}
        self._supported: set[tuple[int, int, int]] = set()  # voter, epoch, candidate
        self._campaigns: list[tuple[int, frozenset[int], TraceEvent]] = []  # candidate, voters
        self._kept: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
        """By (leader, epoch): (base, epoch, crc) of the batches in its log."""
        self._cuts: list[tuple[TraceEvent, tuple[int, int, int]]] = []

    def take(self, replica: Replica, event: TraceEvent) -> None:
        """Take in one event before ``replica`` changes its log."""
        kind, node = event.kind, replica.id
        if kind == "hw":
            if event.state == LEADER:
                self._led[node, event.epoch] = event.hw
            elif event.state == FOLLOWER and event.hw > replica.installed:
                known = self._learned.get((event.leader, event.epoch))
                if known is None or known.hw < event.hw:
                    self._learned[event.leader, event.epoch] = event
        elif kind == "append":
            if event.state == LEADER:
                kept = self._kept.get((node, event.epoch))
                if kept is None:
                    kept = set(zip(replica.bases, replica.epochs, replica.crcs, strict=True))
                    self._kept[node, event.epoch] = kept
                kept.add((event.detail["base"], event.detail["epoch"], event.detail["crc"]))
        elif kind == "truncate":
            first = replica.first_at(event.leo)
            if first is not None and replica.bases[first] == event.leo:
                cut = replica.bases[first], replica.epochs[first], replica.crcs[first]
                self._cuts.append((event, cut))
        elif kind == "grant":
            if event.detail["pre"]:
                self._supported.add((node, event.detail["epoch"], event.detail["candidate"]))
        elif kind == "elected":
            self._led.setdefault((node, event.epoch), NONE)
        elif kind == "state":
            if event.state == FOLLOWER:
                self._followed.setdefault((event.leader, event.epoch), event)
            elif event.state == CANDIDATE and replica.voters:
                self._campaigns.append((node, frozenset(replica.voters), event))
        elif kind == "start" and event.state == RESIGNED:
            # It won that epoch, and was killed before it reported so.
            self._led.setdefault((node, event.epoch), NONE)

    def missing(self) -> Iterator[Proof]:
        """Yield the events that have no cause, with the events that show it."""
        for (leader, epoch), event in self._followed.items():
            if (leader, epoch) not in self._led and leader in self._by_id:
                text = f"{event.node} follows {self._name(leader)}, which never led epoch {epoch}"
                yield text, [event]
        for (leader, epoch), event in self._learned.items():
            most = self._led.get((leader, epoch))
            if most is not None and event.hw > most:
                yield (
                    f"{event.node} learns the high watermark {event.hw} from "
                    f"{self._name(leader)}, whose own in epoch {epoch} was at most {most}",
                    [event],
                )
        for node, voters, event in self._campaigns:
            before = event.epoch - 1
            support = {v for v in voters if v == node or (v, before, node) in self._supported}
            if 2 * len(support) <= len(voters):
                yield (
                    f"{event.node} becomes candidate of epoch {event.epoch} with the pre-votes of "
                    f"{sorted(support)} of {sorted(voters)}",
                    [event],
                )
        for event, cut in self._cuts:
            if cut in self._kept.get((event.leader, event.epoch), ()):
                yield (
                    f"{event.node} truncates the batch at {cut[0]} of epoch {cut[1]}, which its "
                    f"leader {self._name(event.leader)} holds",
                    [event],
                )

    def _name(self, node: int) -> str:
        known = self._by_id.get(node)
        return f"node {node}" if known is None else known.name
