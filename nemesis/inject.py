"""Carry out faults on a running cluster, and undo them, and say what really happened.

Faults compose: partitions that are active together cut the union of their links, and a
node stays down as long as one fault wants it down. Every error is recorded in the event;
none is raised, and none keeps the rest from being healed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from harness.environment import ClockSetting, Environment
from harness.voter_changes import VoterChange
from histories.fault import Fault, FaultEvent
from nemesis.active import Active
from nemesis.clocks import ClockShape, together
from nemesis.disks import DiskShape
from nemesis.membership import MembershipShape
from nemesis.network import NetworkShape
from nemesis.partitions import union
from nemesis.registry import Family, families, of_brokers
from nodes.draw import draw


class Injector:
    """Starts and stops faults on ``env``; ``clock`` tells ns since the start of the test.

    Safe to call from several threads: a node that takes its time to start again holds up no
    other fault. Calls are synchronous, so the simulator uses the same object.
    """

    def __init__(self, env: Environment, clock: Callable[[], int]) -> None:
        self._env = env
        self._clock = clock
        self._lock = threading.RLock()
        self._active: dict[int, Active] = {}
        self._down: set[str] = set()
        self._stopped: set[str] = set()
        self._rising: set[str] = set()
        self._cut = False
        self._disturbed = False
        self._skewed: set[str] = set()
        self._ended: list[dict[str, Any]] = []

    @property
    def active(self) -> list[str]:
        """The faults in force, as ``kind/shape``, oldest first."""
        # Without the lock: who only shows this must not wait for a fault that takes long.
        return [f"{a.fault.kind}/{a.fault.shape}" for a in self._active.copy().values()]

    def start(self, number: int, fault: Fault) -> FaultEvent:
        """Begin ``fault`` under the id ``number``, choosing its targets now."""
        with self._lock:
            begun = self._clock()
            family = families()[fault.kind]
            members = family.action == "members"
            nodes = tuple(self._env.controllers if members else self._env.nodes)
            among = nodes
            if of_brokers(family.shapes.get(fault.shape)):
                among = tuple(node for node in nodes if node not in self._env.controllers)
            entry = Active(fault, family, fault.targets, {})
            detail: dict[str, Any] = {}
            evidence: dict[str, Any] = {}
            try:
                leader = self._env.leader()
                detail["leader"] = leader
                if not among:
                    detail["skipped"] = "there are no brokers"
                elif not entry.targets:
                    entry.targets = family.pick(fault.shape, among, fault.draw, leader)
                if entry.targets:
                    entry.grudge = family.grudge(fault.shape, nodes, entry.targets)
            except Exception as error:
                entry.errors.append(_line(error))
            self._active[number] = entry
            if entry.errors:
                pass
            elif family.action == "cut":
                detail["grudge"] = {node: sorted(held) for node, held in entry.grudge.items()}
                self._apply_grudges(entry, evidence)
            elif members:
                self._change_members(entry, detail, evidence)
            elif family.action == "disturb":
                self._start_disturbing(entry, detail, evidence)
            elif family.action == "clock":
                self._start_skewing(entry, detail, evidence)
            elif family.action == "disk":
                self._break_disks(entry, detail, evidence)
            else:
                self._strike(entry, detail, evidence)
            return self._event(number, entry, "start", begun, detail, evidence)

    def stop(self, number: int) -> FaultEvent:
        """End the fault ``number``. Raises KeyError when it is not in force."""
        with self._lock:
            begun = self._clock()
            entry = self._active.pop(number)
            entry.errors = []
            detail: dict[str, Any] = {}
            evidence: dict[str, Any] = {}
            held: list[str] = []
            if entry.family.action == "cut":
                self._apply_grudges(entry, evidence)
            elif entry.family.action == "disk":
                self._mend_disks(entry, detail, evidence)
            if entry.keeps_down or entry.keeps_paused:
                held = self._held_by(entry, detail)
        if held:
            self._relieve(entry, held, evidence)
        with self._lock:
            if entry.family.action == "members":
                self._restore_members(entry, detail, evidence)
            elif entry.family.action == "disturb":
                self._disturb(entry, evidence)
            elif entry.family.action == "clock":
                self._set_clocks(entry, entry.targets, evidence)
            return self._event(number, entry, "stop", begun, detail, evidence)

    def heal_all(self) -> list[FaultEvent]:
        """End every fault, trying once more what could not be undone."""
        with self._lock:
            events = [self.stop(number) for number in list(self._active)]
            if self._cut or self._down or self._stopped or self._disturbed or self._skewed:
                events.append(self._heal_rest())
            return events

    # --- doing it -------------------------------------------------------------------------

    def _apply_grudges(self, entry: Active, evidence: dict[str, Any]) -> None:
        """Make the network what the active partitions ask for."""
        grudges = [a.grudge for a in self._active.values() if a.grudge]
        stopping = entry not in self._active.values()
        if self._cut and (stopping or not grudges):
            # Heal first: it measures what was dropped, and leaves nothing of the old rules.
            healed = self._call(entry, "heal", self._env.heal, evidence)
            self._cut = not healed
        if grudges:
            wanted = union(grudges, tuple(self._env.nodes))
            self._cut = True
            into = evidence if not stopping else evidence.setdefault("remaining", {})
            self._call(entry, "drop", partial(self._env.drop, wanted), into)

    def _strike(self, entry: Active, detail: dict[str, Any], evidence: dict[str, Any]) -> None:
        action = entry.family.action
        kill = action != "pause"
        end = self._env.cut_power if action == "power" else self._env.kill
        struck = []
        for node in entry.targets:
            if node in self._down or (not kill and node in self._stopped):
                why = "down already" if node in self._down else "paused already"
                detail.setdefault("skipped", {})[node] = why
            elif kill:
                self._down.add(node)
                self._stopped.discard(node)
                struck.append(node)
            else:
                self._stopped.add(node)
                struck.append(node)
        self._each(entry, struck, end if kill else self._env.pause, evidence)

    def _held_by(self, entry: Active, detail: dict[str, Any]) -> list[str]:
        """Return the nodes that nothing but this fault, which ends, keeps down or paused."""
        kill = entry.family.action != "pause"
        affected = self._down if kill else self._stopped
        wanted_elsewhere = {
            node
            for other in self._active.values()
            if other is not entry and (other.keeps_down if kill else other.keeps_paused)
            for node in other.targets
        }
        held = []
        for node in entry.targets:
            if node not in affected:
                detail.setdefault("skipped", {})[node] = "not down" if kill else "not paused"
            elif node in wanted_elsewhere:
                detail.setdefault("skipped", {})[node] = "held by another fault"
            elif node in self._rising:
                detail.setdefault("skipped", {})[node] = "on its way up already"
            else:
                held.append(node)
        self._rising.update(held)
        return held

    def _relieve(self, entry: Active, held: Sequence[str], evidence: dict[str, Any]) -> None:
        """Start or resume ``held``, without the lock: they count as down until they are up."""
        kill = entry.family.action != "pause"
        relieved = self._each(entry, held, self._env.start if kill else self._env.resume, evidence)
        with self._lock:
            (self._down if kill else self._stopped).difference_update(relieved)
            self._rising.difference_update(held)

    # --- messages and clocks ------------------------------------------------------------

    def _start_disturbing(
        self, entry: Active, detail: dict[str, Any], evidence: dict[str, Any]
    ) -> None:
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, NetworkShape)
        if entry.targets:
            nodes = tuple(self._env.nodes)
            entry.disturbances = shape.disturbances(nodes, entry.targets, entry.fault.draw)
        detail["disturbances"] = msgspec.to_builtins(entry.disturbances)
        self._disturb(entry, evidence)

    def _disturb(self, entry: Active, evidence: dict[str, Any]) -> None:
        """Let messages suffer what all active faults ask for."""
        wanted = [each for a in self._active.values() for each in a.disturbances]
        self._disturbed = True
        if self._call(entry, "disturb", partial(self._env.disturb, wanted), evidence):
            self._disturbed = bool(wanted)

    def _start_skewing(
        self, entry: Active, detail: dict[str, Any], evidence: dict[str, Any]
    ) -> None:
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, ClockShape)
        entry.clock = shape.setting(entry.fault.draw)
        detail["clock"] = asdict(entry.clock)
        self._set_clocks(entry, entry.targets, evidence)

    def _set_clocks(self, entry: Active, nodes: Sequence[str], evidence: dict[str, Any]) -> None:
        """Set the clocks of ``nodes`` to what all active faults ask for."""
        active = [a for a in self._active.values() if a.clock is not None]
        for node in nodes:
            settings = [a.clock for a in active if node in a.targets and a.clock is not None]
            setting = together(settings)
            self._skewed.add(node)
            done = self._call(entry, node, partial(self._env.set_clock, node, setting), evidence)
            if done and setting == ClockSetting():
                self._skewed.discard(node)

    # --- disks ----------------------------------------------------------------------------

    def _break_disks(self, entry: Active, detail: dict[str, Any], evidence: dict[str, Any]) -> None:
        """Let disks be in trouble, each in one trouble only; damage one, of a node that ran."""
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, DiskShape)
        disks = [a for a in self._active.values() if a.family.action == "disk"]
        others = [a for a in disks if a is not entry and a.targets]
        broken = {node for other in others for node in other.targets}
        struck = []
        for node in entry.targets:
            if node in broken:
                detail.setdefault("skipped", {})[node] = "its disk is in trouble already"
            elif shape.fault == "flip" and (
                node in self._down | self._stopped or any(other.keeps_down for other in others)
            ):
                detail.setdefault("skipped", {})[node] = "it is held, or another disk is damaged"
            else:
                struck.append(node)
        entry.targets = tuple(struck)
        for node in struck:
            if shape.fault != "flip":
                number = draw(entry.fault.draw, node)
                trouble = partial(self._env.trouble_disk, node, shape.fault, number)
                self._call(entry, node, trouble, evidence)
                continue
            self._down.add(node)
            if self._call(entry, node, partial(self._env.kill, node), evidence):
                damage = partial(self._env.damage_disk, node, entry.fault.draw)
                self._call(entry, node, damage, evidence)
            started = self._call(entry, node, partial(self._env.start, node), evidence)
            if started and "refused" not in evidence[node]:
                self._down.discard(node)

    def _mend_disks(self, entry: Active, detail: dict[str, Any], evidence: dict[str, Any]) -> None:
        """Mend disks; replace a machine whose disk is still damaged, where voters can change."""
        for node in entry.targets:
            if entry.keeps_down and self._env.disk_damaged(node):
                why = self._no_change(entry)
                if why is None and node in self._env.controllers:
                    again = partial(self._env.change_voters, [VoterChange("add", node)])
                    if self._call(entry, node, partial(self._env.wipe, node), evidence):
                        self._call(entry, "voters", again, evidence)
                    continue
                detail["put right"] = why or "it is no controller"
            self._call(entry, node, partial(self._env.mend_disk, node), evidence)
            if not entry.keeps_down and node not in self._down:  # It may have died of it.
                self._call(entry, node, partial(self._env.start, node), evidence)

    # --- voters ---------------------------------------------------------------------------

    def _change_members(
        self, entry: Active, detail: dict[str, Any], evidence: dict[str, Any]
    ) -> None:
        """Take votes away, or a machine; not while an earlier change is not complete.

        With two changes at once a quorum could be left with a majority that is gone for good.
        """
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, MembershipShape)
        entry.targets = tuple(n for n in entry.targets if n in self._env.controllers)
        why = self._no_change(entry)
        if why is None and shape.start == "wipe":
            held = [node for node in entry.targets if node in self._down | self._stopped]
            why = f"{held[0]} is held by another fault" if held else None
        if why is not None:
            entry.targets = ()
            detail["skipped"] = why
            return
        if shape.start == "wipe":
            for node in entry.targets:
                self._down.add(node)
                if self._call(entry, node, partial(self._env.kill, node), evidence):
                    self._call(entry, node, partial(self._env.wipe, node), evidence)
        changes = shape.first(entry.targets)
        if changes:
            ask = partial(self._env.change_voters, changes)
            self._call(entry, "voters", ask, evidence)

    def _no_change(self, entry: Active) -> str | None:
        """Return why voters cannot be changed now, None if they can."""
        if not self._env.dynamic_quorum:
            return "the quorum is static"
        if not entry.targets:
            return "no controller is aimed at"
        others = (a for a in self._active.values() if a is not entry and a.targets)
        if any(other.family.action == "members" for other in others):
            return "another change is in force"
        changes = self._env.voter_changes()
        self._ended.extend(changes["ended"])
        return "an earlier change is not complete" if changes["open"] else None

    def _restore_members(
        self, entry: Active, detail: dict[str, Any], evidence: dict[str, Any]
    ) -> None:
        """Let the targets vote again."""
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, MembershipShape)
        changes = shape.last(entry.targets)
        if changes:
            self._call(entry, "voters", partial(self._env.change_voters, changes), evidence)
        if entry.targets or self._ended:
            known = self._env.voter_changes()
            ended, self._ended = self._ended + known["ended"], []
            detail["changes"] = {"ended": ended, "open": known["open"]}

    def _heal_rest(self) -> FaultEvent:
        """Undo what an earlier attempt could not, as an event of its own (id -1)."""
        begun = self._clock()
        held = tuple(sorted(self._down | self._stopped | self._skewed))
        fault = Fault(at=begun, kind="heal", shape="rest", duration=0, draw=0)
        entry = Active(fault, Family("heal", "", "cut", {}), held, {})
        evidence: dict[str, Any] = {}
        if self._cut and self._call(entry, "heal", self._env.heal, evidence):
            self._cut = False
        if self._disturbed:
            self._disturb(entry, evidence)
        self._set_clocks(entry, sorted(self._skewed), evidence)
        for affected, undo in ((self._stopped, self._env.resume), (self._down, self._env.start)):
            affected -= self._each(entry, sorted(affected), undo, evidence)
        return self._event(-1, entry, "stop", begun, {}, evidence)

    def _each(
        self,
        entry: Active,
        nodes: Sequence[str],
        action: Callable[[str], dict[str, Any]],
        evidence: dict[str, Any],
    ) -> set[str]:
        """Do one thing to all ``nodes``, at once where that can be; return where it succeeded.

        A power cut hits all at once; and seven nodes started one by one take as many seconds.
        """
        told: dict[str, Callable[[], dict[str, Any]]]
        if len(nodes) > 1 and self._env.concurrent:
            with ThreadPoolExecutor(len(nodes)) as threads:
                told = {node: threads.submit(action, node).result for node in nodes}
        else:
            told = {node: partial(action, node) for node in nodes}
        return {node for node in nodes if self._call(entry, node, told[node], evidence)}

    def _call(
        self,
        entry: Active,
        what: str,
        action: Callable[[], dict[str, Any]],
        evidence: dict[str, Any],
    ) -> bool:
        """Do one thing, collect its evidence; False (and an error in the event) if it failed."""
        try:
            for key, told in action().items():
                # A node that is killed and then wiped has evidence of both.
                known = evidence.get(key)
                if isinstance(known, dict) and isinstance(told, dict):
                    told = known | told
                evidence[key] = told
        except Exception as error:
            entry.errors.append(f"{what}: {_line(error)}")
            return False
        return True

    def _event(
        self,
        number: int,
        entry: Active,
        phase: str,
        begun: int,
        detail: dict[str, Any],
        evidence: dict[str, Any],
    ) -> FaultEvent:
        return FaultEvent(
            id=number,
            phase="start" if phase == "start" else "stop",
            kind=entry.fault.kind,
            shape=entry.fault.shape,
            targets=list(entry.targets),
            time=begun,
            done=self._clock(),
            detail=detail,
            evidence=evidence,
            error="; ".join(entry.errors) or None,
        )


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
