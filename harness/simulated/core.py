"""The declaration of a system whose nodes are pure cores: all that the simulator needs of it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from kraftwreck.harness.capabilities import Capability
from kraftwreck.harness.client import Client
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.simulated.core_faults import OFFERS
from kraftwreck.harness.workload import ClientSetting, Workload
from kraftwreck.histories.plugins import plugins, unknown
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.simulation.binding import Binding
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Core, Host
from kraftwreck.simulation.knobs import WorldKnobs, draw_world
from kraftwreck.simulation.plain import PlainBinding
from kraftwreck.simulation.world import World

GROUP = "kraftwreck.cores"
"""Entry points of cores that belong to a system of the same name."""

FAULTS = ("partition", "kill", "terminate", "pause", "power", "network", "clock", "disk")
"""The families that any core can suffer; ``power`` and ``disk`` through its durable effects."""

_HOSTS_ONLY = "{name} runs in the simulator only; use kraftwreck sim {name}, or run {name} -c sim"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePlace:
    """The place of a core in its cluster, and what its disk holds.

    ``id`` counts from 1 in the order of ``names``; ``peers`` are the ids of the other nodes.
    ``stored`` has the values of all ``Put`` that survived. ``incarnation`` counts the starts of the
    node, ``seed`` is that of the run, and ``settings`` are values that the run sets. ``now`` and
    ``wall_ms`` are the clocks at the start, as for :meth:`simulation.host.Core.start`.
    """

    id: int
    name: str
    names: Sequence[str]
    stored: Mapping[Any, Any]
    incarnation: int
    seed: int
    settings: Mapping[str, int]
    now: int = 0
    wall_ms: int = 0

    @property
    def peers(self) -> tuple[int, ...]:
        """The ids of the other nodes, in order."""
        return tuple(i for i in range(1, len(self.names) + 1) if i != self.id)


class Watch:
    """Observes a world while it runs, and reports what must not happen.

    Subclasses override what they need. ``seen`` is theirs, to keep what they have seen so far.
    """

    def __init__(self, world: World, failures: Failures) -> None:
        self.world = world
        self.failures = failures
        self.seen: dict[Any, Any] = {}
        world.on_trace.append(self.on_trace)
        world.on_step.append(self.on_step)
        world.on_wipe.append(self.on_wipe)

    def fail(self, kind: str, text: str, *events: TraceEvent) -> None:
        """Report that the invariant ``kind`` broke now."""
        self.failures.add(kind, self.world.now, text, *events)

    def on_trace(self, host: Host, event: TraceEvent) -> None:
        """See a :class:`~simulation.plain.Note` of a core."""

    def on_step(self, host: Host, event: Any) -> None:
        """See an event that a core has just handled; ``host.node`` is the core."""

    def on_wipe(self, host: Host) -> None:
        """See a disk that was replaced by an empty one."""

    def finish(self) -> None:
        """Judge the run at its end, when the cluster has been healthy for a while."""


class MakeCore(Protocol):
    """Makes a core from its place; called at every start of its process."""

    def __call__(self, place: CorePlace) -> Core: ...


@dataclass(frozen=True, kw_only=True)
class CoreSystem:
    """A system for the simulator (:class:`~harness.system.System`).

    - ``make`` starts a core; ``nodes`` is the number of nodes
    - ``workload`` plans operations and brings clients that speak the core's protocol
    - ``client`` instead speaks ``verbs``, for the generic workloads named in ``generic``
    - ``sizes`` are the numbers of nodes that campaigns choose from; ``draw`` returns the settings
      of world and cores by seed and number of nodes
    - ``watches`` are classes like :class:`Watch`, made for each run
    - ``checkers`` judge every run, by name, in addition to those of the workload
    - ``binding`` carries messages and effects; ``state`` returns a value for the digest of a run
      after each step, such as a tuple of the core's fields
    - ``faults`` are the families drawn by default
    """

    name: str
    about: str = "a core of its own"
    make: MakeCore
    workload: Workload | None = None
    client: Callable[[ClientSetting], Client] | None = None
    verbs: Sequence[str] = ()
    generic: Sequence[str] = ()
    nodes: int = 3
    sizes: Sequence[int] = ()
    draw: Callable[[int, int], WorldKnobs] = draw_world
    watches: Sequence[Callable[[World, Failures], Watch]] = ()
    checkers: Sequence[str] = ()
    faults: Sequence[str] = FAULTS
    binding: Callable[[], Binding] = PlainBinding
    state: Callable[[Any], object] | None = None
    spec: str = ""
    """The ``MODULE:NAME`` by which it was loaded, also the name of its workload."""

    @property
    def default_workload(self) -> str:
        """The name of the only workload, or of the first generic one."""
        return self.generic[0] if self.generic else self.spec

    @property
    def workloads(self) -> Sequence[str]:
        """The name of the only workload, in a list, or those of the generic ones."""
        return self.generic or (self.spec,)

    @property
    def offers(self) -> Sequence[Capability[Any]]:
        """The capabilities of simulated machines."""
        return OFFERS

    def lacking(self, options: Any) -> Mapping[str, str]:
        """Return nothing: cores lack nothing that simulated machines offer."""
        return {}

    def deploy(self, *_: Any) -> Any:
        """Raise :class:`OptionError`: there is nothing to deploy."""
        raise OptionError(_HOSTS_ONLY.format(name=self.name))

    def describe(self, nodes: Any) -> Mapping[str, Any]:
        """Return nothing: versions are those of the user's package."""
        return {}


def is_spec(system: str) -> bool:
    """Whether ``system`` names a core by ``MODULE:NAME``; it then runs in the simulator only."""
    return ":" in system


def is_core(system: str) -> bool:
    """Whether ``system`` is a core in the simulator: a ``MODULE:NAME``, or an installed one."""
    return is_spec(system) or system in plugins(GROUP).found


def load_core(spec: str) -> CoreSystem:
    """Return the core ``spec``, a ``MODULE:NAME`` or the name of an installed one.

    Modules in the working directory are found. Raises :class:`OptionError`, one line.
    """
    if not is_spec(spec):
        told = plugins(GROUP)
        if spec not in told.found:
            raise OptionError(unknown("core", spec, told, sorted(told.found)))
        core: CoreSystem = told.found[spec]
        return replace(core, spec=spec)
    module, _, name = spec.partition(":")
    where = str(Path.cwd())
    if where not in sys.path:
        sys.path.append(where)
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise OptionError(f"{spec}: cannot be loaded: {type(error).__name__}: {reason}") from error
    if not isinstance(found, CoreSystem):
        raise OptionError(f"{spec}: a {type(found).__name__}; give a CoreSystem, as MODULE:NAME")
    return replace(found, spec=spec)
