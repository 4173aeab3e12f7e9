"""Clients of a simulated group: one that writes at a rate, one that writes as soon as it can."""

from __future__ import annotations

import itertools
from typing import Any, Final

from bench.quorums.group import MS, SECOND, Group
from kraftwreck.nodes.draw import draw_below

VALUE_BYTES: Final = 100
PATIENCE: Final = 500 * MS
"""A client waits this long for an answer, microseconds."""
RETRY: Final = 5 * MS
_CLIENT: Final = 1


def write(count: int) -> dict[str, Any]:
    """Return the ``count``-th write: one of 100 keys gets a value of 100 bytes."""
    return {"do": "write", "key": count % 100, "value": f"{count:0{VALUE_BYTES}}"}


class Writer:
    """Writes ``commits`` values at ``rate`` per second, whether earlier ones are answered or not.

    Pauses are uniform between half and three halves of the average, drawn by the seed.
    """

    def __init__(self, group: Group, rate: int, commits: int) -> None:
        self.group = group
        self.latencies: list[int] = []
        """From a write to its acknowledgement, microseconds."""
        self.failed = 0
        self._period = SECOND // rate
        self._left = self._sent = commits
        self._leader = group.leader or group.names[0]

    @property
    def done(self) -> bool:
        """Whether every write has ended."""
        return not self._left and self.failed + len(self.latencies) == self._sent

    def begin(self) -> None:
        """Schedule the first write."""
        world, number = self.group.world, self._left
        half = self._period // 2
        pause = half + draw_below(self._period, self.group.seed, "pause", number)
        world.at(world.now + pause, self._write, f"write {number}")

    def _write(self) -> None:
        world, sent = self.group.world, self.group.world.now

        def answered(status: str, answer: Any, error: str | None) -> None:
            if status == "ok" and answer["ok"]:
                self.latencies.append(world.now - sent)
            else:
                self.failed += 1

        # A connection each: one answer does not wait for another.
        world.call(self._left, self._leader, write(self._left), 60 * SECOND, answered)
        self._left -= 1
        if self._left:
            self.begin()


class Insistent:
    """Writes one value after the other, at any member that answers, ``pause`` apart."""

    def __init__(self, group: Group, pause: int = RETRY) -> None:
        self.acknowledged: list[int] = []
        """The times of all acknowledgements, microseconds."""
        self._group = group
        self._pause = pause
        self._place = self._count = 0

    def begin(self) -> None:
        """Schedule the next write."""
        world = self._group.world
        world.at(world.now + self._pause, self._write, f"insist {self._count}")

    def _write(self) -> None:
        group = self._group
        self._count += 1

        def answered(status: str, answer: Any, error: str | None) -> None:
            body = answer or {}
            if body.get("ok"):
                self.acknowledged.append(group.world.now)
            else:
                known = body.get("leader", -1)
                elsewhere = known - 1 if known > 0 else self._place + 1
                self._place = elsewhere % len(group.names)
            self.begin()

        name = group.names[self._place]
        group.world.call(_CLIENT, name, write(self._count), PATIENCE, answered)

    def longest_gap(self, since: int, until: int) -> int:
        """Return the longest time without an acknowledgement, microseconds."""
        times = [since, *(t for t in self.acknowledged if since < t < until), until]
        return max(after - before for before, after in itertools.pairwise(times))
