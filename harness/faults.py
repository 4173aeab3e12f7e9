"""When the faults of a schedule start and end: the pure part of the interpreter.

A fault with a trigger is armed at its time. It starts when a node's trace shows the awaited
transition, or shortly afterwards if its draw says so (:mod:`harness.triggers`). The governor
decides about the faults of storms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from kraftwreck.harness.commands import (
    Command,
    Compare,
    Compared,
    FaultDue,
    Note,
    Seen,
    Strike,
    Struck,
    Undo,
    Undone,
    Wake,
)
from kraftwreck.harness.governor import (
    ARM,
    COMPARE,
    FALL_BACK,
    LOOK,
    START,
    STOP,
    Counts,
    Governor,
    Moment,
)
from kraftwreck.harness.triggers import Armed, aim, delay_us
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.trace import TraceEvent


@dataclass(slots=True)
class _Shot:
    """A transition that a fault waited for: when (ns of the test) it happened and was seen."""

    transition: TraceEvent
    happened: int
    seen: int
    delay: int

    def add_to(self, struck: FaultEvent) -> None:
        """Add the transition and the delay to the recorded event of the fault."""
        transition = self.transition
        struck.evidence["trigger"] = {
            "transition": [transition.node, transition.incarnation, transition.seq],
            "kind": transition.kind,
            "epoch": transition.epoch,
            "at": self.happened,
            "seen_after_us": (self.seen - self.happened) // 1000,
            "delay_us": self.delay // 1000,
            "begun_after_us": (struck.time - self.happened) // 1000,
            "done_after_us": (struck.done - self.happened) // 1000,
        }


class Faults:
    """Fires ``schedule``; no fault starts or continues after ``until`` (ns).

    ``nodes`` are the names of all nodes, in order of node id. ``out`` returns the nodes that faults
    keep down or paused, ``counts`` the progress of the clients. With ``compares`` the members are
    compared after each storm.
    """

    def __init__(
        self,
        schedule: Sequence[Fault],
        nodes: Sequence[str],
        out: Callable[[], Collection[str]],
        counts: Callable[[], Counts],
        until: int | None = None,
        *,
        compares: bool = False,
    ) -> None:
        self._schedule = list(schedule)
        self._nodes = tuple(nodes)
        self._counts = counts
        self._until = until
        self._healed = False
        self._in_force: set[int] = set()
        self._ending: set[int] = set()
        self._armed: dict[str, list[Armed]] = {}  # by the kind of the awaited trace event
        self._shots: dict[int, _Shot] = {}
        self._governor = Governor(self._schedule, self._nodes, out, compares=compares)
        self._governs = self._governor.governs

    @property
    def needs_traces(self) -> bool:
        """Whether a fault starts only if a transition is seen; those of storms fall back."""
        return any(fault.trigger is not None and fault.storm is None for fault in self._schedule)

    @property
    def waiting(self) -> int:
        """The number of armed faults that wait for their transitions."""
        return sum(map(len, self._armed.values())) + self._governor.armed

    def awaits(self, kind: str) -> bool:
        """Whether transitions of this kind matter now."""
        return self._governs or bool(self._armed.get(kind))

    def begin(self) -> list[Command]:
        """Plan the faults that have a time, and the first storm."""
        commands: list[Command] = []
        for number, fault in enumerate(self._schedule):
            at = fault.at // 1000 * 1000
            if fault.storm is None and not self._is_late(at):
                action = START if fault.trigger is None else ARM
                commands.append(Wake(at, FaultDue(action, number), f"fault {number}"))
        if self._governs:
            commands += self._moments([(0, LOOK, 0)])
        return commands

    def _is_late(self, now: int) -> bool:
        return self._until is not None and now >= self._until

    def _moments(self, moments: Iterable[Moment]) -> list[Command]:
        return [
            Wake(at, FaultDue(action, number), f"storm {action} {number}")
            for at, action, number in moments
        ]

    def due(self, now: int, alarm: FaultDue) -> list[Command]:
        """Carry out what is due."""
        action, number = alarm.action, alarm.number
        if self._healed:
            return []
        if action == STOP:
            if number not in self._in_force or number in self._ending:
                return []
            self._ending.add(number)
            return [Undo(number)]
        if self._is_late(now):
            return []
        if action == LOOK:
            busy = bool(self._in_force)
            return self._moments(self._governor.look(now, self._counts(), busy=busy))
        if action == ARM:
            self._arm(number)
        elif action == START:
            return self._strike(number)
        elif action == COMPARE:
            return [Compare()]
        elif action == FALL_BACK:
            fault = self._governor.fall_back(number)
            if fault is not None:
                self._schedule[number] = fault
                return self._strike(number)
        return []

    def _arm(self, number: int) -> None:
        fault = self._schedule[number]
        if fault.storm is not None:
            self._governor.arm(number)
            return
        armed = Armed(number, fault)
        self._armed.setdefault(armed.kind, []).append(armed)

    def _strike(self, number: int) -> list[Command]:
        self._in_force.add(number)
        return [Strike(number, self._schedule[number])]

    def see(self, event: Seen) -> list[Command]:
        """Process a transition; cheap when no fault waits for its kind and no storm is left."""
        commands: list[Command] = []
        if self._healed:
            return commands
        transition = event.transition
        waiting = self._armed.get(transition.kind)
        if waiting:
            for armed in [armed for armed in waiting if armed.sees(transition)]:
                waiting.remove(armed)
                commands.append(self._fire(armed, event))
        if self._governs:
            governed = self._governor.see(transition)
            if governed is not None:
                commands.append(self._fire(governed, event))
        return commands

    def _fire(self, armed: Armed, event: Seen) -> Command:
        number, fault = armed.number, aim(armed.fault, event.transition, self._nodes)
        delay = delay_us(fault) * 1000
        self._schedule[number] = fault
        self._shots[number] = _Shot(event.transition, event.happened, event.now, delay)
        fact = f"fault {number} {fault.trigger}"
        return Wake(event.happened + delay, FaultDue(START, number), fact)

    def struck(self, event: Struck) -> list[Command]:
        """Record the start of a fault and plan its end: its duration counts from its effect."""
        number, done = event.number, event.event
        fault = self._schedule[number]
        shot = self._shots.pop(number, None)
        if fault.trigger is not None:
            done.detail["trigger"] = fault.trigger
        if shot is not None:
            shot.add_to(done)
        done.detail |= self._governor.detail_of(fault)
        end = self._governor.end(fault, done.done) // 1000 * 1000
        if self._until is not None:
            end = min(end, self._until)
        return [Note(done), Wake(end, FaultDue(STOP, number), f"fault {number} over")]

    def undone(self, event: Undone) -> list[Command]:
        """Record the end of a fault."""
        self._in_force.discard(event.number)
        self._ending.discard(event.number)
        return [Note(event.event)]

    def compared(self, event: Compared) -> list[Command]:
        """Continue after a comparison of the members."""
        if self._healed:
            return []
        return self._moments(self._governor.compared(event.now, self._counts()))

    def heal(self) -> list[Command]:
        """Start and end no fault from now on; the driver undoes all of them."""
        self._healed = True
        self._armed.clear()
        return []
