"""A disk with keys and values, for cores that keep no log.

A value is written whole or not at all. Without a flush it survives the end of its process, but not
a loss of power.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from kraftwreck.simulation.disk_trouble import DiskTrouble, Kind
from kraftwreck.simulation.pieces import WorkBeside


@dataclass(slots=True)
class Put:
    """Store ``value`` under ``key``.

    With ``flush`` this value and all written before are on the platter when the effect is complete;
    messages of the same step leave after it. Without, the value is only in the page cache.
    """

    key: Any
    value: Any
    flush: bool = True


class KeyedDisk:
    """The stored values of one node (:class:`~simulation.host.SimulatedDisk`).

    ``directory`` identifies the disk.
    """

    def __init__(self, directory: bytes = b"") -> None:
        self.directory = directory
        self.findings: list[str] = []
        self.beside: WorkBeside | None = None
        self.refusal: str | None = None
        self.trouble: DiskTrouble | None = None
        self._seen: dict[Any, Any] = {}
        self._unflushed: dict[Any, Any] = {}
        """The values before, of keys that were written and not flushed since."""

    @property
    def damaged(self) -> bool:
        """No bit is ever flipped here."""
        return False

    @property
    def start_steps(self) -> int:
        """A start changes nothing."""
        return 0

    def cached(self, effect: Put) -> bool:
        """Whether ``effect`` ends when the page cache has it."""
        return not effect.flush

    def early(self, effect: Put) -> bool:
        """No interrupted write is shown before it is known to have happened."""
        return False

    def fact(self, effect: Put) -> str:
        """Return the text that stands for ``effect`` in a run's digest."""
        return f"{effect.key!r}={effect.value!r}{'' if effect.flush else '?'}"

    def write(self, effect: Put) -> None:
        """Check that the hardware can take ``effect``. Raises OSError."""
        if self.trouble is not None:
            size = len(self.fact(effect))
            if self.trouble.write(size) < size:
                raise self.trouble.refuse()
            if effect.flush:
                self.trouble.check("fsync")

    def note(self, effect: Put) -> None:
        """Store the value."""
        key = effect.key
        if not effect.flush:
            self._unflushed.setdefault(key, self._seen.get(key, _ABSENT))
        self._seen[key] = copy.deepcopy(effect.value)
        if effect.flush:
            self._unflushed.clear()

    def interrupt(self, effect: Put, draw: int) -> bool:
        """Let the process die during ``effect``; ``draw`` says whether it was carried out."""
        return draw % 2 == 1

    def process_ended(self) -> None:
        """Nothing is lost when a process ends: the page cache stays."""

    def lose_power(self, draw: int) -> list[Any]:
        """Restore what was on the platter; return the keys whose values were lost."""
        lost, self._unflushed = self._unflushed, {}
        for key, value in lost.items():
            if value is _ABSENT:
                del self._seen[key]
            else:
                self._seen[key] = value
        return list(lost)

    def begin(self, steps: int, torn: int = 0) -> None:
        """A start that dies changes nothing."""

    def recover(self) -> dict[Any, Any]:
        """Return a copy of the stored values."""
        return copy.deepcopy(self._seen)

    def refuse(self, reason: str) -> None:
        """Note that a process has read the disk and stopped."""
        self.refusal = reason

    def refuses(self, error: Exception) -> bool:
        """No start fails because of damage."""
        return False

    def begin_trouble(self, kind: Kind, draw: int) -> DiskTrouble:
        """Begin trouble of this ``kind`` with the hardware."""
        self.trouble = DiskTrouble(kind, draw)
        return self.trouble

    def end_trouble(self) -> dict[str, Any]:
        """End the hardware trouble; return its effects."""
        trouble, self.trouble = self.trouble, None
        return trouble.evidence() if trouble is not None else {}


_ABSENT = object()
