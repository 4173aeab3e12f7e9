"""The governor: when the storms of a schedule begin, and which triggered faults may start.

A pure state machine for both kinds of runs. Threads on hosts, or the simulator's timeline, feed it
with trace events and operation counts, and carry out the moments it returns. Times are ns since the
start of the test.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kraftwreck.harness.triggers import Armed
from kraftwreck.histories.fault import Fault, Storm
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.draw import draw

STOP, START, ARM, FALL_BACK, LOOK, COMPARE = range(6)
"""The actions due at a moment, in this order: faults end before others begin."""

Moment = tuple[int, int, int]
"""(time in ns, action, number of the fault or 0 for :data:`LOOK`)."""

INTERVAL: Final = 50_000_000
"""How often (ns) the conditions of the next storm are checked."""

MOST_ARMED: Final = 3
"""How many faults of a storm may wait for their transitions at the same time."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many operations have ended, and how many of them were acknowledged."""

    ended: int
    acknowledged: int


class Leadership:
    """The leader of the highest epoch, as the nodes' traces show it.

    ``nodes`` are the names of all nodes, in order of node id.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = tuple(nodes)
        self._epoch = -1
        self._resigned = False
        self.leader: str | None = None

    def see(self, event: TraceEvent) -> None:
        """Process a transition."""
        if event.epoch < self._epoch:
            return
        if event.epoch > self._epoch:
            self._epoch, self.leader, self._resigned = event.epoch, None, False
        known = 1 <= event.leader <= len(self.nodes)
        named = self.nodes[event.leader - 1] if known else None
        if event.node in (self.leader, named) and event.state != "leader":
            self.leader, self._resigned = None, True
        elif named is not None and not self._resigned:
            self.leader = named

    def leads(self, out: Collection[str]) -> bool:
        """Return whether there is a leader that faults do not keep ``out`` (down or paused).

        Also True before the first transition: a system may have no leader, or not show it.
        """
        return self._epoch < 0 or (self.leader is not None and self.leader not in out)


class Governor:
    """Governs the faults of ``schedule`` that belong to storms, and no others.

    ``out`` returns the nodes that faults keep down or paused. With ``compares`` each storm is
    followed by a comparison of the members (:data:`COMPARE`), and the calm begins after it.
    """

    def __init__(
        self,
        schedule: Sequence[Fault],
        nodes: Sequence[str],
        out: Callable[[], Collection[str]],
        *,
        compares: bool = False,
    ) -> None:
        self._schedule = schedule
        self._out = out
        storms: dict[int, tuple[Storm, list[int]]] = {}
        for number, fault in enumerate(schedule):
            if fault.storm is not None:
                storms.setdefault(fault.storm.number, (fault.storm, []))[1].append(number)
        self._left = deque(storms[number] for number in sorted(storms))
        self._storm: Storm | None = None
        self._why = ""
        self._ends = 0
        self._compares = compares
        self._comparing = False
        self._calm_since = 0
        self._before, self._after = Counts(0, 0), Counts(0, 0)
        self._armed: list[Armed] = []
        self._waiting: set[int] = set()
        self.leadership = Leadership(nodes)

    @property
    def governs(self) -> bool:
        """Whether a storm is left or in progress, or a comparison after it."""
        return bool(self._left) or self._storm is not None or self._comparing

    @property
    def armed(self) -> int:
        """The number of faults that wait for their transitions."""
        return len(self._armed)

    def look(self, now: int, counts: Counts, *, busy: bool) -> list[Moment]:
        """Return the actions from ``now`` on, including the next look.

        ``busy`` says whether any fault is in force.
        """
        if self._storm is not None:
            if now < self._ends or busy:
                return [(max(now + INTERVAL, self._ends), LOOK, 0)]
            self._storm = None
            self._comparing = self._compares
            if self._comparing:
                return [(now, COMPARE, 0)]
            self._calm_since, self._after = now, counts
        if self._comparing or not self._left:
            return []
        why = self._begins(self._left[0][0], now, counts)
        if why is None:
            return [(now + INTERVAL, LOOK, 0)]
        return self._begin(now, counts, why)

    def compared(self, now: int, counts: Counts) -> list[Moment]:
        """Begin the calm; return the next look."""
        self._comparing = False
        self._calm_since, self._after = now, counts
        return [(now, LOOK, 0)]

    def _begins(self, storm: Storm, now: int, counts: Counts) -> str | None:
        """Return why ``storm`` begins now, None if it does not."""
        if now - self._calm_since >= storm.bound:
            return "bound"
        since_end = counts.acknowledged - self._after.acknowledged
        ended = counts.ended - self._before.ended
        acknowledged = counts.acknowledged - self._before.acknowledged
        recovered = (
            self.leadership.leads(self._out())
            and since_end >= storm.operations
            and 100 * acknowledged >= storm.percent * ended
        )
        return "recovery" if recovered else None

    def _begin(self, now: int, counts: Counts, why: str) -> list[Moment]:
        storm, numbers = self._left.popleft()
        self._storm, self._why, self._ends = storm, why, now + storm.length
        self._before = counts
        moments: list[Moment] = []
        for number in numbers:
            fault = self._schedule[number]
            if fault.trigger is None:
                moments.append((now + fault.at, START, number))
            else:
                self._waiting.add(number)
                last = max(now + fault.at, self._ends - fault.duration)
                moments += [(now + fault.at, ARM, number), (last, FALL_BACK, number)]
        return [*moments, (self._ends, LOOK, 0)]

    def end(self, fault: Fault, started: int) -> int:
        """Return when ``fault``, in force since ``started``, must end."""
        end = started + fault.duration
        return end if fault.storm is None else max(started, min(end, self._ends))

    def arm(self, number: int) -> None:
        """Let a triggered fault wait for its transition, unless enough others do."""
        if len(self._armed) < MOST_ARMED and number in self._waiting:
            self._armed.append(Armed(number, self._schedule[number]))

    def see(self, event: TraceEvent) -> Armed | None:
        """Process a transition; return the fault that it starts, if any.

        At most one fault starts, and none while there is no leader.
        """
        self.leadership.see(event)
        if not self._armed or not self.leadership.leads(self._out()):
            return None
        for armed in self._armed:
            if armed.kind == event.kind and armed.sees(event):
                self._armed.remove(armed)
                self._waiting.discard(armed.number)
                return armed
        return None

    def fall_back(self, number: int) -> Fault | None:
        """Return the fault as it starts without its transition; None if it has started."""
        if number not in self._waiting:
            return None
        self._waiting.discard(number)
        self._armed = [armed for armed in self._armed if armed.number != number]
        return aim_by_time(self._schedule[number], self.leadership.leader, self.leadership.nodes)

    def detail_of(self, fault: Fault) -> dict[str, Any]:
        """Return the details to record for a started fault of the current storm."""
        if fault.storm is None:
            return {}
        return {"storm": {"number": fault.storm.number, "after": self._why}}


def aim_by_time(fault: Fault, leader: str | None, nodes: Sequence[str]) -> Fault:
    """Replace the targets ``"@"`` and ``"@leader"`` of a fault whose trigger did not fire.

    ``"@"`` also becomes the leader, or another node if both occur. Without a known leader the
    fault's shape chooses.
    """
    if not any(target.startswith("@") for target in fault.targets):
        return fault
    if leader is None:
        return msgspec.structs.replace(fault, targets=())
    others = [node for node in nodes if node != leader] or [leader]
    other = others[draw(fault.draw, "other") % len(others)]
    names = {"@leader": leader, "@": other if "@leader" in fault.targets else leader}
    targets = tuple(dict.fromkeys(names.get(target, target) for target in fault.targets))
    return msgspec.structs.replace(fault, targets=targets)
