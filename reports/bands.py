"""Faults as bands: each start event joined with its stop event. Times are microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraftwreck.histories.fault import FaultEvent


@dataclass
class Band:
    """A fault in force from ``start`` until ``end`` (None: until the end of the run)."""

    id: int
    kind: str
    shape: str
    targets: list[str]
    start: int
    end: int | None
    started: FaultEvent | None
    stopped: FaultEvent | None

    @property
    def errors(self) -> list[str]:
        """The errors while injecting or healing the fault."""
        return [e.error for e in (self.started, self.stopped) if e is not None and e.error]

    def as_json(self) -> dict[str, Any]:
        """Return the data for the page's charts."""
        return {
            "id": self.id,
            "kind": self.kind,
            "shape": self.shape,
            "targets": self.targets,
            "start": self.start,
            "end": self.end,
            "error": "; ".join(self.errors) or None,
        }


def join_faults(events: list[FaultEvent]) -> list[Band]:
    """Join start and stop events by id; return the bands ordered by start.

    A stop without a start (its line was lost) gives a band of zero length.
    """
    bands: dict[int, Band] = {}
    for event in events:
        band = bands.get(event.id)
        if band is None:
            band = bands[event.id] = Band(
                id=event.id,
                kind=event.kind,
                shape=event.shape,
                targets=event.targets,
                start=event.time // 1000,
                end=None,
                started=None,
                stopped=None,
            )
        if event.phase == "start":
            band.started = event
        else:
            band.stopped = event
            band.end = event.done // 1000
            band.targets = band.targets or event.targets
    return sorted(bands.values(), key=lambda band: (band.start, band.id))
