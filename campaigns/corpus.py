"""Schedules worth keeping: each reached a state that no earlier run had reached.

A corpus is a folder with one JSON file for each kept run, named by its content, and
``coverage.json``, the counters of all runs made with it.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated.store import options_of
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.system_name import system_of
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nemesis.coverage import Counts, Coverage
from kraftwreck.nemesis.coverage import load as load_coverage
from kraftwreck.nemesis.coverage import store as store_coverage
from kraftwreck.nodes.draw import draw_below
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.simulators import simulator

COVERAGE = "coverage.json"


class Entry(msgspec.Struct, kw_only=True, frozen=True):
    """One run, with everything needed to run it again: ``options`` as in ``test.json``, the
    ``knobs`` of the simulated world, and the ``schedule``. ``source`` names its generator;
    ``reached`` counts, by counter, the states that it was the first to reach."""

    options: dict[str, Any]
    knobs: WorldKnobs
    schedule: list[Fault]
    source: str
    reached: Counts

    @property
    def name(self) -> str:
        """The name of its file; equal runs have equal names."""
        content = msgspec.json.encode([self.options, self.knobs, self.schedule])
        return blake2b(content, digest_size=8).hexdigest() + ".json"

    def run_options(self, store: Path) -> RunOptions:
        """Return the options with which to run it; its run folder is below ``store``."""
        return options_of({**self.options, "store": str(store)})


class Corpus:
    """The kept runs in ``folder``, oldest first, and the ``counted`` coverage of all runs."""

    def __init__(self, folder: Path) -> None:
        """Read the folder, which may be missing. Raises :class:`OptionError`, with the name of the
        file, if it cannot be used."""
        self.folder = folder
        self.entries: list[Entry] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = [path for path in sorted(folder.glob("*.json")) if path.name != COVERAGE]
            for path in files:
                self.entries.append(_read(path))
        except OSError as error:
            raise OptionError(f"{folder}: {error.strerror}; pass a directory") from error
        self.counted: Coverage = load_coverage(folder / COVERAGE)
        self._names = {path.name for path in files}

    def add(self, entry: Entry) -> None:
        """Keep ``entry``, unless there is an equal one. Raises :class:`OptionError`."""
        if entry.name in self._names:
            return
        path = self.folder / entry.name
        new = path.with_suffix(".new")
        try:
            new.write_bytes(msgspec.json.encode(entry) + b"\n")
            new.replace(path)
        except OSError as error:
            raise OptionError(f"{path}: {error.strerror}") from error
        self._names.add(entry.name)
        self.entries.append(entry)

    def save(self) -> None:
        """Write the counters. Raises :class:`OptionError`."""
        store_coverage(self.folder / COVERAGE, self.counted)

    def choose(self, seed: int, *key: object) -> Entry | None:
        """Return an entry, newer ones more often; None if the corpus is empty."""
        if not self.entries:
            return None
        count = len(self.entries)
        place = draw_below(count, seed, *key, "entry")
        if draw_below(2, seed, *key, "young"):
            place = count - 1 - place // 2
        return self.entries[place]


class _Stored(msgspec.Struct, kw_only=True):
    """An entry whose settings are of a type that the system decides."""

    options: dict[str, Any]
    knobs: msgspec.Raw
    schedule: list[Fault]
    source: str
    reached: Counts


def _read(path: Path) -> Entry:
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
        kind = simulator(system_of(stored.options)).knobs
        return Entry(
            options=stored.options,
            knobs=msgspec.json.decode(stored.knobs, type=kind),
            schedule=stored.schedule,
            source=stored.source,
            reached=stored.reached,
        )
    except UNDECODABLE as error:
        reason = " ".join(str(error).split())
        raise OptionError(f"{path}: not an entry of a corpus: {reason}") from error
