"""Clients of the lock service in the simulator, with faults drawn by key.

    python -m tests.examples.simulated_locks CORE SECONDS

prints how many simulated seconds a CPU second makes without faults, at 60 commands a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.examples.lock_service.simulated import lock_world
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.draw import draw_below
from kraftwreck.simulation.knobs import WorldKnobs, draw_world

MS = 1000
SECOND = 1000 * MS
PAUSE = 50 * MS
CLIENTS = 3


@dataclass
class Seen:
    """One answered command: when it was sent and answered, the lock, its holder and version."""

    sent: int
    answered: int
    lock: str
    holder: str | None
    version: int


@dataclass
class Run:
    """Three clients that acquire and release two locks, and read their holders.

    ``faulty``: members are killed (with loss of unflushed data), paused, cut off and restarted
    until half of the time is over.
    """

    kind: str
    seed: int
    seconds: int
    faulty: bool = True
    knobs: WorldKnobs | None = None
    seen: list[Seen] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        names = [f"n{i}" for i in range(1, 4 + 2 * draw_below(2, self.seed, "size"))]
        if self.knobs is None:
            self.knobs = draw_world(self.seed, len(names)) if self.faulty else WorldKnobs()
        self.world = lock_world(self.kind, names, self.seed, self.knobs)
        self.names = names
        self._leader = names[0]
        self._sessions: dict[int, str] = {}

    def draw(self, bound: int, *purpose: Any) -> int:
        return draw_below(bound, self.seed, self.world.now, *purpose)

    def run(self) -> Run:
        world = self.world
        for name in self.names:
            world.start(name)
        for client in range(CLIENTS):
            self._later(client, client)
        if self.faulty:
            world.at(SECOND, self._fault, "fault", fault=True)
        world.at(self.seconds * SECOND // 2, self._heal, "heal", fault=True)
        world.run(self.seconds * SECOND)
        return self

    # --- clients ----------------------------------------------------------------------------

    def _later(self, client: int, count: int) -> None:
        self.world.at(self.world.now + PAUSE, lambda: self._ask(client, count), f"ask {client}")

    def _ask(self, client: int, count: int) -> None:
        session = self._sessions.get(client)
        if session is None:
            request = {"do": "open", "session": f"c{client}-{count}", "timeout_ms": 2000}
        elif count % 5 == 0:
            request = {"do": "keep", "session": session}
        else:
            lock = f"l{self.draw(2, client, 'lock')}"
            do = ("acquire", "release", "holder")[self.draw(3, client, "do")]
            request = {"do": do, "session": session, "lock": lock}
        sent = self.world.now
        self.calls += 1

        def done(status: str, answer: Any, error: str | None) -> None:
            self._later(client, count + 1)
            body = answer or {}
            if body.get("ok"):
                self._answered(client, request, body, sent)
            elif body.get("error") == "no such session":
                self._sessions.pop(client, None)
            else:
                other = body.get("leader", -1)
                place = other - 1 if other > 0 else self.draw(len(self.names), client, "other")
                self._leader = self.names[place]

        self.world.call(client, self._leader, request, 2 * SECOND, done)

    def _answered(self, client: int, request: dict[str, Any], body: Any, sent: int) -> None:
        if request["do"] == "open":
            self._sessions[client] = request["session"]
        elif "version" in body:
            self.seen.append(
                Seen(sent, self.world.now, request["lock"], body["holder"], body["version"])
            )

    # --- faults -----------------------------------------------------------------------------

    def _fault(self) -> None:
        world = self.world
        if world.now >= self.seconds * SECOND // 2:
            return
        name = self.names[self.draw(len(self.names), "whom")]
        match self.draw(6, "fault"):
            case 0:
                world.kill(name, lose_power=True)
            case 1:
                world.pause(name)
            case 2:
                alone = self._leader if self.draw(2, "the leader") else name
                others = {other for other in self.names if other != alone}
                world.cut({alone: others} | {other: {alone} for other in others})
            case 3:
                world.heal()
            case _:
                world.resume(name)
                for other in self.names:
                    world.start(other)
        world.at(world.now + (100 + self.draw(900, "next")) * MS, self._fault, "f", fault=True)

    def _heal(self) -> None:
        self.world.heal()
        for name in self.names:
            self.world.resume(name)
            self.world.start(name)

    # --- judgement --------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """Return how answers contradict each other, and the deaths of members.

        A version names one holder. An answer is at least as new as all answers before it was sent,
        as long as the lock is held.
        """
        found = [f"{e.node}: {e.detail}" for e in self.world.events if e.kind == "fatal"]
        found += contradictions(self.world.events)
        holders: dict[tuple[str, int], str | None] = {}
        newest: dict[str, list[tuple[int, int]]] = {}
        for seen in sorted(self.seen, key=lambda each: each.answered):
            if seen.version < 0:
                continue
            if holders.setdefault((seen.lock, seen.version), seen.holder) != seen.holder:
                found.append(f"two holders of {seen}")
            before = [v for at, v in newest.setdefault(seen.lock, []) if at < seen.sent]
            if before and max(before) > seen.version:
                found.append(f"{seen} is older than version {max(before)}")
            newest[seen.lock].append((seen.answered, seen.version))
        return found


def contradictions(events: Iterable[TraceEvent]) -> list[str]:
    """Return where traces of either core break a rule that both cores share.

    One leader a term, one vote a term and member, one committed batch at an offset, and a commit
    offset that does not fall while a process lives.
    """
    found: list[str] = []
    leaders: dict[int, str] = {}
    votes: dict[tuple[str, int], int] = {}
    committed: dict[int, tuple[Any, ...]] = {}
    marks: dict[tuple[str, int], int] = {}
    for event in events:
        where = f"{event.node} at {event.mono}"
        if event.kind == "elected" and leaders.setdefault(event.epoch, event.node) != event.node:
            found.append(f"{where}: a second leader of term {event.epoch}")
        if event.voted >= 0:
            vote = votes.setdefault((event.node, event.epoch), event.voted)
            if vote != event.voted:
                found.append(f"{where}: votes for {vote} and {event.voted} in {event.epoch}")
        if event.kind == "commit":
            batch = (event.detail["last"], event.detail["epoch"], event.detail["crc"])
            if committed.setdefault(event.detail["base"], batch) != batch:
                found.append(f"{where}: another batch is committed at {event.detail['base']}")
        mark = marks.get((event.node, event.incarnation), -1)
        if 0 <= event.hw < mark:
            found.append(f"{where}: the commit offset falls from {mark} to {event.hw}")
        marks[event.node, event.incarnation] = max(mark, event.hw)
    return found


def main(kind: str, seconds: int) -> None:
    """Measure one core."""
    begun = time.process_time()
    run = Run(kind, 1, seconds, faulty=False).run()
    spent = time.process_time() - begun
    print(f"{kind}: {seconds / spent:.1f} simulated s per CPU s, {len(run.seen)} of {run.calls}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
