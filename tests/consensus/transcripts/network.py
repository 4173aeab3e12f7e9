"""Replicas whose messages, timers and crashes a transcript commands one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kraftwreck.nodes.consensus.effects import Effect, Reply, Send, SnapshotReply, Trace
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.consensus.recovered import Snapshot
from tests.consensus.disks import Disk, bootstrap_snapshot, directory_of, endpoint_of, values_of
from tests.consensus.transcripts import printed
from tests.consensus.transcripts.checked import Invariants

MS = 1000
SWITCHES = {each.name for each in fields(QuorumConfig) if isinstance(each.default, bool)}
"""Settings that a transcript turns on by 1."""
OUTSIDE = 0
"""Source of requests that no replica sent; their answers are printed only."""
MOST = 5000
"""Deliveries and timers of one command, before they are said never to end."""


@dataclass
class InFlight:
    """A message between two nodes; ``deliver`` hands it to the target."""

    source: int
    target: int
    deliver: Callable[[], None]


class Network:
    """Nodes with disks, and the messages between them.

    ``said`` collects what happened since the last command, with the time. Static voters are
    configured; with ``dynamic`` they lie in a bootstrap snapshot (KIP-853). Voters that are
    ``listening`` report their directories and addresses to the leader.
    """

    def __init__(
        self, voters: int, *, dynamic: bool, listening: bool, settings: Mapping[str, int]
    ) -> None:
        self.brokers: set[int] = set()
        self.listening = listening or dynamic
        self.initial = list(range(1, voters + 1))
        self.dynamic = dynamic
        self.settings: dict[str, Any] = {"linger_ms": 0, **settings}
        for name in SWITCHES & self.settings.keys():
            self.settings[name] = bool(self.settings[name])
        self.now = 0
        self.said: list[tuple[int, str]] = []
        self.disks: dict[int, Disk] = {}
        self.disk_number: dict[int, int] = {}
        self.lives: dict[int, int] = {}
        self.replicas: dict[int, Replica] = {}
        self.loaded: dict[int, list[bytes]] = {}
        self.in_flight: list[InFlight] = []
        self.cuts: set[tuple[int, int]] = set()
        self._tokens: list[tuple[int, int, int, int]] = []
        self._invariants = Invariants()
        for i in self.initial:
            self.start(i)

    def say(self, line: str) -> None:
        """Add a line to the output of the command."""
        self.said.append((self.now, line))

    # --- nodes ----------------------------------------------------------------------------------

    def start(self, i: int) -> None:
        """Start node ``i`` from its disk; a node that is not a voter gets an empty one."""
        number = self.disk_number.setdefault(i, 0)
        if i not in self.disks:
            self.disks[i] = Disk()
            if self.dynamic and i in self.initial and number == 0:
                self.disks[i].snapshots[0, 0] = bootstrap_snapshot(self.initial)
        self.lives[i] = self.lives.get(i, 0) + 1
        static = {v: endpoint_of(v) for v in self.initial}
        config = QuorumConfig(
            i,
            "cluster",
            directory_of(i, number),
            {} if self.dynamic else static,
            incarnation=self.lives[i],
            bootstrap_servers=tuple(static.values()) if self.dynamic else (),
            listener=endpoint_of(i) if self.listening and i not in self.brokers else None,
            can_become_voter=i not in self.brokers,
            **self.settings,
        )
        replica = Replica(config, self.disks[i].recovered(), self.now, 0)
        self.replicas[i] = replica
        self.loaded[i] = []
        replica.start()
        self._settle(i)

    def crash(self, i: int, *, lose_unsynced: bool) -> None:
        """Kill node ``i``: its disk remains, and with ``lose_unsynced`` only what was flushed."""
        del self.replicas[i]
        if lose_unsynced:
            self.disks[i].lose_unsynced()

    def wipe(self, i: int) -> None:
        """Give the dead node ``i`` a new, empty disk."""
        del self.disks[i]
        self.disk_number[i] += 1

    def handle(self, i: int, action: Callable[[Replica], object]) -> None:
        """Let node ``i`` do ``action`` and carry out what follows."""
        replica = self.replicas[i]
        replica.now = self.now
        action(replica)
        self._settle(i)

    def ask(self, i: int, message: Any, source: int = OUTSIDE) -> None:
        """Give node ``i`` a request that no replica sent."""
        self._tokens.append((OUTSIDE, source, 0, 0))
        token = len(self._tokens) - 1
        self.handle(i, lambda r: handle_request(r, token, message))

    def _settle(self, i: int) -> None:
        replica = self.replicas[i]
        poll.poll(replica)
        effects, replica.effects = replica.effects, []
        for effect in effects:
            self.disks[i].apply(effect)
        self._invariants.persisted(replica, self.disks[i], effects)
        for effect in effects:
            self._carry_out(i, effect)
        self._listen(replica)
        self._invariants.step(self.replicas, self.disks, self.disk_number, self.loaded)

    def _listen(self, replica: Replica) -> None:
        state = self.loaded[replica.node_id]
        for delivery in replica.committed:
            if isinstance(delivery, Snapshot):
                state[:] = values_of(delivery.content)
            else:
                state += values_of(delivery)
        replica.committed.clear()
        for leader, epoch in replica.announcements:
            if leader >= 0:
                self.say(f"{replica.node_id} announces leader {leader} of epoch {epoch}")
        replica.announcements.clear()

    def _carry_out(self, i: int, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._send(i, effect)
        elif isinstance(effect, Reply):
            self._answer(i, effect.token, effect.message)
        elif isinstance(effect, SnapshotReply):
            message = effect.message
            content = self.disks[i].snapshots[message.snapshot_end, message.snapshot_epoch]
            message.data = content[message.position : message.position + effect.max_bytes]
            self._answer(i, effect.token, message)
        else:
            is_static = isinstance(effect, Trace) and self.replicas[i].kraft_version == 0
            for line in printed.effect(i, effect, is_static=is_static):
                self.say(line)

    # --- messages -------------------------------------------------------------------------------

    def _put(self, source: int, target: int, text: str, deliver: Callable[[], None]) -> None:
        lost = (source, target) in self.cuts
        self.say(f"{source} -> {target}  {text}{'  (lost)' if lost else ''}")
        if not lost:
            self.in_flight.append(InFlight(source, target, deliver))

    def _send(self, source: int, effect: Send) -> None:
        assert effect.endpoint is not None
        target = int(effect.endpoint.host.removeprefix("n"))
        life, message = self.lives[source], effect.message

        def respond(answer: Any) -> None:
            if source in self.replicas and self.lives[source] == life:
                self.handle(
                    source,
                    lambda r: handle_response(r, effect.destination, effect.correlation, answer),
                )

        def deliver() -> None:
            if target not in self.replicas:
                self.say(f"{target} is down: {source} is told at once")
                respond(None)
            elif isinstance(message, ApiVersionsRequest):
                answer = ApiVersionsResponse(0, 0, 1)
                self._put(target, source, printed.message(answer), lambda: respond(answer))
            else:
                self._tokens.append((source, effect.correlation, life, effect.destination))
                token, before = len(self._tokens) - 1, len(self.said)
                self.handle(target, lambda r: handle_request(r, token, message))
                if isinstance(message, FetchRequest) and len(self.said) == before:
                    self.say(f"{target} lets the fetch of {source} wait")

        self._put(source, target, printed.message(message), deliver)

    def _answer(self, source: int, token: int, message: Any) -> None:
        target, correlation, life, alias = self._tokens[token]
        text = printed.message(message)
        if target == OUTSIDE:
            asked_by = correlation or "client"
            self.say(f"{source} -> {asked_by}  {text}")
            return

        def deliver() -> None:
            if target in self.replicas and self.lives[target] == life:
                self.handle(target, lambda r: handle_response(r, alias, correlation, message))

        self._put(source, target, text, deliver)

    def deliver(self, chosen: Callable[[InFlight], bool], *, repeat: bool) -> int:
        """Deliver the chosen messages in order, with ``repeat`` also those that follow from them.

        Returns how many. Raises RuntimeError if they never end.
        """
        count = 0
        while True:
            batch = [each for each in self.in_flight if chosen(each)]
            for each in batch:
                self.in_flight.remove(each)
                each.deliver()
            count += len(batch)
            if count > MOST:
                raise RuntimeError("messages never end")
            if not repeat or not batch:
                return count

    # --- time -----------------------------------------------------------------------------------

    def expire(self, i: int) -> None:
        """Let the timer of node ``i`` run out now, on no other node."""

        def run_out(replica: Replica) -> None:
            state: Any = replica.state
            if replica.is_leader:
                state.check_quorum_deadline = replica.now
            else:
                state.deadline = replica.now

        self.handle(i, run_out)

    def pass_time(self, milliseconds: int, *, delivering: bool) -> None:
        """Let time pass; nodes do what is due in order. With ``delivering``, messages arrive.

        Raises RuntimeError if a timer is due again and again.
        """
        end = self.now + milliseconds * MS
        for _ in range(MOST):
            if delivering:
                self.deliver(lambda each: True, repeat=True)
            due = {i: max(poll.deadline(r), self.now) for i, r in self.replicas.items()}
            i = min(due, key=lambda each: (due[each], each), default=0)
            if i == 0 or due[i] > end:
                self.now = end
                return
            self.now = max(due[i], self.now + 1)  # Nothing due now twice: time does pass.
            self.handle(i, lambda replica: None)
        raise RuntimeError("a timer is due again and again")
