"""Random runs of a group: faults, clients, then a calm end; every choice is drawn by key.

``run(seed)`` raises :class:`~network.BrokenError` (or a FatalError of a member) if something
is wrong. A seed gives the same run always.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.checkers.calls import OPEN, Call
from kraftwreck.checkers.linearizability import decide
from kraftwreck.checkers.linearizability.models import Register as RegisterModel
from kraftwreck.histories.operation import FAIL, INFO, OK
from kraftwreck.nodes.consensus.embedded import NotLeaderError, Outcome
from kraftwreck.nodes.consensus.raft.states import Leader
from kraftwreck.nodes.draw import draw_below
from kraftwreck.systems.raft.invariants import BrokenError
from tests.consensus.raft.invariants import Watch
from tests.consensus.raft.network import MS, Group, Packet

CALM_MS: Final = 15_000
"""Within this time of calm a group elects a leader, and all members catch up."""
MOST_PACKETS: Final = 40
MOST_OPEN: Final = 5


@dataclass
class Chaos:
    """One random run."""

    seed: int
    steps: int = 400
    group: Group = field(init=False)
    calls: list[Call] = field(default_factory=list)
    old: list[Packet] = field(default_factory=list)
    unrest: int = 1
    duels: bool = False

    def __post_init__(self) -> None:
        size = (3, 5, 5, 1, 2, 3, 3, 3)[self.draw(8, "size")]
        options: dict[str, Any] = {
            "pre_vote": self.draw(2, "pre-vote") == 0,
            "check_quorum": self.draw(3, "check-quorum") > 0,
            "read_index": self.draw(4, "read-index") > 0,
            "snapshot_piece_bytes": (60, 100, 1 << 18)[self.draw(3, "piece")],
            "append_max_bytes": (1, 300, 1 << 20)[self.draw(3, "append")],
        }
        if self.draw(2, "quick"):  # Many elections in a run.
            options |= {"election_timeout_ms": 200, "heartbeat_ms": 50, "request_timeout_ms": 100}
        self.unrest = (1, 3)[self.draw(2, "unrest")]
        snapshot_bytes = (400, 1500, 1 << 20)[self.draw(3, "snapshot")]
        self.duels = self.draw(4, "duels") == 0
        if self.duels:  # Short terms of few entries each, as in figure 8 of the Raft paper.
            size = (3, 5)[self.draw(2, "duelists")]
            options |= {"append_max_bytes": 1, "pre_vote": False}
        self.watch = Watch()
        self.group = Group(
            size, self.seed, watch=self.watch, snapshot_bytes=snapshot_bytes, **options
        )
        self._step = 0
        self._events = 0
        self._value = 0
        self._open = 0

    def draw(self, bound: int, *purpose: Any) -> int:
        """Return a number below ``bound`` that depends on seed, step and purpose."""
        return draw_below(bound, self.seed, getattr(self, "_step", -1), *purpose)

    def run(self) -> None:
        """Make all steps, then heal everything, and judge the history."""
        self.group.start_all()
        if self.draw(4, "calm first") == 0:
            self._elect("members that start together")
        for step in range(self.steps):
            self._step = step
            self._act()
        self._calm()
        self._judge()

    # --- steps ------------------------------------------------------------------------------

    def _act(self) -> None:
        group = self.group
        self._network()
        if self.duels:
            self._duel()
        dice = self.draw(1000, "act")
        if dice < 250:
            self._operate()
        elif dice < 250 + 15 * self.unrest and group.members:
            ids = sorted(group.members)
            group.kill(ids[self.draw(len(ids), "victim")], self.draw(3, "keep"))
        elif dice < 360:
            down = sorted(set(group.addresses) - set(group.members))
            if down:
                group.start(down[self.draw(len(down), "restart")])
        elif dice < 360 + 20 * self.unrest:
            self._isolate()
        elif dice < 380 + 20 * self.unrest:
            group.heal()
        elif dice < 600 and self.old:
            # A request may be repeated long afterwards.
            group.deliver(self.old[self.draw(len(self.old), "old")])
        group.now += (1 + self.draw(40, "time")) * MS
        if self.draw(60, "long") == 0:
            group.now += self.draw(1500, "silence") * MS
        group.tick()

    def _duel(self) -> None:
        """Kill a leader soon after its election, and let former leaders return."""
        group = self.group
        leading = [i for i in group.members if isinstance(group.core(i).state, Leader)]
        if leading and self.draw(5, "end of a term") == 0:
            group.kill(leading[0], self.draw(3, "keep"))
        down = sorted(set(group.addresses) - set(group.members))
        if len(down) > len(group.addresses) // 2 or (down and self.draw(8, "return") == 0):
            group.start(down[self.draw(len(down), "back")])
        for turn in range(self.draw(3, "losses")):
            if group.packets:
                del group.packets[self.draw(len(group.packets), "lost", turn)]

    def _isolate(self) -> None:
        """Cut one member off, often the leader, or two."""
        group = self.group
        ids = sorted(group.addresses)
        leader = group.leader()
        alone = [ids[self.draw(len(ids), "alone")]]
        if leader is not None and self.draw(2, "the leader"):
            alone = [leader]
        if self.draw(2, "two"):
            alone.append(ids[self.draw(len(ids), "another")])
        group.isolate(*alone)

    def _network(self) -> None:
        """Deliver some packets in any order; lose or repeat a few."""
        group = self.group
        for turn in range(1 + self.draw(8, "deliveries")):
            if not group.packets:
                return
            place = 0
            if self.draw(4, "reorder", turn) == 0:
                place = self.draw(len(group.packets), "place", turn)
            fate = self.draw(100, "fate", turn)
            packet = group.packets[place]
            if self.draw(4, "kept", turn) == 0 and not packet.is_answer:
                self.old = [*self.old[-9:], packet]
            if fate >= 8:
                del group.packets[place]
            if fate >= 4:
                group.deliver(packet)
            else:
                group.packets.append(group.packets.pop(place))
                group.deliver(packet)
        del group.packets[:-MOST_PACKETS]

    # --- clients ----------------------------------------------------------------------------

    def _operate(self) -> None:
        group = self.group
        if self._open >= MOST_OPEN or not group.members:
            return
        ids = sorted(group.members)
        i = ids[self.draw(len(ids), "member")]
        leading = [m for m in ids if group.members[m].leads]
        if leading:
            i = leading[self.draw(len(leading), "leading")]
        kind = ("read", "read", "write", "cas")[self.draw(4, "f")]
        argument: Any = None
        if kind == "write":
            self._value += 1
            argument = self._value
        elif kind == "cas":
            self._value += 1
            argument = [max(0, self._value - 1 - self.draw(3, "old")), self._value]
        self.invoke(i, kind, argument)

    def invoke(self, i: int, kind: str, argument: Any = None) -> Call:
        """Invoke an operation at member ``i``; its call is completed later, or never."""
        group = self.group
        call = Call(
            f=kind, key="r", process=len(self.calls), type=INFO, argument=argument, value=argument,
            start=self._events, end=OPEN, completion=-1, invoked=group.now, completed=None,
            node=str(i), error=None, final=False,
        )  # fmt: skip
        self._events += 1
        member, machine = group.members[i], group.machine(i)

        def complete(outcome: Outcome) -> None:
            self._open -= 1
            if not outcome.certain:
                return
            value = machine.value if kind == "read" else outcome.results[0]
            call.type = FAIL if kind == "cas" and not value else OK
            call.value = value if kind == "read" else argument
            call.end = call.completion = self._events
            self._events += 1

        try:
            if kind == "read":
                member.barrier(complete)
            else:
                values = argument if kind == "cas" else [argument]
                member.propose([" ".join([kind, *map(str, values)]).encode()], complete)
        except NotLeaderError:
            return call
        self.calls.append(call)
        self._open += 1
        if self.draw(3, "at once"):
            group.settle(i)
        return call

    def _elect(self, members: str) -> None:
        if not self.group.run(CALM_MS, lambda: self.group.leader() is not None):
            raise BrokenError(f"liveness: {members} elect no leader")

    # --- the end ----------------------------------------------------------------------------

    def _calm(self) -> None:
        """Heal everything; the group must elect a leader that commits and brings all up."""
        group = self.group
        group.heal()
        group.packets.clear()
        for i in sorted(set(group.addresses) - set(group.members)):
            group.start(i)
        group.snapshot_bytes = 1 << 20
        self._elect("members after healing")
        final: list[Call] = []

        def readable() -> bool:
            leader = group.leader()
            if leader is not None and (not final or final[-1].type != OK):
                final.append(self.invoke(leader, "read"))
                group.settle(leader)
            return bool(final) and final[-1].type == OK

        if not group.run(CALM_MS, readable):
            raise BrokenError("liveness: no read after healing")

        def equal() -> bool:
            return len({group.core(i).commit_offset for i in group.members}) == 1

        if not group.run(CALM_MS, equal):
            raise BrokenError("liveness: members that never catch up")
        values = {group.machine(i).value for i in group.members}
        if len(values) != 1:
            raise BrokenError(f"state machine safety: members hold {sorted(values)}")

    def _judge(self) -> None:
        model = RegisterModel("register", initial=0)
        outcome = decide.check(model, self.calls, time_limit_s=20, max_steps=200_000)
        if outcome.valid is False:
            raise BrokenError("linearizability: no order explains the answers")


def first_failure(seeds: Iterable[int]) -> str | None:
    """Make the random runs of ``seeds`` until one fails; return its seed and the reason."""
    for seed in seeds:
        try:
            run(seed)
        except Exception as error:
            return f"seed {seed}: {type(error).__name__}: {error}"
    return None


def run(seed: int, steps: int = 400) -> Chaos:
    """Make the random run of ``seed``. Raises BrokenError or FatalError."""
    chaos = Chaos(seed, steps)
    chaos.run()
    return chaos


if __name__ == "__main__":
    print(first_failure(range(int(sys.argv[1]))) or "")
