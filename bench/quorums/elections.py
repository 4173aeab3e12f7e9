"""Elections on either core: a member that returns from a cut, and a leader that stops or dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from bench.quorums.client import Insistent
from bench.quorums.group import SECOND, Group, Kind
from kraftwreck.nodes.draw import draw_below

_CUT: Final = 10 * SECOND
_AFTER: Final = 10 * SECOND
"""How long a group is watched after the heal."""
_STOP_LIMIT: Final = 5 * SECOND
End = Literal["stop", "kill"]


@dataclass(slots=True)
class Return:
    """Figures of a follower's return, one entry for each seed.

    ``terms`` counts by how much the group's term rose after the heal, ``elections`` the leaders
    elected, ``gaps`` the longest time without an acknowledged write, in microseconds.
    """

    terms: list[int] = field(default_factory=list)
    elections: list[int] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)


def measure_return(kind: Kind, size: int, seeds: Sequence[int]) -> Return:
    """Cut a follower off for ten seconds, and watch the group for ten seconds after the heal."""
    found = Return()
    for seed in seeds:
        group = Group(kind, size, seed)
        group.start()
        world, leader = group.world, group.wait_for_leader()
        client = Insistent(group)
        client.begin()
        follower = next(name for name in group.names if name != leader)
        world.cut(group.alone(follower))
        world.run(world.now + _CUT)
        term = group.core(leader).term
        world.heal()
        group.events.clear()
        healed = world.now
        world.run(healed + _AFTER)
        found.terms.append(group.core(group.wait_for_leader()).term - term)
        found.elections.append(sum(event.kind == "elected" for _, event in group.events))
        found.gaps.append(client.longest_gap(healed, healed + _AFTER))
    return found


def measure_end(kind: Kind, size: int, end: End, seeds: Sequence[int]) -> list[int]:
    """Return, per seed, the time from a leader's end to the next acknowledged write (µs).

    ``stop`` is SIGTERM, ``kill`` is SIGKILL.
    """
    return [_outage(Group(kind, size, seed), end) for seed in seeds]


def _outage(group: Group, end: End) -> int:
    """End the leader, and return the time to the first write that its successor acknowledges."""
    group.start()
    world, client = group.world, Insistent(group)
    client.begin()
    # The phase of heartbeats and fetches differs by seed.
    world.run(world.now + 2 * SECOND + draw_below(SECOND, group.seed, "phase"))
    leader = group.wait_for_leader()
    term, begun = group.core(leader).term, world.now
    if end == "stop":
        world.stop(leader, _STOP_LIMIT)
    else:
        world.kill(leader)
    group.wait_for_leader(after=term)
    count = len(client.acknowledged)
    group.wait(lambda: len(client.acknowledged) > count, "acknowledged write")
    return client.acknowledged[count] - begun
