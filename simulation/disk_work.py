"""How long a node's disk takes, and what is left of it when the process dies meanwhile.

The durable effects of one step are carried out in order, each at the end of its own time;
the rest of the step waits for all of them (**persist before you speak**).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from nodes.consensus.effects import DURABLE, Effect
from nodes.draw import draw
from simulation.disk import CACHED, DiskError, Durable
from simulation.host import DiskWork, Host
from simulation.knobs import Knobs
from simulation.timeline import Timeline

PAGE_CACHE_WRITE = 10
"""Microseconds a write takes that nobody flushes."""

DURABLE_TYPES: frozenset[type] = frozenset(DURABLE)


class DiskWorker:
    """Carries out durable effects in virtual time.

    ``on_disk`` is told of each operation just before it reaches the disk.
    """

    def __init__(self, time: Timeline, seed: int, knobs: Knobs) -> None:
        self.on_disk: list[Callable[[Host, Durable], None]] = []
        self._time = time
        self._seed = seed
        self._knobs = knobs

    def begin(self, host: Host, effects: Sequence[Effect]) -> int:
        """Make the host busy with the durable ones of ``effects``; return when it is done."""
        at = self._time.now
        operations: list[tuple[int, Durable]] = []
        rest: list[Effect] = []
        for effect in effects:
            if type(effect) in DURABLE_TYPES:
                at += self._duration(host, effect)
                operations.append((at, cast(Durable, effect)))
            else:
                rest.append(effect)
        host.busy = DiskWork(operations, rest)
        return at

    def _duration(self, host: Host, effect: Effect) -> int:
        if type(effect) in CACHED:
            return PAGE_CACHE_WRITE
        host.disk_count += 1
        low, high = self._knobs.fsync_min, self._knobs.fsync_max
        number = draw(self._seed, "disk", host.id, host.disk_count)
        span = high - low if number & 7 == 0 else (high - low) >> 3
        time = low + (number >> 3) % (span + 1)
        return time * self._knobs.slow_factor if host.id == self._knobs.slow_disk else time

    def carry_out(self, host: Host) -> None:
        """The time is over: apply what the host is busy with. Raises :class:`DiskError`."""
        assert host.busy is not None
        for _, effect in host.busy.operations:
            self._tell(host, effect)
            host.disk.apply(effect)
        host.busy.operations = []

    def _tell(self, host: Host, effect: Durable) -> None:
        for told in self.on_disk:
            told(host, effect)
        self._time.fact(f"d {host.id} {host.disk.fact(effect)}")

    def interrupt(self, host: Host) -> None:
        """The process dies amid its disk work: what is complete stays, and the operation
        under way may or may not have reached the disk."""
        if host.busy is None:
            return
        try:
            for at, effect in host.busy.operations:
                if at > self._time.now:
                    number = draw(self._seed, "torn", host.id, host.disk_count)
                    if host.disk.survives(number):
                        self._tell(host, effect)
                        host.disk.interrupt(effect, number)
                    return
                self._tell(host, effect)
                host.disk.apply(effect)
        except DiskError:
            return  # The node is dying anyway, and so did this operation.
