"""The anomalies that are cycles, each with a shortest example.

Adya's phenomena by the kinds of edges of a cycle: G0 has ww only; G1c also wr; G-single has
exactly one rw; G-nonadjacent several, no two in a row; G2 any others. ``-item`` cycles have no
rw edge of a predicate read. ``-process`` and ``-realtime`` cycles also need an edge of that
order. A kind that follows from a found one is not searched. A search without a result proves that
no such cycle exists, as long as no worse kind does. So the refuted models are exactly those that
cycles can refute.

Source: Adya (1999), section 4; Fekete et al. (TODS 2005) for the cycles of snapshot
isolation; names and severity as elle.txn has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from kraftwreck.checkers.elle.component import Component, OutOfTimeError, Step
from kraftwreck.checkers.elle.graph import PROCESS, REALTIME, RW, RWP, WR, WRP, WW
from kraftwreck.checkers.elle.models import implied


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle of transactions; the last step leads back to the first."""

    type: str
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Search:
    """The result for a component: cycles, and kinds of cycles known only to exist.

    ``timed_out`` names the kind that was searched when the time was over, and ``exists``
    maps a ``-cycle-exists`` anomaly to the transactions among which there is one.
    """

    cycles: list[Cycle] = field(default_factory=list)
    exists: dict[str, set[int]] = field(default_factory=dict)
    timed_out: str | None = None
    looked: list[str] = field(default_factory=list)


READ = WW | WR | WRP
ANY_RW = RW | RWP
_MODELS = {
    "": ("PL-1", "PL-2", "PL-SI", "PL-2.99", "PL-3"),
    "-process": (
        "strong-session-PL-1",
        "strong-session-PL-2",
        "strong-session-snapshot-isolation",
        None,
        "strong-session-serializable",
    ),
    "-realtime": ("strong-PL-1", "strong-PL-2", "strong-snapshot-isolation", None, "PL-SS"),
}
"""By suffix: the models that are refuted by cycles of ww edges, also of wr edges, also with rw
edges one at a time, also with those of objects, and with any edges."""


_ORDERS = {"": 0, "-process": PROCESS, "-realtime": REALTIME}
CYCLES = tuple(
    name + suffix
    for name in ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
    for suffix in _ORDERS
)
"""The cycles of histories without predicate reads; with them also those without ``-item``."""


def search(component: Component) -> Search:
    """Return the cycles of ``component``."""
    result = Search()
    known: set[str] = set()
    kinds = component.kinds()
    for suffix, order in _ORDERS.items():
        if suffix and not kinds & order:
            continue
        looks: list[tuple[str, Callable[[], Cycle | None]]] = [
            ("G0", partial(_shortest, component, WW | order)),
            ("G1c", partial(_shortest, component, READ | order)),
        ]
        for item, rw, needed in (("-item", RW, RW), ("", ANY_RW, RWP)):
            if kinds & needed:
                looks += [
                    (f"G-single{item}", partial(_g_single, component, order, rw)),
                    (f"G-nonadjacent{item}", partial(_g_nonadjacent, component, order, rw)),
                    (f"G2{item}", partial(_g2, component, order, rw)),
                ]
        for name, look in looks:
            if name + suffix in known:
                continue
            result.looked.append(name + suffix)
            try:
                cycle = look()
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
    for suffix, names in _MODELS.items():
        order = _ORDERS[suffix]
        if order and not kinds & order:
            continue
        groups = (
            component.cyclic(WW | order),
            component.cyclic(READ | order),
            component.cyclic_apart(READ | order, ANY_RW),
            component.cyclic(READ | RW | order),
            component.cyclic(READ | ANY_RW | order),
        )
        for name, tangles in zip(names, groups, strict=True):
            if name is not None and tangles:
                events = {event for event in tangles[0] if event < component.transactions}
                found[f"{name}-cycle-exists"] = events
    return found


def _shortest(component: Component, mask: int) -> Cycle | None:
    """Return a shortest cycle of edges of ``mask``, within the smallest component of them."""
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
    """Return whether the time is over: a known cycle is then enough."""
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
                k for k in (WW, WR, WRP, PROCESS, REALTIME)
                if component.out[last][event] & mask & k
            )  # fmt: skip
            closed.append([*walk, (last, event, kind)])
        else:
            # The walk ends at a moment: its last step leads to the event itself.
            a, _, kind = walk[-1]
            closed.append([*walk[:-1], (a, event, kind)])
    return min(closed, key=len, default=None)


def _by_target(edges: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for a, b in edges:
        groups.setdefault(b, []).append(a)
    return groups


def _closing(component: Component, mask: int, rw: int, apart: bool) -> Iterable[list[Step]]:
    """Return shortest walks that one edge of ``rw`` closes to a cycle."""
    for b, sources in sorted(_by_target(component.edges(rw)).items()):
        for a, walk in component.walk(b, sources, mask, rw if apart else 0).items():
            kind = RW if component.out[a][b] & rw & RW else RWP
            yield [(a, b, kind), *walk]


def _best(
    component: Component, mask: int, rw: int, apart: bool, accepted: Callable[[list[Step]], bool]
) -> Cycle | None:
    best: list[Step] | None = None
    try:
        for cycle in _closing(component, mask, rw, apart):
            if accepted(cycle) and (best is None or len(cycle) < len(best)):
                best = cycle
                if len(best) == 2:
                    break
    except OutOfTimeError:
        if best is None:
            raise
    return None if best is None else Cycle(classify(best), tuple(best))


def _g_single(component: Component, order: int, rw: int) -> Cycle | None:
    if not component.cyclic_apart(READ | order, rw):
        return None
    return _best(component, READ | order, rw, False, lambda cycle: True)


def _g_nonadjacent(component: Component, order: int, rw: int) -> Cycle | None:
    if not component.cyclic_apart(READ | order, rw):
        return None
    return _best(component, READ | order, rw, True, _is_simple)


def _g2(component: Component, order: int, rw: int) -> Cycle | None:
    return _best(component, READ | rw | order, rw, False, lambda cycle: True)


def _is_simple(steps: list[Step]) -> bool:
    return len({a for a, _, _ in steps}) == len(steps)


def classify(steps: Iterable[Step]) -> str:
    """Return the name of the anomaly that a cycle of these steps is."""
    kinds = [kind for _, _, kind in steps]
    crossings = [bool(kind & ANY_RW) for kind in kinds]
    item = "" if RWP in kinds else "-item"
    if sum(crossings) == 1:
        name = f"G-single{item}"
    elif any(crossings):
        turned = zip(crossings, [*crossings[1:], crossings[0]], strict=True)
        adjacent = any(first and second for first, second in turned)
        name = f"G2{item}" if adjacent else f"G-nonadjacent{item}"
    else:
        name = "G1c" if WR in kinds or WRP in kinds else "G0"
    if REALTIME in kinds:
        return name + "-realtime"
    return name + "-process" if PROCESS in kinds else name
