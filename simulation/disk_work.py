"""How long a node's disk takes, and what is on it when the process dies during its work.

The durable effects of one step are carried out in order, each at the end of its own time;
the rest of the step waits for all of them (**persist before you speak**).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.simulation.disk_trouble import DiskError
from kraftwreck.simulation.host import DiskWork, Host
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.simulation.pieces import Piece
from kraftwreck.simulation.timeline import Timeline, WorldError

PAGE_CACHE_WRITE = 10
"""Microseconds of a write without a flush."""
LATEST = 1_000_000
"""The most microseconds of a piece of work that is late (:attr:`WorldKnobs.late_work`); most of
them take an eighth of it at most."""


class DiskWorker:
    """Carries out effects of the types ``durable`` in virtual time.

    ``on_write`` is called with each operation before it changes the disk, unless the process dies
    during it, and ``on_disk`` with each just before it counts as written. ``on_caused`` is called
    with each event of the disk, before its process handles it, and ``on_work`` with a host after
    each piece of work beside its process. Their errors are the simulator's own (WorldError).
    """

    def __init__(
        self, time: Timeline, seed: int, knobs: WorldKnobs, durable: frozenset[type]
    ) -> None:
        self.on_write: list[Callable[[Host, Any], None]] = []
        self.on_disk: list[Callable[[Host, Any], None]] = []
        self.on_caused: list[Callable[[Host, Any], None]] = []
        self.on_work: list[Callable[[Host], None]] = []
        self._time = time
        self._seed = seed
        self._knobs = knobs
        self._durable = durable

    def begin(self, host: Host, effects: Sequence[Any]) -> int:
        """Make the host busy with the durable ones of ``effects``; return when it is done."""
        at = self._time.now
        operations: list[tuple[int, Any]] = []
        rest: list[Any] = []
        for effect in effects:
            if type(effect) in self._durable:
                at += self._duration(host, effect)
                operations.append((at, effect))
            else:
                rest.append(effect)
        host.busy = DiskWork(operations, rest, self._time.now)
        return at

    def _duration(self, host: Host, effect: Any) -> int:
        if host.disk.cached(effect):
            return PAGE_CACHE_WRITE
        host.disk_count += 1
        return self._fsync(host, draw(self._seed, "disk", host.id, host.disk_count))

    def _fsync(self, host: Host, number: int) -> int:
        """Return how long (µs) an fsync takes, drawn from ``number``."""
        low, high = self._knobs.fsync_min, self._knobs.fsync_max
        span = high - low if number & 7 == 0 else (high - low) >> 3
        time = low + (number >> 3) % (span + 1)
        if host.id == self._knobs.slow_disk:
            time *= self._knobs.slow_factor
        trouble = host.disk.trouble
        return time if trouble is None else trouble.duration(time)

    def carry_out(self, host: Host) -> None:
        """Apply the host's disk work, whose time is over.

        Raises :class:`DiskError`, and OSError if the hardware fails.
        """
        assert host.busy is not None
        disk = host.disk
        for _, effect in host.busy.operations:
            _call(self.on_write, host, effect)
            disk.write(effect)
            self._tell(host, effect)
            disk.note(effect)
            self.take_events(host)
        host.busy.operations = []

    def take_events(self, host: Host) -> None:
        """Let the process of the host handle the events of its disk, before any other."""
        beside = host.disk.beside
        for event in beside.take_events() if beside is not None else ():
            _call(self.on_caused, host, event)
            host.caused.append(event)

    # --- beside the process -----------------------------------------------------------

    def begin_piece(self, host: Host) -> int:
        """Begin the first piece of work beside the host's process; return when it is done."""
        beside = host.disk.beside
        assert beside is not None
        host.working = True
        beside.begin_work()
        host.piece_count += 1
        number = draw(self._seed, "piece", host.id, host.piece_count)
        time = self._fsync(host, number)
        if draw_below(100, number, "late") < self._knobs.late_work:
            most = LATEST if draw_below(8, number, "latest") == 0 else LATEST // 8
            time = max(time, draw_below(most, number, "time"))
        return self._time.now + time

    def end_piece(self, host: Host) -> Piece:
        """Carry out the piece of work whose time is over.

        Raises :class:`DiskError`, and OSError if the hardware fails.
        """
        beside = host.disk.beside
        assert beside is not None
        piece = beside.work()
        host.working = False
        _call(self.on_work, host)
        self._time.fact(f"w {host.id} {host.piece_count} {type(piece.cause).__name__}")
        return piece

    def _tell(self, host: Host, effect: Any) -> None:
        _call(self.on_disk, host, effect)
        self._time.fact(f"d {host.id} {host.disk.fact(effect)}")

    def interrupt(self, host: Host) -> None:
        """Let the process die during its disk work: complete operations stay, and of those under
        way, in the process and beside it, some of their file changes."""
        beside = host.disk.beside
        if host.working and beside is not None:
            beside.interrupt_work(draw(self._seed, "torn piece", host.id, host.piece_count))
        if host.busy is None:
            return
        disk = host.disk
        try:
            for at, effect in host.busy.operations:
                if at > self._time.now:
                    number = draw(self._seed, "torn", host.id, host.disk_count)
                    # The next start shows whether these two happened. No node has reported them,
                    # but if they happened, the watchers need them.
                    early = disk.early(effect)
                    if early:
                        self._tell(host, effect)
                    if disk.interrupt(effect, number):
                        if not early:
                            self._tell(host, effect)
                        disk.note(effect)
                    return
                _call(self.on_write, host, effect)
                disk.write(effect)
                self._tell(host, effect)
                disk.note(effect)
        except (DiskError, OSError):
            return  # The process dies anyway, and the operation fails.

    def recover(self, host: Host) -> Any:
        """Start a process from the host's disk; sometimes one before it dies during its start.

        Raises what :meth:`simulation.disk.Disk.recover` does.
        """
        key = self._seed, "recovery", host.id, host.life
        disk = host.disk
        steps = disk.start_steps
        if steps and disk.trouble is None and host.life > 1 and draw_below(4, *key) == 0:
            disk.begin(draw_below(steps, *key, "steps"), draw(*key, "torn"))
            if draw_below(100, *key, "power") < self._knobs.power_loss:
                disk.lose_power(draw(*key, "lost"))
        return disk.recover()


def _call(watches: Sequence[Callable[..., None]], host: Host, *what: Any) -> None:
    """Call each of ``watches``. An error of theirs must not look like one of the disk."""
    try:
        for watch in watches:
            watch(host, *what)
    except (DiskError, OSError) as error:
        raise WorldError(f"a watch of {host.name} failed: {error!r}") from error
