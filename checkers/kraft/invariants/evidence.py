"""All evidence that the invariants are judged by, gathered once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from kraftwreck.checkers.kraft.quorum_model.log_chain import BatchId, Election
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.recorded.committed_log import CommittedLog, committed_log
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch
from kraftwreck.checkers.kraft.recorded.settings import setting
from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.kraft.rule import Rule
from kraftwreck.checkers.recorded.clocks import after, node_clocks, pauses
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent

NO_MESSAGES = "messages were not captured"
NOT_WHOLE = "the disks no longer hold the whole committed log"
GAPS = "the traces have gaps"
TRACES_LAG = 2
"""The first version of traces (:data:`histories.trace.TRACES`) with ``apply``."""
NO_LAG = "nodes of older versions did not trace how far their metadata lagged"


class Evidence:
    """``trace`` is T4, ``log`` T6 and ``messages`` T1 of docs/invariants.md."""

    def __init__(self, run: RunData) -> None:
        self.run = run
        self.trace: QuorumModel = quorum_model(run)
        self.names = dict(enumerate(run.nodes, start=1))
        self.ids = {name: node for node, name in self.names.items()}
        self._clocks = node_clocks(run.test)

    @cached_property
    def lacking(self) -> dict[str, str]:
        """Why there is no evidence of a kind, by its tag in docs/invariants.md."""
        missing = {
            "T1": not self.captured and NO_MESSAGES,
            "T2": not self.run.images and "no disk image",
            "T4": not self.trace.count and "no trace",
            "T6": not self.log.segments and "no committed metadata records on the disks",
        }
        return {tag: why for tag, why in missing.items() if why}

    def why_unseen(self, rule: Rule) -> str:
        """Return why a rule judged nothing, unless the rule has said more."""
        tags = rule.evidence.split()
        return ", ".join(why for tag, why in self.lacking.items() if tag in tags) or rule.nothing

    @cached_property
    def log(self) -> CommittedLog:
        return committed_log(self.run)

    @cached_property
    def pauses(self) -> dict[str, list[tuple[int, int]]]:
        return pauses(self.run.faults)

    @cached_property
    def elections(self) -> dict[tuple[int, int], Election]:
        """The elections, by the leader's id and its epoch."""
        tracks = self.trace.tracks
        return {(tracks[e.node].id, e.epoch): e for e in self.trace.chain.elections}

    @cached_property
    def _appends(self) -> dict[BatchId, TraceEvent]:
        """Return the events in which leaders appended batches."""
        return {
            (event.detail["base"], event.epoch): event
            for event in self.run.events
            if event.kind == "append" and event.detail.get("by") == "leader"
        }

    def append_of(self, batch: StoredBatch | None) -> list[TraceEvent]:
        """Return the event in which a leader appended ``batch``, if there is a trace of it."""
        event = None if batch is None else self._appends.get((batch.base, batch.epoch))
        return [] if event is None else [event]

    def setting(self, name: str, default: int, node: int = 0) -> int:
        """Return a setting of the nodes of a simulated run, or of that ``node``; ``default`` if it
        was not set."""
        return setting(self.settings_of(node), name, default)

    def settings_of(self, node: int) -> dict[str, Any]:
        """Return ``test.json``; for a hasty node, with its own settings."""
        test: dict[str, Any] = self.run.test
        knobs = test.get("knobs")
        if not isinstance(knobs, dict) or node not in (knobs.get("hasty_nodes") or ()):
            return test
        return {**test, "knobs": {**knobs, "node": {**knobs["node"], **knobs["hasty"]}}}

    @property
    def captured(self) -> bool:
        """Whether messages between nodes were captured at all."""
        return self.run.capture is not None

    @property
    def own_inputs(self) -> bool:
        """Whether messages are from the input logs of the nodes that they reached."""
        return self.run.capture is not None and self.run.capture.own_inputs

    @property
    def lag_traced(self) -> bool:
        """Whether nodes traced how far their metadata image lagged behind their commits: those of
        older versions on hosts did not."""
        versions = self.run.test.get("versions")
        traces = versions.get("traces") if isinstance(versions, dict) else None
        return not self.own_inputs or (isinstance(traces, int) and traces >= TRACES_LAG)

    @cached_property
    def steps(self) -> dict[int, list[int]]:
        """For each node's number, in order, times (ns since the start) at which it took a step:
        those of its traces and of the messages in its input log."""
        moments: dict[int, set[int]] = {number: set() for number in self.names}
        for at, event in self.dated(self.run.events):
            if event.node in self.ids:
                moments[self.ids[event.node]].add(at)
        for messages in self.messages.values():
            for message in messages:
                owner = message.asker if message.request is None else message.replier
                moments.setdefault(owner, set()).update((message.begun, message.time))
        return {number: sorted(times) for number, times in moments.items()}

    @cached_property
    def sequence(self) -> list[Message]:
        """The captured messages, in order of time.

        A loss of power may cut a trace earlier than the input log beside it. Answers after the end
        of the trace are left out, since no event shows the state of the node at that time.
        """
        if self.run.capture is None:
            return []
        if not self.own_inputs:
            return self.run.capture.messages
        lives: dict[str, dict[int, tuple[int, int]]] = {}
        for at, event in self.dated(self.run.events):
            known = lives.setdefault(event.node, {})
            first, last = known.get(event.incarnation, (at, at))
            known[event.incarnation] = min(first, at), max(last, at)

        def traced(message: Message) -> bool:
            spans = lives.get(self.name(message.replier), {}).values()
            return any(begin <= message.sent and message.time <= end for begin, end in spans)

        return [
            message
            if message.sent < 0 or traced(message)
            else Message(message.sent, message.asker, message.replier, message.api, message.request)
            for message in self.run.capture.messages
        ]

    @cached_property
    def messages(self) -> dict[str, list[Message]]:
        """The captured messages by API, in order of time."""
        by_api: dict[str, list[Message]] = {}
        for message in self.sequence:
            by_api.setdefault(message.api, []).append(message)
        return by_api

    def of(self, api: str) -> list[Message]:
        """Return the messages of one API."""
        return self.messages.get(api, [])

    @cached_property
    def cluster_id(self) -> str | None:
        """The cluster's id as in the first Metadata response; None without one."""
        told = (m.response["cluster_id"] for m in self.of("Metadata") if m.response)
        return next(told, None)

    @cached_property
    def controllers(self) -> int:
        """How many nodes are controllers: the first ones, all of them in a run without brokers."""
        return len(self.run.test.get("controllers") or self.run.nodes)

    def is_broker(self, message: Message) -> bool:
        """Whether a broker answers, which forwards changes to the active controller."""
        return message.as_gateway or message.replier > self.controllers

    def name(self, node: int) -> str:
        """Return the name of a node."""
        return self.names.get(node, f"node {node}")

    def moment(self, event: TraceEvent | None) -> int | None:
        """Return when (ns since the start of the test) an event happened, None if there is none or
        if clocks are unknown."""
        return None if event is None else self.instant(event.node, event.mono)

    def dated(self, events: Iterable[TraceEvent]) -> Iterator[tuple[int, TraceEvent]]:
        """Yield events with their times (ns since the start of the test), where these are known."""
        for event in events:
            if (at := self.instant(event.node, event.mono)) is not None:
                yield at, event

    def instant(self, node: str, mono: int) -> int | None:
        """Return when (ns since the start of the test) a node's monotonic clock showed ``mono``
        (µs), if clocks are known."""
        clock = self._clocks.get(node)
        return None if clock is None else clock.time(mono) * 1000

    def after(self, node: str, since: int, span: int) -> int:
        """Return when (ns) ``span`` ns by the node's clock are over after ``since`` (ns)."""
        return after(self._clocks.get(node), since, span)

    @cached_property
    def high_watermark(self) -> int:
        """The highest high watermark that any node reported, -1 if none did."""
        return self.trace.high_watermark
