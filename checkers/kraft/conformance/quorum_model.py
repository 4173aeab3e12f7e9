"""The events of different replicas must agree, in whatever order they are read.

Nodes of a real cluster share no clock, so the model does not order events of different nodes. It
only asks whether each has a cause: a leader for each follower, a vote for each counted vote, and
a leader's high watermark for each that a follower has learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kraftwreck.checkers.kraft.conformance.replica_model import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    NONE,
    RESIGNED,
    ReplicaModel,
)
from kraftwreck.histories.trace import TraceEvent

Proof = tuple[str, list[TraceEvent]]


class QuorumModel:
    """All replicas at once. ``names`` are those of the nodes, by id."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._led: dict[tuple[int, int], int] = {}  # (leader, epoch): its last high watermark
        self._followed: dict[tuple[int, int], TraceEvent] = {}
        self._learned: dict[tuple[int, int], TraceEvent] = {}
        self._granted: set[tuple[int, int, int]] = set()  # voter, epoch, candidate
        self._supported: set[tuple[int, int, int]] = set()  # the same for pre-votes
        self._elections: list[TraceEvent] = []
        self._campaigns: list[tuple[int, frozenset[int], TraceEvent]] = []  # candidate, voters
        self._logs: dict[int, dict[int, tuple[int, int]]] = {}  # node: base: epoch, crc
        self._kept: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        self._cuts: list[tuple[TraceEvent, int, int, int]] = []  # base, epoch, crc

    def step(self, model: ReplicaModel, event: TraceEvent) -> None:
        """Take in one event of the node ``model`` before that node's model accepts it."""
        kind, node = event.kind, model.id
        if kind == "hw":
            if event.state == LEADER:
                self._led[node, event.epoch] = event.hw
            elif event.state == FOLLOWER and event.hw > model.installed:
                known = self._learned.get((event.leader, event.epoch))
                if known is None or known.hw < event.hw:
                    self._learned[event.leader, event.epoch] = event
        elif kind == "append":
            detail = event.detail
            log = self._logs.setdefault(node, {})
            log[detail["base"]] = batch = detail["epoch"], detail["crc"]
            if event.state == LEADER:
                self._kept.setdefault((node, event.epoch), dict(log))[detail["base"]] = batch
        elif kind == "truncate":
            self._cut(node, event)
        elif kind == "grant":
            kept = self._supported if event.detail["pre"] else self._granted
            kept.add((node, event.detail["epoch"], event.detail["candidate"]))
        elif kind == "elected":
            self._elections.append(event)
            self._led.setdefault((node, event.epoch), NONE)
        elif kind == "state":
            if event.state == FOLLOWER:
                self._followed.setdefault((event.leader, event.epoch), event)
            elif event.state == CANDIDATE and model.voters is not None:
                self._campaigns.append((node, model.voters, event))
        elif kind == "start":
            # Appends and truncations without a trace event are not known here.
            self._logs.pop(node, None)
            if event.state == RESIGNED:
                # It won that epoch, and was killed before it reported so.
                self._led.setdefault((node, event.epoch), NONE)
        elif kind == "install":
            self._logs.pop(node, None)

    def _cut(self, node: int, event: TraceEvent) -> None:
        log = self._logs.get(node, {})
        gone = sorted(base for base in log if base >= event.leo)
        if gone and gone[0] == event.leo:
            self._cuts.append((event, gone[0], *log[gone[0]]))
        for base in gone:
            del log[base]

    def finish(self) -> Iterator[Proof]:
        """Yield the events that have no cause, with the events that show it."""
        for (leader, epoch), event in self._followed.items():
            if (leader, epoch) not in self._led and leader in self._names:
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
        for event in self._elections:
            for voter in event.detail["granting"]:
                ballot = voter, event.epoch, event.leader
                if voter != event.leader and ballot not in self._granted:
                    yield (
                        f"{event.node} counts a vote of {self._name(voter)} in epoch "
                        f"{event.epoch}, which that node never gave",
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
        for event, base, epoch, crc in self._cuts:
            kept = self._kept.get((event.leader, event.epoch), {})
            if kept.get(base) == (epoch, crc):
                yield (
                    f"{event.node} truncates the batch at {base} of epoch {epoch}, which its "
                    f"leader {self._name(event.leader)} holds",
                    [event],
                )

    def _name(self, node: int) -> str:
        return self._names.get(node, f"node {node}")
