"""The loop that plans, invokes and records operations and fires faults, as a pure state machine.

``step(event) -> commands``: events say what happened (time passed, an operation ended, a transition
was seen, a fault has started), commands what to do (record, invoke, start a fault, wait until a
time). It has no clock, thread or socket. Two drivers feed it: threads and sockets
(:mod:`harness.threads`), and virtual time (:mod:`harness.simulated.driver`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from kraftwreck.harness.commands import (
    Abandon,
    Alarm,
    Begin,
    Command,
    Compare,
    Compared,
    Ended,
    Event,
    FaultDue,
    FinalPhase,
    LimitDue,
    OperationDue,
    Ring,
    Seen,
    Stop,
    Struck,
    Undone,
)
from kraftwreck.harness.faults import Faults
from kraftwreck.harness.operations import Operations
from kraftwreck.histories.fault import Fault


class Interpreter:
    """The operations of clients and the faults of ``schedule``.

    ``nodes`` are the names of all nodes, in order of node id. ``out`` returns the nodes that faults
    keep down or paused. No fault starts at or after ``until`` (ns). With ``compares`` operations
    pause after each storm, and the driver compares the members of the system.
    """

    def __init__(
        self,
        operations: Operations,
        schedule: Sequence[Fault],
        nodes: Sequence[str],
        out: Callable[[], Collection[str]],
        until: int | None = None,
        *,
        compares: bool = False,
    ) -> None:
        self.operations = operations
        self.faults = Faults(
            schedule, nodes, out, lambda: operations.counts, until, compares=compares
        )

    def step(self, event: Event) -> list[Command]:
        """Return what to do after ``event``, in this order."""
        match event:
            case Seen():
                return self.faults.see(event)
            case Ring():
                return self._ring(event.now, event.alarm)
            case Ended():
                return self.operations.ended(event)
            case Struck():
                return self.faults.struck(event)
            case Undone():
                return self.faults.undone(event)
            case Begin():
                return self.faults.begin() + self.operations.begin(event.now)
            case Stop():
                return self.operations.stop()
            case Abandon():
                return self.operations.abandon(event.now)
            case Compared():
                self.operations.resume()
                return self.faults.compared(event)
            case FinalPhase():
                return self.operations.final(event.now, event.planned)
            case _:
                return self.faults.heal()

    def _ring(self, now: int, alarm: Alarm) -> list[Command]:
        match alarm:
            case OperationDue():
                return self.operations.due(now, alarm)
            case FaultDue():
                commands = self.faults.due(now, alarm)
                if any(isinstance(command, Compare) for command in commands):
                    self.operations.pause()
                return commands
            case LimitDue():
                return self.operations.over(alarm)
            case _:
                return self.operations.poll(now, alarm)
