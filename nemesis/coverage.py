"""Coverage of one run or of many: counters with which a generator of schedules may be guided.

Everything is computed from the files that any run leaves, in the simulator or on hosts: traces,
fault events and the clocks in ``test.json``. More coverage does not prove that more bugs are
found, so a generator is judged by the planted bugs it finds, never by these numbers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import merge
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.checkers.recorded.clocks import NodeClock, node_clocks
from kraftwreck.checkers.recorded.stored_events import StoredEvents
from kraftwreck.harness.clusters.providers import SIMULATOR_LACKS
from kraftwreck.harness.layout import electing_of
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nemesis.cuts import directed_pattern, undirected_pattern, undirected_patterns
from kraftwreck.nemesis.registry import families

Counts = dict[str, int]
_KINDS = ("cuts", "directed", "follows", "overlaps", "struck", "steps", "marks", "edges")

_STATES = {
    name: place
    for place, name in enumerate(
        ("unattached", "follower", "prospective", "candidate", "leader", "resigned", "voted"), 1
    )
}
_SNAPSHOTS = {"snapshot": 1, "install": 2, "load": 2}


class Coverage(msgspec.Struct, kw_only=True):
    """Counters over runs; every value is the number of ``runs`` in which something occurred.

    * ``cuts``: patterns of links cut both ways between electing nodes, up to relabelling with
      the leader marked (:mod:`nemesis.cuts`), as ``nodes:pattern``;
    * ``directed``: the same for single directions;
    * ``follows``: ordered pairs of fault classes (``kind/shape``), as ``first > second``, where
      the first started earlier; ``overlaps``: those where it was still in force;
    * ``struck``: the state of a target when a fault hit it, as ``state kind/shape``;
    * ``steps``: two consecutive trace events of one node, as ``state.kind > state.kind``;
    * ``edges``: transitions of the whole cluster between abstract states, hashed;
    * ``marks``: leaders at once, depth of truncations, epochs without a winner, in classes.
    """

    runs: int = 0
    cuts: Counts = {}
    directed: Counts = {}
    follows: Counts = {}
    overlaps: Counts = {}
    struck: Counts = {}
    steps: Counts = {}
    marks: Counts = {}
    edges: dict[int, int] = {}

    def merge(self, other: Coverage) -> None:
        """Add the runs of ``other``."""
        self.runs += other.runs
        for name in _KINDS:
            mine = getattr(self, name)
            for key, count in getattr(other, name).items():
                mine[key] = mine.get(key, 0) + count

    def new_in(self, other: Coverage) -> Counts:
        """Return how many keys of ``other`` are not here, by the name of the counter."""
        return {
            name: len(getattr(other, name).keys() - getattr(self, name).keys()) for name in _KINDS
        }

    def summary(self) -> dict[str, Any]:
        """Return a summary as plain values; percentages where the total is known."""
        classes = fault_classes()
        pairs = len(classes) ** 2
        patterns = {
            str(nodes): [
                sum(1 for key in self.cuts if key.startswith(f"{nodes}:")),
                len(undirected_patterns(nodes)),
            ]
            for nodes in (3, 4, 5)
        }
        return {
            "runs": self.runs,
            "cuts": patterns,
            "directed": len(self.directed),
            "pairs": [len(self.follows), pairs],
            "pairs_percent": round(100 * len(self.follows) / pairs, 1) if pairs else 0.0,
            "overlaps": [len(self.overlaps), pairs],
            "struck": len(self.struck),
            "steps": len(self.steps),
            "marks": dict(sorted(self.marks.items())),
            "edges": len(self.edges),
        }

    def lines(self) -> Iterator[str]:
        """Yield the summary as lines for people."""
        told = self.summary()
        cuts = ", ".join(f"{a} of {b} on {n} nodes" for n, (a, b) in told["cuts"].items())
        yield f"cut patterns: {cuts}; directed: {told['directed']}"
        (met, pairs), overlapped = told["pairs"], told["overlaps"][0]
        yield (
            f"ordered pairs of faults: {met} of {pairs} ({told['pairs_percent']}%),"
            f" {overlapped} overlapping"
        )
        yield (
            f"states hit by faults: {told['struck']}; steps of nodes: {told['steps']};"
            f" transitions of the cluster: {told['edges']}"
        )


def fault_classes() -> list[str]:
    """Return every ``kind/shape`` that the simulator supports."""
    return [
        f"{name}/{shape}"
        for name, family in families().items()
        for shape in family.shapes
        if not family.features(shape).intersection(SIMULATOR_LACKS)
    ]


def coverage(
    events: Sequence[TraceEvent],
    faults: Sequence[FaultEvent],
    test: Mapping[str, Any],
    *,
    ordered: bool = True,
) -> Coverage:
    """Return the coverage of one run.

    ``test`` is the contents of ``test.json`` (``electing`` or ``nodes`` and ``roles``, ``clock``).
    ``events`` of all nodes are in order of time; if ``ordered`` is False, they are
    sorted by the clocks of ``test`` first.
    """
    clocks = node_clocks(test)
    electing = electing_of(test)
    reached = Coverage(runs=1)
    lives = _walk(events if ordered else _in_order(events, clocks), electing, reached)
    _faults(faults, electing, lives, clocks, reached)
    return reached


def _in_order(
    events: Sequence[TraceEvent], clocks: Mapping[str, NodeClock]
) -> Iterable[TraceEvent]:
    """Return the events of all nodes by time; of stored columns one event at a time."""
    unknown = NodeClock([(0, 0)])

    def place(event: TraceEvent) -> tuple[int, str, int]:
        return clocks.get(event.node, unknown).time(event.mono), event.node, event.seq

    if isinstance(events, StoredEvents):
        return merge(*events.by_node(), key=place)
    return sorted(events, key=place)


@dataclass(slots=True)
class _Life:
    """The states of a node: since ``since`` (µs of its monotonic clock) it is in ``states``."""

    since: array[int] = field(default_factory=lambda: array("q"))
    states: list[str] = field(default_factory=list)


def _walk(
    events: Iterable[TraceEvent], electing: Sequence[str], reached: Coverage
) -> dict[str, _Life]:
    """Follow the traces; return each node's states."""
    place = {name: number for number, name in enumerate(electing)}
    count = len(electing)
    last: list[TraceEvent | None] = [None] * count
    snapshots, codes = [0] * count, [0] * count
    lives: dict[str, _Life] = {}
    before: dict[str, tuple[str, str]] = {}
    steps: set[tuple[tuple[str, str], tuple[str, str]]] = set()
    edges: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    marks: set[str] = set()
    cluster: tuple[int, ...] = (0,) * count
    top = won = 0
    for event in events:
        kind = event.kind
        if kind == "commit":
            continue  # Half of all events; each has its high watermark.
        node, state = event.node, event.state
        here = (state, kind)
        previous = before.get(node)
        if previous is None:
            lives[node] = _Life()
        else:
            steps.add((previous, here))
        if previous is None or previous[0] != state:
            life = lives[node]
            life.since.append(event.mono)
            life.states.append(state)
        before[node] = here
        number = place.get(node)
        if number is None:
            continue
        last[number] = event
        if kind in _SNAPSHOTS:
            snapshots[number] = _SNAPSHOTS[kind]
        elif kind == "truncate":
            depth = int(event.detail.get("from", 0)) - int(event.detail.get("to", 0))
            marks.add(f"truncated by 2^{max(depth, 1).bit_length() - 1}")
        elif kind == "elected":
            marks.add(f"2^{max(event.epoch - won, 1).bit_length() - 1} epochs to a leader")
            won = max(won, event.epoch)
            leaders = sum(1 for each in last if each is not None and each.state == "leader")
            marks.add(f"{leaders} leaders at once")
        if event.epoch > top:
            top = event.epoch
            for other, seen in enumerate(last):
                if seen is not None:
                    codes[other] = _code(seen, top, snapshots[other])
        else:
            code = _code(event, top, snapshots[number])
            if code == codes[number]:
                continue
            codes[number] = code
        after = tuple(sorted(codes))
        edges.add((cluster, after))
        cluster = after
    reached.steps = dict.fromkeys((f"{'.'.join(a)} > {'.'.join(b)}" for a, b in steps), 1)
    reached.edges = dict.fromkeys((_hash(a + b) for a, b in edges), 1)
    reached.marks = dict.fromkeys(marks, 1)
    return lives


def _code(event: TraceEvent, top: int, snapshots: int) -> int:
    """Return a small number for the abstract state of a node, in few classes: role, lag of its
    epoch and high watermark, length of its log, vote, snapshots."""
    lag = 3 if event.hw < 0 else min((event.leo - event.hw).bit_length(), 2)
    behind = min(top - event.epoch, 2)
    length = min(event.leo.bit_length() // 3, 3)
    code = (_STATES.get(event.state, 0) * 3 + behind) * 4 + length
    return ((code * 4 + lag) * 2 + (event.voted >= 0)) * 3 + snapshots


def _hash(codes: tuple[int, ...]) -> int:
    packed = array("H", codes).tobytes()
    return int.from_bytes(blake2b(packed, digest_size=6).digest(), "big")


def _faults(
    faults: Iterable[FaultEvent],
    electing: Sequence[str],
    lives: Mapping[str, _Life],
    clocks: Mapping[str, NodeClock],
    reached: Coverage,
) -> None:
    """Follow the faults in the order in which they start and end."""
    active: dict[int, FaultEvent] = {}
    started: dict[str, None] = {}
    for fault in faults:
        if fault.phase == "stop":
            active.pop(fault.id, None)
            if fault.kind == "partition":
                _cuts(active, electing, reached)
            continue
        if fault.error is not None or not fault.targets:
            continue
        name = f"{fault.kind}/{fault.shape}"
        for other in started:
            reached.follows[f"{other} > {name}"] = 1
        for other_fault in active.values():
            reached.overlaps[f"{other_fault.kind}/{other_fault.shape} > {name}"] = 1
        spared = fault.detail.get("skipped") or ()
        for node in fault.targets:
            if node in spared:
                continue
            state = _state_at(node, fault.time // 1000, active, lives, clocks)
            reached.struck[f"{state} {name}"] = 1
        started[name] = None
        active[fault.id] = fault
        if "grudge" in fault.detail:
            _cuts(active, electing, reached)


def _state_at(
    node: str,
    time_us: int,
    active: Mapping[int, FaultEvent],
    lives: Mapping[str, _Life],
    clocks: Mapping[str, NodeClock],
) -> str:
    """Return the state of ``node`` just before ``time_us``, according to its trace."""
    held = {fault.kind for fault in active.values() if node in fault.targets}
    if held & {"kill", "terminate", "power"}:
        return "down"
    if "pause" in held:
        return "paused"
    life, clock = lives.get(node), clocks.get(node)
    if clock is None:
        return "unknown"
    index = 0 if life is None else bisect_right(life.since, clock.reading(time_us))
    return life.states[index - 1] if life is not None and index else "unborn"


def _cuts(active: Mapping[int, FaultEvent], electing: Sequence[str], reached: Coverage) -> None:
    """Record the pattern of links between the electing nodes that are cut now."""
    cuts = [fault for fault in active.values() if "grudge" in fault.detail]
    if not cuts or not 3 <= len(electing) <= 5:
        return
    leader = cuts[-1].detail.get("leader")
    if leader not in electing:
        return
    order = [leader, *(name for name in electing if name != leader)]
    place = {name: number for number, name in enumerate(order)}
    cut = {
        (place[sender], place[receiver])
        for fault in cuts
        for receiver, senders in fault.detail["grudge"].items()
        for sender in senders
        if sender in place and receiver in place
    }
    if not cut:
        return
    count = len(order)
    reached.directed[f"{count}:{directed_pattern(count, frozenset(cut)):x}"] = 1
    both = frozenset((a, b) for a, b in cut if a < b and (b, a) in cut)
    if both:
        reached.cuts[f"{count}:{undirected_pattern(count, both):x}"] = 1


def load(path: Path) -> Coverage:
    """Return the counters in the file ``path``, empty ones if it does not exist.

    Raises :class:`OptionError` for a file that is not a coverage file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Coverage)
    except FileNotFoundError:
        return Coverage()
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from error
    except UNDECODABLE as error:
        raise OptionError(f"{path}: not a coverage file: {' '.join(str(error).split())}") from error


def store(path: Path, counted: Coverage) -> None:
    """Write ``counted`` to ``path`` atomically. Raises :class:`OptionError`."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_bytes(msgspec.json.encode(counted) + b"\n")
        new.replace(path)
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from error
