"""The events and commands of the interpreter (:mod:`harness.interpreter`). Times are in ns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraftwreck.harness.client import Completion
from kraftwreck.harness.generator import Planned
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.trace import TraceEvent

# --- alarms: what is due at a time ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperationDue:
    """The next operation of a lane; stale when the lane has asked again since."""

    lane: int
    asked: int


@dataclass(frozen=True, slots=True)
class PollDue:
    """The next attempt of a final read."""

    index: int


@dataclass(frozen=True, slots=True)
class LimitDue:
    """The end of the time that an attempt of an operation may take."""

    thread: int
    attempt: int


@dataclass(frozen=True, slots=True)
class FaultDue:
    """An action on a fault, or a look at the conditions of the next storm."""

    action: int
    number: int


Alarm = OperationDue | PollDue | LimitDue | FaultDue

# --- events ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """The test begins."""

    now: int


@dataclass(frozen=True, slots=True)
class Ring:
    """The time of a :class:`Wake` has come."""

    now: int
    alarm: Alarm


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt of the operation ``index`` ended."""

    now: int
    thread: int
    index: int
    completion: Completion


@dataclass(frozen=True, slots=True)
class Stop:
    """Clients begin no further operations."""

    now: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Open operations end now; their outcome is unknown."""

    now: int


@dataclass(frozen=True, slots=True)
class FinalPhase:
    """The final operations begin, on the healed and quiet system."""

    now: int
    planned: Sequence[Planned]


@dataclass(frozen=True, slots=True)
class Seen:
    """A node's trace showed a transition, which ``happened`` earlier."""

    now: int
    transition: TraceEvent
    happened: int


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault has started."""

    number: int
    event: FaultEvent


@dataclass(frozen=True, slots=True)
class Undone:
    """A fault has ended."""

    number: int
    event: FaultEvent


@dataclass(frozen=True, slots=True)
class Heal:
    """No fault starts or ends by itself any longer."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The members were compared, as :class:`Compare` asked."""

    now: int


Event = (
    Begin | Ring | Ended | Stop | Abandon | FinalPhase | Seen | Struck | Undone | Heal | Compared
)

# --- commands -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """Append ``op`` to the history."""

    op: Op


@dataclass(frozen=True, slots=True)
class Invoke:
    """Let the client of ``thread`` attempt ``op``, its operation ``number`` (None: a final one)."""

    thread: int
    op: Op
    number: int | None


@dataclass(frozen=True, slots=True)
class Renew:
    """The process of ``thread`` ended: its client begins as another, with new connections."""

    thread: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget the open operation of ``thread``."""

    thread: int


@dataclass(frozen=True, slots=True)
class Abort:
    """End the attempt of ``op``, which takes too long."""

    thread: int
    op: Op


@dataclass(frozen=True, slots=True)
class Wake:
    """Ring ``alarm`` at ``at``; ``fact`` names it in the digest of a simulated run."""

    at: int
    alarm: Alarm
    fact: str


@dataclass(frozen=True, slots=True)
class Strike:
    """Start a fault."""

    number: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Undo:
    """End a fault."""

    number: int


@dataclass(frozen=True, slots=True)
class Note:
    """Append ``event`` to the recorded faults."""

    event: FaultEvent


@dataclass(frozen=True, slots=True)
class Compare:
    """Compare the members of the system; no operation begins meanwhile."""


Command = Record | Invoke | Renew | Drop | Abort | Wake | Strike | Undo | Note | Compare
