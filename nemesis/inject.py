"""Carry out faults on a running cluster, undo them, and record their actual effects.

Faults compose: simultaneous partitions cut the union of their links, and a node stays down as
long as any fault keeps it down. Every error is recorded in the event. Errors are never raised, and
do not prevent the rest from being healed. The actions on a cluster are in :mod:`nemesis.injection`,
with one file for each kind of fault.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kraftwreck.harness.environment import Environment
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.clocks import Clocks
from kraftwreck.nemesis.injection.cuts import Cuts
from kraftwreck.nemesis.injection.disks import Disks
from kraftwreck.nemesis.injection.disturbances import Disturbances
from kraftwreck.nemesis.injection.ground import Ground, Means, trouble
from kraftwreck.nemesis.injection.hosts import Hosts
from kraftwreck.nemesis.injection.members import Members
from kraftwreck.nemesis.injection.processes import Processes, Relief
from kraftwreck.nemesis.injection.restarts import Restarts
from kraftwreck.nemesis.injection.squeezes import Squeezes
from kraftwreck.nemesis.injection.terminations import Terminations
from kraftwreck.nemesis.registry import Action, Family, families, needs_brokers
from kraftwreck.nemesis.roles import RoleShape


def _all_means(ground: Ground, lock: threading.RLock) -> dict[Action, Means]:
    """Return the driver of each action, in the order in which the rest is healed."""
    processes, members = Processes(ground), Members(ground)
    means: dict[Action, Means] = {
        "host": Hosts(ground, lambda: means.values()),
        "cut": Cuts(ground),
        "disturb": Disturbances(ground),
        "clock": Clocks(ground),
        "disk": Disks(ground, members),
        "squeeze": Squeezes(ground),
        "members": members,
        "restart": Restarts(ground, lock),
        "kill": processes,
        "terminate": Terminations(ground),
        "power": processes,
        "pause": processes,
    }
    return means


class Injector:
    """Starts and stops faults on ``env``; ``clock`` returns ns since the start of the test.

    It can be called from several threads: a node that restarts slowly does not delay other faults.
    Calls are synchronous, so the simulator uses the same object.
    """

    def __init__(self, env: Environment, clock: Callable[[], int]) -> None:
        self._env = env
        self._clock = clock
        self._lock = threading.RLock()
        self._ground = Ground(env)
        self._means: Mapping[Action, Means] = _all_means(self._ground, self._lock)
        self._relief = Relief(self._ground)
        self._troubles: dict[tuple[int, str], list[Trouble]] = {}

    @property
    def active(self) -> list[str]:
        """The faults in force, as ``kind/shape``, oldest first."""
        # Without the lock: a status display must not wait for a slow fault.
        return [f"{a.fault.kind}/{a.fault.shape}" for a in self._ground.active.copy().values()]

    @property
    def out(self) -> Collection[str]:
        """The nodes that faults keep down or paused."""
        # Copies without the lock, for the same reason.
        return self._ground.down.copy() | self._ground.stopped.copy()

    def start(self, number: int, fault: Fault) -> FaultEvent:
        """Start ``fault`` with the id ``number``; choose its targets now."""
        with self._lock:
            family = families()[fault.kind]
            entry = Active(fault, family, fault.targets, {})
            detail: dict[str, Any] = {}
            evidence: dict[str, Any] = {}
            self._aim(entry, detail)
            # Finding the leader may take long, and changes nothing.
            begun = self._clock()
            self._ground.active[number] = entry
            if not entry.errors:
                self._means[family.action].start(entry, detail, evidence)
            return self._event(number, entry, "start", begun, detail, evidence)

    def _aim(self, entry: Active, detail: dict[str, Any]) -> None:
        """Choose the targets of ``entry``, unless its fault names them."""
        fault, family = entry.fault, entry.family
        shape = family.shapes.get(fault.shape)
        members = family.action == "members"
        nodes = tuple(self._env.controllers if members else self._env.nodes)
        among = nodes
        if needs_brokers(shape):
            among = tuple(node for node in nodes if node not in self._env.controllers)
        try:
            leader = self._env.leader()
            detail["leader"] = leader
            if not among:
                detail["skipped"] = "there are no brokers"
            elif isinstance(shape, RoleShape):
                busiest = detail["busiest"] = self._env.busiest_broker()
                entry.targets = entry.targets or shape.targets(
                    self._env.controllers, among, fault.draw, leader, busiest
                )
            elif not entry.targets:
                entry.targets = family.pick(fault.shape, among, fault.draw, leader)
            if entry.targets:
                entry.grudge = family.grudge(fault.shape, nodes, entry.targets)
        except Exception as error:
            entry.errors.append(trouble(error))

    def stop(self, number: int) -> FaultEvent:
        """End the fault ``number``. Raises KeyError if it is not in force."""
        with self._lock:
            begun = self._clock()
            entry = self._ground.active.pop(number)
            means = self._means[entry.family.action]
            entry.errors = []
            detail: dict[str, Any] = {}
            evidence: dict[str, Any] = {}
            means.stop(entry, detail, evidence)
            held: list[str] = []
            if entry.keeps_down or entry.keeps_paused:
                held = self._relief.held_by(entry, detail)
        # Without the lock: a node may take seconds to start.
        means.settle(entry)
        up = self._relief.relieve(entry, held, evidence) if held else set()
        with self._lock:
            self._relief.relieved(entry, held, up)
            means.stopped(entry, detail, evidence)
            return self._event(number, entry, "stop", begun, detail, evidence)

    def heal_all(self) -> list[FaultEvent]:
        """End every fault, and retry everything that could not be undone."""
        # Without the lock: a fault may wait for its own operations.
        events = []
        for number in list(self._ground.active):
            with contextlib.suppress(KeyError):  # It ended meanwhile.
                events.append(self.stop(number))
        with self._lock:
            left = [each for each in self._means.values() if each.rest() is not None]
            if left or self._ground.down or self._ground.stopped:
                events.append(self._heal_rest(left))
            return events

    def _heal_rest(self, left: list[Means]) -> FaultEvent:
        """Undo what an earlier attempt could not, as a separate event (id -1)."""
        begun = self._clock()
        held = self._ground.down | self._ground.stopped
        for means in left:
            held |= means.rest() or set()
        fault = Fault(at=begun, kind="heal", shape="rest", duration=0, draw=0)
        entry = Active(fault, Family("heal", "", "cut", {}), tuple(sorted(held)), {})
        evidence: dict[str, Any] = {}
        for means in left:
            means.heal(entry, evidence)
        self._relief.heal(entry, evidence)
        return self._event(-1, entry, "stop", begun, {}, evidence)

    def _event(
        self,
        number: int,
        entry: Active,
        phase: str,
        begun: int,
        detail: dict[str, Any],
        evidence: dict[str, Any],
    ) -> FaultEvent:
        event = FaultEvent(
            id=number,
            phase="start" if phase == "start" else "stop",
            kind=entry.fault.kind,
            shape=entry.fault.shape,
            targets=list(entry.targets),
            time=begun,
            done=self._clock(),
            detail=detail,
            evidence=evidence,
            error="; ".join(map(str, entry.errors)) or None,
        )
        if entry.errors:
            self._troubles[number, event.phase] = entry.errors
        return event

    def troubles(self, event: FaultEvent) -> list[Trouble]:
        """Return and forget the troubles behind the ``error`` of an event of this injector."""
        return self._troubles.pop((event.id, event.phase), [])
