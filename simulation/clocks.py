"""The two clocks of a simulated machine, as functions of virtual time.

The monotonic clock is piecewise linear: it runs at a rate that a fault may change, and never
goes back. The wall clock runs at the same rate. A fault may set it ahead or back, also
periodically (strobe), and it is right again after the fault. The readings of the monotonic clock
at each change of its rate are kept, so that a reading can be converted to virtual time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

WALL_START = 1_700_000_000_000_000
"""Wall-clock microseconds since 1970 at virtual time 0."""

_PPM = 1_000_000


class Clock:
    """Both clocks of one machine. All times are microseconds.

    While it is ``steady`` the monotonic clock shows virtual time plus ``mono_offset`` and the
    wall clock virtual time plus ``wall_offset``; otherwise use :meth:`mono` and :meth:`wall`.
    ``samples`` are (virtual time, reading) of the monotonic clock at each change of its rate.
    """

    __slots__ = (
        "_ppm",
        "_since",
        "_strobe",
        "_wall",
        "_wall_base",
        "mono_offset",
        "samples",
        "steady",
        "wall_offset",
    )

    def __init__(self, mono_offset: int, wall_offset: int) -> None:
        self.mono_offset = mono_offset
        self.wall_offset = self._wall_base = WALL_START + wall_offset
        self.steady = True
        self.samples: list[tuple[int, int]] = []
        self._since = 0
        self._ppm = self._wall = self._strobe = 0

    def both(self, now: int) -> tuple[int, int]:
        """Return the readings of both clocks at virtual time ``now``."""
        if self.steady:
            return now + self.mono_offset, now + self.wall_offset
        return self.mono(now), self.wall(now)

    def mono(self, now: int) -> int:
        """Return the reading of the monotonic clock at virtual time ``now``."""
        return now + self.mono_offset + (now - self._since) * self._ppm // _PPM

    def wall(self, now: int) -> int:
        """Return the reading of the wall clock at virtual time ``now``, in µs since 1970."""
        since = now - self._since
        wall = now + self._wall_base + since * self._ppm // _PPM
        if self._strobe and since // self._strobe % 2:
            return wall
        return wall + self._wall

    def due(self, reading: int) -> int:
        """Return the first virtual time at which the monotonic clock shows ``reading``."""
        if self._ppm == 0:
            return reading - self.mono_offset
        since = self._since
        return since - (since + self.mono_offset - reading) * _PPM // (_PPM + self._ppm)

    def set(self, now: int, wall_us: int, strobe_us: int, rate_ppm: int) -> None:
        """Disturb the clocks from ``now`` on.

        The wall clock is ``wall_us`` ahead, with ``strobe_us`` only in every other period of that
        length. Both clocks run ``rate_ppm`` ppm faster.

        Raises ValueError for a clock that would stand still or go back.
        """
        if rate_ppm <= -_PPM:
            raise ValueError(f"a clock cannot run {rate_ppm} ppm faster than the truth")
        reading = self.mono(now)
        if rate_ppm != self._ppm and (not self.samples or reading > self.samples[-1][1]):
            self.samples.append((now, reading))
        self.mono_offset = reading - now
        self._since, self._ppm = now, rate_ppm
        self._wall, self._strobe = wall_us, strobe_us
        self.wall_offset = self._wall_base + wall_us
        self.steady = not rate_ppm and not strobe_us

    def elapsed(self, since: int, now: int) -> int:
        """Return the monotonic time between two virtual times, both of them possibly past."""
        if not self.samples:
            return now - since
        return self._read(now) - self._read(since)

    def _read(self, time: int) -> int:
        """Return the monotonic reading at ``time``, also before the clock was last set."""
        if time >= self._since:
            return self.mono(time)
        place = bisect_right(self.samples, time, key=lambda sample: sample[0])
        if not place:
            at, reading = self.samples[0]
            return reading - (at - time)
        at, reading = self.samples[place - 1]
        if place == len(self.samples):
            end, last = self._since, self._since + self.mono_offset
        else:
            end, last = self.samples[place]
        return reading + (time - at) * (last - reading) // (end - at)

    def told(self) -> dict[str, Any]:
        """Return the clock's entry of ``test.json``: see ``checkers.recorded.clocks``."""
        if not self.samples:
            return {"offset_us": self.mono_offset}
        at, reading = self.samples[0]
        return {"offset_us": reading - at, "samples": [list(sample) for sample in self.samples]}
