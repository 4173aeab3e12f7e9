"""The anomalies that are cycles, each with a shortest example.

Adya's phenomena by the kinds of edges of a cycle: G0 has ww only; G1c also wr; G-single has
exactly one rw; G-nonadjacent several, no two in a row; G2-item any others. ``-process`` and
``-realtime`` cycles also need an edge of that order. A kind that a found one implies is not
looked for. A search that finds nothing proves that there is nothing, as long as no worse
kind is there: so the models refuted are exactly those that cycles can refute.

Source: Adya (1999), section 4; Fekete et al. (TODS 2005) for the cycles of snapshot
isolation; names and severity as elle.txn has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from checkers.elle.component import Component, OutOfTimeError, Step
from checkers.elle.graph import PROCESS, REALTIME, RW, WR, WW
from checkers.elle.models import implied


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle of transactions; the last step leads back to the first."""

    type: str
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Search:
    """What was found in a component: cycles, and kinds of cycles known only to exist.

    ``timed_out`` names the kind that was looked for when the time was over, and ``exists``
    maps a ``-cycle-exists`` anomaly to the transactions among which there is one.
    """

    cycles: list[Cycle] = field(default_factory=list)
    exists: dict[str, set[int]] = field(default_factory=dict)
    timed_out: str | None = None
    looked: list[str] = field(default_factory=list)


EXISTS: dict[str, tuple[tuple[str, bool, int], ...]] = {
    "": (
        ("PL-1-cycle-exists", False, WW),
        ("PL-2-cycle-exists", False, WW | WR),
        ("PL-SI-cycle-exists", True, WW | WR),
        ("PL-2.99-cycle-exists", False, WW | WR | RW),
    ),
    "-process": (
        ("strong-session-PL-1-cycle-exists", False, WW | PROCESS),
        ("strong-session-PL-2-cycle-exists", False, WW | WR | PROCESS),
        ("strong-session-snapshot-isolation-cycle-exists", True, WW | WR | PROCESS),
        ("strong-session-serializable-cycle-exists", False, WW | WR | RW | PROCESS),
    ),
    "-realtime": (
        ("strong-PL-1-cycle-exists", False, WW | REALTIME),
        ("strong-PL-2-cycle-exists", False, WW | WR | REALTIME),
        ("strong-snapshot-isolation-cycle-exists", True, WW | WR | REALTIME),
        ("PL-SS-cycle-exists", False, WW | WR | RW | REALTIME),
    ),
}
"""By suffix: the anomaly, whether rw edges may be taken one at a time, and the edges."""


def search(component: Component) -> Search:
    """Return what cycles there are in ``component``."""
    result = Search()
    known: set[str] = set()
    kinds = component.kinds()
    suffixes = {"": 0, "-process": PROCESS, "-realtime": REALTIME}
    for suffix, order in suffixes.items():
        if suffix and not kinds & order:
            continue
        looks: tuple[tuple[str, Callable[[Component, int], Cycle | None]], ...] = (
            ("G0", _g0),
            ("G1c", _g1c),
            ("G-single-item", _g_single),
            ("G-nonadjacent-item", _g_nonadjacent),
            ("G2-item", _g2),
        )
        for name, look in looks:
            if name + suffix in known:
                continue
            result.looked.append(name + suffix)
            try:
                cycle = look(component, order)
            except OutOfTimeError:
                result.timed_out = name + suffix
                result.exists = _existing(component, kinds)
                return result
            if cycle is not None:
                result.cycles.append(cycle)
                known |= implied([cycle.type])
    return result


def _existing(component: Component, kinds: int) -> dict[str, set[int]]:
    """Return every ``-cycle-exists`` anomaly that strong components alone show."""
    found: dict[str, set[int]] = {}
    for suffix, specs in EXISTS.items():
        if suffix and not kinds & (PROCESS if suffix == "-process" else REALTIME):
            continue
        for name, apart, mask in specs:
            groups = component.cyclic_apart(mask) if apart else component.cyclic(mask)
            if groups:
                found[name] = {event for event in groups[0] if event < component.transactions}
    return found


def _g0(component: Component, order: int) -> Cycle | None:
    return _shortest(component, WW | order)


def _g1c(component: Component, order: int) -> Cycle | None:
    return _shortest(component, WW | WR | order)


def _shortest(component: Component, mask: int) -> Cycle | None:
    """Return a shortest cycle of edges of ``mask``, within the smallest tangle of them."""
    best: list[Step] | None = None
    for group in component.cyclic(mask)[:1]:
        for event in sorted(event for event in group if event < component.transactions):
            walk = _there_and_back(component, event, mask, group)
            if walk is not None and (best is None or len(walk) < len(best)):
                best = walk
            if best is not None and len(best) == 2:
                break
            if best is not None and _late(component):
                break
    return None if best is None else Cycle(classify(best), tuple(best))


def _late(component: Component) -> bool:
    """Return whether the time is over: a cycle is known, so a shorter one is not needed."""
    try:
        component.budget.spend()
    except OutOfTimeError:
        return True
    return False


def _there_and_back(
    component: Component, event: int, mask: int, group: set[int]
) -> list[Step] | None:
    """Return a shortest cycle through ``event``."""
    into = component.into.get(event, set()) & group
    before = [a for a in into if component.out[a][event] & mask]
    if not before:
        return None
    walks = component.walk(event, before, mask)
    closed: list[list[Step]] = []
    for last, walk in walks.items():
        if last < component.transactions:
            kind = next(
                k for k in (WW, WR, PROCESS, REALTIME, RW)
                if component.out[last][event] & mask & k
            )  # fmt: skip
            closed.append([*walk, (last, event, kind)])
        else:
            # The walk ends at a moment: its last step goes on to the event itself.
            a, _, kind = walk[-1]
            closed.append([*walk[:-1], (a, event, kind)])
    return min(closed, key=len, default=None)


def _by_target(edges: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for a, b in edges:
        groups.setdefault(b, []).append(a)
    return groups


def _closing(component: Component, mask: int, apart: bool) -> Iterable[list[Step]]:
    """Return shortest walks that one rw edge closes to a cycle."""
    for b, sources in sorted(_by_target(component.edges(RW)).items()):
        for a, walk in component.walk(b, sources, mask, apart).items():
            yield [(a, b, RW), *walk]


def _best(
    component: Component, mask: int, apart: bool, accepted: Callable[[list[Step]], bool]
) -> Cycle | None:
    best: list[Step] | None = None
    try:
        for cycle in _closing(component, mask, apart):
            if accepted(cycle) and (best is None or len(cycle) < len(best)):
                best = cycle
                if len(best) == 2:
                    break
    except OutOfTimeError:
        if best is None:
            raise
    return None if best is None else Cycle(classify(best), tuple(best))


def _g_single(component: Component, order: int) -> Cycle | None:
    if not component.cyclic_apart(WW | WR | order):
        return None
    return _best(component, WW | WR | order, False, lambda cycle: True)


def _g_nonadjacent(component: Component, order: int) -> Cycle | None:
    mask = WW | WR | order
    if not component.cyclic_apart(mask):
        return None
    return _best(component, mask, True, _is_simple)


def _g2(component: Component, order: int) -> Cycle | None:
    return _best(component, WW | WR | RW | order, False, lambda cycle: True)


def _is_simple(steps: list[Step]) -> bool:
    return len({a for a, _, _ in steps}) == len(steps)


def classify(steps: Iterable[Step]) -> str:
    """Return the name of the anomaly that a cycle of these steps is."""
    kinds = [kind for _, _, kind in steps]
    crossings = kinds.count(RW)
    if crossings == 1:
        name = "G-single-item"
    elif crossings:
        turned = zip(kinds, [*kinds[1:], kinds[0]], strict=True)
        adjacent = any(first == RW and second == RW for first, second in turned)
        name = "G2-item" if adjacent else "G-nonadjacent-item"
    else:
        name = "G1c" if WR in kinds else "G0"
    if REALTIME in kinds:
        return name + "-realtime"
    return name + "-process" if PROCESS in kinds else name
