"""Fault chains: each fault begins about when another ends. Drawn from a seed.

Most deep bugs of consensus need two or three faults in a certain order within moments. A leader
that was cut off comes back with uncommitted records just as its successor fails. A lagging node
fetches a snapshot while its leader changes. A leader appends a list of members and fails
before it is committed. Timed faults hit such moments only by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nemesis.transitions import Transitions
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

T = TypeVar("T")

MILLISECOND = 1_000_000
START_MS = 1_500
LAST = 0.85
"""No fault begins after this share of a run."""

BLOWS = ("partition", "partition", "kill", "power", "pause")
"""Families that disable a node, repeated according to their frequency."""

_SEAMS_MS = (-1_500, -400, -100, -20, 0, 0, 5, 30, 100, 400)
"""When the next fault begins, relative to the end of the previous one."""

_AFTER_MS = (0, 2, 5, 15, 40, 100, 300)


def plan(
    kinds: Sequence[str],
    seed: int,
    duration_s: float,
    scope: Scope,
) -> list[Fault]:
    """Return the faults of ``kinds`` for a run of ``duration_s`` seconds, by time.

    The result is empty if ``kinds`` has no family that disables nodes, or there is only one node.
    """
    blows = [kind for kind in BLOWS if kind in kinds]
    if not blows or scope.electing < 2:
        return []
    modes: list[Callable[[_Writer], None]] = [_successions, _successions, _laggards]
    if scope.transitions is not None:
        modes.append(_usurpers)
    if "membership" in kinds and scope.electing >= 3 and scope.transitions is not None:
        modes += [_members, _members]
        if "partition" in kinds:
            modes += [_undecided, _undecided]
    writer = _Writer(seed, blows, duration_s, scope)
    modes[draw_below(len(modes), seed, "relay", "mode")](writer)
    return sorted(writer.faults, key=lambda fault: (fault.at, fault.kind))


OF_OTHERS = "of others"
"""Stands for the shape that hits one node of another role, and is named after that role."""


class _Writer:
    """Collects the faults of one run; ``now`` is the current time in ms."""

    def __init__(self, seed: int, blows: Sequence[str], duration_s: float, scope: Scope) -> None:
        self.faults: list[Fault] = []
        self.now = START_MS + draw_below(1_500, seed, "relay", "begin")
        self._end = duration_s * 1000 * LAST
        self._seed = seed
        self._scope = scope
        self.cuts = "partition" in blows
        # Two families per run: with few families the same chain is tried more often.
        self._blows = [blows[draw_below(len(blows), seed, "relay", "family", i)] for i in range(2)]

    @property
    def transitions(self) -> Transitions:
        """The transitions for which faults may wait."""
        known = self._scope.transitions
        assert known is not None
        return known

    @property
    def triggered(self) -> bool:
        """Whether faults may wait for transitions."""
        return self._scope.transitions is not None

    def over(self) -> bool:
        """Return whether it is too late for another fault."""
        return self.now >= self._end

    def below(self, bound: int, what: str) -> int:
        """Return a number in [0, bound) for this place of the schedule."""
        return draw_below(bound, self._seed, "relay", len(self.faults), what)

    def choose(self, what: str, options: Sequence[T]) -> T:
        return options[self.below(len(options), what)]

    def between(self, what: str, low: int, high: int) -> int:
        """Return a number of milliseconds; smaller ones are more likely."""
        unit = draw_unit(self._seed, "relay", len(self.faults), what)
        return low + round((high - low) * unit * unit)

    def blow(
        self,
        shapes: Sequence[str],
        length_ms: int,
        *,
        kind: str | None = None,
        targets: tuple[str, ...] = (),
        trigger: str | None = None,
    ) -> None:
        """Add a fault at ``now``, with one of the ``shapes`` that its family has."""
        kind = kind or self.choose("kind", self._blows)
        usable = self._scope.usable(kind)
        of_others = [name for name, shape in usable.items() if shape.role == name]
        known = [
            name
            for shape in shapes
            for name in (of_others if shape == OF_OTHERS else [shape])
            if name in usable
        ]
        if not known:
            self.now += 100
            return
        self.faults.append(
            Fault(
                at=max(self.now, 0) * MILLISECOND,
                kind=kind,
                shape=self.choose("shape", known),
                duration=length_ms * MILLISECOND,
                draw=draw(self._seed, "relay", len(self.faults), "draw"),
                targets=targets,
                trigger=trigger,
            )
        )


def _successions(writer: _Writer) -> None:
    """Leader after leader fails for a while, the next about when the previous one is back."""
    shortest = writer.choose("shortest", (300, 1_200, 2_500))
    while not writer.over():
        length = writer.between("length", shortest, 5_500)
        if writer.cuts and writer.below(6, "side") == 0:
            # It must notice by itself that its followers are not a majority.
            length = writer.between("together", 4_500, 9_000)
            writer.blow(("leader-side",), length, kind="partition")
        else:
            writer.blow(("leader", "leader", "leader", "halves", "to-leader"), length)
        seam = writer.choose("seam", _SEAMS_MS)
        writer.now += max(length + seam, 200)


def _laggards(writer: _Writer) -> None:
    """One node lags behind for long. When it is back and fetches, its leader fails: about then, or
    as soon as a snapshot must be fetched."""
    while not writer.over():
        length = writer.between("length", 3_000, 9_000)
        writer.blow(("one", "one", "minority", "halves", OF_OTHERS), length)
        writer.now += length + writer.choose("after", _AFTER_MS)
        for _ in range(1 + writer.below(3, "times")):
            if writer.over():
                break
            short = writer.between("short", 100, 3_500)
            if writer.triggered and writer.below(4, "how") == 0:
                target = writer.choose("of", ("@leader", "@leader", "@"))
                # A node may be back in the middle of a fetch when its snapshot is deleted.
                short *= 1 if target == "@leader" else 2
                writer.blow(
                    ("one",), short, targets=(target,), trigger=f"{writer.transitions.download}#1"
                )
            else:
                writer.blow(("leader", "leader", "all", "one"), short)
            writer.now += short + writer.choose("again", _AFTER_MS)
        writer.now += writer.between("rest", 100, 1_500)


def _usurpers(writer: _Writer) -> None:
    """Each new leader is hit soon after its election, while its predecessors may still be down.

    All faults are armed from the start, each for a later transition of one name.
    """
    known = writer.transitions
    trigger = writer.choose("trigger", known.rises)
    often = writer.choose("often", (3, 10, 40)) if trigger in known.often else 1
    longest = writer.choose("longest", (600, 2_500, 6_000))
    begun, count = writer.now, 0
    for _ in range(30):
        count += 1 + writer.below(often, "count")
        writer.now = 0
        length = writer.between("length", 200, longest)
        shapes = ("one", "one", "one", "to-leader")
        writer.blow(shapes, length, targets=("@",), trigger=f"{trigger}#{count}")
    writer.now = begun
    while not writer.over():
        # If there is no election for a while, this forces one.
        writer.blow(("leader",), writer.between("kick", 300, 2_500))
        writer.now += writer.between("gap", 2_000, 8_000)


def _members(writer: _Writer) -> None:
    """The members change, and a node fails as the new list is appended or committed."""
    known = writer.transitions
    aims = (
        ("@", known.members),
        ("@leader", known.members),
        ("@", known.committed),
        ("@", known.elected),
    )
    while not writer.over():
        change = writer.between("change", 300, 5_000)
        writer.blow(("one", "leader", "shrink", "grow", "replace"), change, kind="membership")
        for _ in range(1 + writer.below(2, "times")):
            count = 1 + writer.below(3, "count")
            length = writer.between("length", 100, 5_000)
            target, trigger = writer.choose("aim", aims)
            writer.blow(("one",), length, targets=(target,), trigger=f"{trigger}#{count}")
        writer.now += change + writer.choose("seam", (*_SEAMS_MS, 1_000, 2_000))


def _undecided(writer: _Writer) -> None:
    """A leader that is cut off appends a new list of members, which it cannot commit. Meanwhile the
    next change is requested."""
    while not writer.over():
        cut = writer.between("cut", 2_500, 8_000)
        writer.blow(("leader",), cut, kind="partition")
        writer.now += writer.between("later", 1, 1_000)
        writer.blow(("one", "shrink"), writer.between("change", 300, 4_000), kind="membership")
        writer.now += cut + writer.choose("seam", (100, 1_000, 2_000))
