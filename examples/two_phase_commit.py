"""Two-phase commit as two pure state machines, with a planted bug.

A participant of :data:`SYSTEM` votes yes without storing its vote; that of :data:`FIXED` stores it
first. ``kraftwreck sim kraftwreck.examples.two_phase_commit:SYSTEM`` finds the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kraftwreck import api
from kraftwreck.api import Note, Post, Put, Received, Reply, RequestReceived, Tick

COORDINATOR, RETRY, TIMEOUT = 1, 300_000, 1_000_000  # the id of a node; microseconds


@dataclass
class Message:
    txn: str
    yes: bool = False


# fmt: off
class Begin(Message): ...  # of a client
class Prepare(Message): ...
class Vote(Message): ...
class Decide(Message): ...
class Ack(Message): ...
# fmt: on


class Coordinator:
    def __init__(self, place: api.CorePlace) -> None:
        self.deadline = 0
        self.peers = place.peers
        self.outcomes: dict[str, bool | None] = dict(place.stored)  # None: open
        self.open: dict[str, tuple[int, int, set[int]]] = {}  # Client, time, and votes.
        self.unacked: dict[str, set[int]] = {}

    def start(self, now: int, wall_ms: int) -> list[Any]:
        self.deadline = now + RETRY
        return [e for txn, commit in self.outcomes.items() for e in self.decide(txn, bool(commit))]

    def step(self, event: Any, now: int, wall_ms: int) -> list[Any]:
        match event:
            case RequestReceived(token, Begin(txn)):
                self.outcomes[txn], self.open[txn] = None, (token, now, set())
                return [Put(txn, None), *(Post(peer, Prepare(txn)) for peer in self.peers)]
            case Received(source, Vote(txn, yes)) if txn in self.open:
                votes = self.open[txn][2]
                votes.add(source)
                if not yes or len(votes) == len(self.peers):
                    return self.decide(txn, yes)
            case Received(source, Ack(txn)):
                self.unacked[txn].discard(source)
            case Tick() if now >= self.deadline:
                self.deadline = now + RETRY
                late = [txn for txn, (_, at, _) in self.open.items() if now - at > TIMEOUT]
                again = [post for txn in self.unacked for post in self.announce(txn)]
                return again + [effect for txn in late for effect in self.decide(txn, False)]
        return []

    def decide(self, txn: str, commit: bool) -> list[Any]:
        self.outcomes[txn], self.unacked[txn] = commit, set(self.peers)
        told = [Reply(self.open.pop(txn)[0], commit)] if txn in self.open else []
        return [Put(txn, commit), Note("decided", {txn: commit}), *self.announce(txn), *told]

    def announce(self, txn: str) -> list[Any]:
        return [Post(p, Decide(txn, bool(self.outcomes[txn]))) for p in sorted(self.unacked[txn])]


class Participant:
    deadline = 1 << 62

    def __init__(self, place: api.CorePlace, forgetful: bool) -> None:
        self.states: dict[str, str] = dict(place.stored)
        self.forgetful = forgetful

    def start(self, now: int, wall_ms: int) -> list[Any]:
        return [Note("start")]

    def step(self, event: Any, now: int, wall_ms: int) -> list[Any]:
        match event:
            case Received(_, Prepare(txn)) if txn not in self.states:
                if "prepared" in self.states.values():  # Another transaction holds the lock.
                    return [Post(COORDINATOR, Vote(txn, False))]
                self.states[txn] = "prepared"
                promise = [] if self.forgetful else [Put(txn, "prepared")]
                return [*promise, Post(COORDINATOR, Vote(txn, True))]
            case Received(_, Decide(txn, commit)):
                known, ack = self.states.get(txn), Post(COORDINATOR, Ack(txn))
                if known in ("committed", "aborted"):
                    return [ack]
                done = commit and known == "prepared"  # It has nothing to commit otherwise.
                self.states[txn] = "committed" if done else "aborted"
                return [Put(txn, self.states[txn]), Note("decided", {txn: done}), ack]
        return []


class Agreement(api.Watch):
    """All nodes decide alike on a transaction, whatever fails."""

    def on_trace(self, host: api.SimulatedHost, event: api.TraceEvent) -> None:
        if event.kind == "decided":
            [txn] = event.detail
            first = self.seen.setdefault(txn, event)
            if first.detail != event.detail:
                self.fail("agreement", f"{first.node} and {event.node} disagree", first, event)


class Transactions(api.PlannedWorkload):
    """The workload, which is its own client: transaction after transaction."""

    name = "transactions"
    checkers: Sequence[str] = ()

    def plan(self, seed: int, thread: int, count: int) -> api.Planned:
        return api.Planned("commit", value=f"{thread}.{count}")

    def final(self, nodes: Sequence[str]) -> Sequence[api.Planned]:
        return ()

    def client(self, setting: api.ClientSetting) -> Transactions:
        return self

    def reset(self) -> None: ...

    def invoke(self, op: api.Op) -> api.Invocation:
        answer = yield api.Call("n1", Begin(op.value), 2000)
        if answer.status == "ok":
            return api.Completion("ok" if answer.response else "fail")
        return api.Completion("fail" if answer.status == "refused" else "info", error=answer.error)


def make(place: api.CorePlace, forgetful: bool = False) -> api.Core:
    return Coordinator(place) if place.id == COORDINATOR else Participant(place, forgetful)


FIXED = api.CoreSystem(
    name="2pc", make=make, nodes=4, workload=Transactions(), watches=(Agreement,)
)
SYSTEM = replace(FIXED, make=lambda place: make(place, forgetful=True))
