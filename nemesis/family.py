"""A fault family: one class that has its shapes, targets, start, stop and evidence.

A family is registered as a class (:mod:`nemesis.registry`). Each run makes one object of it, which
carries out its faults through the capabilities of the cluster (:mod:`harness.capabilities`).
Families share the :class:`FaultState`.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from kraftwreck.harness.capabilities import Capability, Environment, host_of
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.shapes import Shape

Evidence = dict[str, Any]
Aim = tuple[str, tuple[str, ...]]
"""A shape of a triggered fault and its targets: ``@`` is the node that made the transition,
``@leader`` its leader; none: the shape chooses."""


Aims = tuple[Aim, ...]
Shapes = Mapping[str, Shape]
Needs = tuple[Capability[Any], ...]


@dataclass(slots=True, eq=False)
class Active:
    """A fault in force, and what happened in its current phase (its start or its end).

    ``errors`` are the failures of this phase; ``detail`` and ``evidence`` are recorded.
    """

    fault: Fault
    family: Family
    targets: tuple[str, ...]
    errors: list[Trouble] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=dict)

    @property
    def keeps(self) -> Literal["", "down", "paused"]:
        """The state in which its targets must stay while it is in force."""
        return self.family.keeps_with(self.fault.shape)

    def skip(self, target: str, why: str) -> None:
        """Record why ``target`` is not hit."""
        self.detail.setdefault("skipped", {})[target] = why

    def miss(self, target: str, why: str) -> None:
        """Record, as the fault ends, that it had no effect on ``target``: it does not count."""
        self.detail.setdefault("missed", {})[target] = why

    def call(self, what: str, action: Callable[[], Evidence], into: Evidence | None = None) -> bool:
        """Call ``action`` and add what it returns to the evidence (or to ``into``).

        On failure record an error that names ``what``, and return False.
        """
        evidence = self.evidence if into is None else into
        try:
            told: object = action()
            if not isinstance(told, Mapping):
                raise TypeError(f"the evidence must be a mapping by name, not {told!r:.60}")
            for key, found in told.items():
                # A node that is killed and then wiped has the evidence of both.
                known = evidence.get(key)
                if isinstance(known, dict) and isinstance(found, dict):
                    found = known | found
                evidence[key] = found
        except Exception as error:
            self.errors.append(trouble(error, what))
            return False
        return True


class FaultState:
    """The state that the families of one injector share. Its ``lock`` protects it.

    ``down`` and ``paused`` are the processes that faults have ended or paused; ``starting`` are
    those of them that are being started or resumed.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.lock = threading.RLock()
        self.active: dict[int, Active] = {}
        self.down: set[str] = set()
        self.paused: set[str] = set()
        self.starting: set[str] = set()
        self._effects: dict[type[Effect], Effect] = {}

    @property
    def effects(self) -> list[Effect]:
        """The effects that faults have had so far, in the order in which they are undone."""
        return sorted(self._effects.values(), key=lambda effect: effect.order)

    def effect(self, kind: type[E]) -> E:
        """Return the one object of the class ``kind``."""
        known = self._effects.get(kind)
        if known is None:
            known = self._effects[kind] = kind(self)
        assert isinstance(known, kind)
        return known

    def others(self, active: Active) -> list[Active]:
        """Return the other faults in force, oldest first."""
        return [other for other in self.active.values() if other is not active]

    def held(self, process: str) -> bool:
        """Return whether a fault keeps the process down or paused."""
        return process in self.down or process in self.paused

    def each(
        self, active: Active, names: Sequence[str], action: Callable[[str], Evidence]
    ) -> set[str]:
        """Apply ``action`` to all ``names``, concurrently if possible; return where it succeeded.

        A power cut hits all nodes at once, and seven sequential starts would take seven times as
        long.
        """
        results: dict[str, Callable[[], Evidence]]
        if len(names) > 1 and self.env.concurrent:
            with ThreadPoolExecutor(len(names)) as threads:
                results = {name: threads.submit(action, name).result for name in names}
        else:
            results = {name: partial(action, name) for name in names}
        return {name for name in names if active.call(name, results[name])}


class Effect:
    """The combined effect of all faults of one or more families. The defaults do nothing.

    Failures become errors of the fault that causes a change.
    """

    order: ClassVar[int] = 9
    """Effects with lower numbers are undone first."""

    def __init__(self, state: FaultState) -> None:
        self.state = state

    def renew(self, active: Active, nodes: Sequence[str], into: Evidence) -> None:
        """Apply the effect again on machines of ``nodes``, which have been booted."""

    def remaining(self) -> set[str] | None:
        """Return the nodes with effects that an earlier attempt could not undo, None if there are
        none. An empty set means the cluster as a whole."""
        return None

    def heal(self, active: Active) -> None:
        """Retry undoing what :meth:`remaining` returns."""


E = TypeVar("E", bound=Effect)


class Family:
    """One kind of fault. Subclasses set the class attributes and define :meth:`start`.

    - ``name``, ``about``: for ``-n`` and ``kraftwreck list``
    - ``shapes``: by name
    - ``needs``: the capabilities that all its shapes need
    - ``keeps``: ``down`` or ``paused`` if its targets stay so while a fault is in force; they are
      started or resumed when no fault keeps them so any longer
    - ``hits``: whether targets are ``nodes`` or ``processes``
    - ``stops``: whether its faults stop processes
    - ``survives_crash``: whether its faults can be undone after the machine of a target has crashed
    - ``aimed``: the forms of triggered faults; other shapes than its own are ignored
    - ``jepsen``: the shapes of ``--style timed`` (None: all)

    An object lasts for one run. :meth:`start` and :meth:`stop` are called with the lock of
    ``state``. They add to ``active`` what they measured, and errors; exceptions become errors, too.
    """

    name: ClassVar[str]
    about: ClassVar[str] = ""
    shapes: ClassVar[Shapes]
    needs: ClassVar[Needs] = ()
    keeps: ClassVar[Literal["", "down", "paused"]] = ""
    hits: ClassVar[Literal["nodes", "processes"]] = "nodes"
    stops: ClassVar[bool] = False
    survives_crash: ClassVar[bool] = True
    aimed: ClassVar[Aims] = ()
    jepsen: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, state: FaultState) -> None:
        self.state = state

    # --- known before a cluster is up -----------------------------------------------------

    @classmethod
    def usable(cls, nodes: int, others: int = 0) -> dict[str, Shape]:
        """Return the shapes with an effect in a cluster of ``nodes``, of which ``others`` have only
        another role than the nodes that elect a leader."""
        return {
            name: shape
            for name, shape in cls.shapes.items()
            if shape.least <= nodes and (others > 0 or shape.role is None)
        }

    @classmethod
    def features(cls, shape: str) -> frozenset[str]:
        """Return the capabilities that ``shape`` needs, and parts of them, by name."""
        return cls.shapes[shape].features.union(each.name for each in cls.needs)

    @classmethod
    def aims(cls, nodes: int, others: int = 0) -> list[Aim]:
        """Return the forms of triggered faults in such a cluster."""
        usable = cls.usable(nodes, others)
        known = [aim for aim in cls.aimed if aim[0] in usable]
        return known or [(shape, ()) for shape in usable]

    @classmethod
    def keeps_with(cls, shape: str) -> Literal["", "down", "paused"]:
        """Return the state in which targets of ``shape`` stay while a fault is in force."""
        return cls.keeps

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        """Return a fault in plain words."""
        return f"{targets}: {cls.name} {shape}, for {duration}"

    # --- during a run ---------------------------------------------------------------------

    def candidates(self, active: Active) -> tuple[str, ...]:
        """Return the nodes or processes among which targets are chosen."""
        env = self.state.env
        names = env.nodes if self.hits == "nodes" else env.processes
        role = self.shapes[active.fault.shape].role
        if role is None:
            return names
        return tuple(name for name in names if host_of(name) in env.roles.get(role, ()))

    def choose(self, active: Active, among: tuple[str, ...], leader: str | None) -> tuple[str, ...]:
        """Return the targets; every random choice comes from the fault's draw."""
        shape = self.shapes[active.fault.shape]
        return shape.pick(among, active.fault.draw, one_of(among, leader))

    def held(self, active: Active) -> tuple[str, ...]:
        """Return the processes that the fault keeps down or paused."""
        return active.targets

    def start(self, active: Active) -> None:
        """Apply the fault ``active``, which is now in force; its targets have been chosen."""

    def stop(self, active: Active) -> None:
        """Undo the fault ``active``, which is no longer in force."""

    def settle(self, active: Active) -> None:
        """Wait for operations of a fault that has ended; called without the lock."""

    def finish(self, active: Active) -> None:
        """Complete a fault after the processes that it kept down have been started."""


def one_of(names: Sequence[str], leader: str | None) -> str | None:
    """Return the one of ``names`` that is the leader or has the leader's node, None without one."""
    if leader is None or leader in names:
        return leader
    return next((name for name in names if host_of(name) == host_of(leader)), None)


_MISTAKES = (AttributeError, LookupError, NameError, TypeError)
"""Exceptions that point at a mistake in the code of a family."""


def trouble(error: Exception, what: str = "") -> Trouble:
    """Return the error as one line, with the action ``what`` if given.

    The line of a mistake in the code ends with its file and line number.
    """
    text = " ".join(str(error).split())
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, _MISTAKES) and (frames := traceback.extract_tb(error.__traceback__)):
        text += f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})"
    return Trouble.of(error, f"{what}: {text}" if what else text)
