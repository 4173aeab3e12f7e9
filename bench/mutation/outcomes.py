"""The outcomes of mutants, which hold as long as the code of their functions stays the same.

They are in a text file with a line for each function: its file, its name, the digest of its code,
and a word for each mutant: ``+`` if it was killed, ``-`` if it survived, and the digest of the
mutant. A constant outside of functions has a line of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from bench.mutation.places import Mutant

Place = tuple[str, str, str]
"""A file, a function in it (its scope), and the digest of its code."""


def digest(text: str) -> str:
    """Return a short name of ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _place(mutant: Mutant) -> Place:
    return mutant.path, mutant.scope or "module", mutant.code


class Outcomes:
    """Whether each of the ``mutants`` that exist was killed; ``path`` is the file.

    Lines of other code are dropped when the file is written. Another session may write to the file
    meanwhile: its outcomes are kept.
    """

    def __init__(self, path: Path, mutants: Iterable[Mutant]) -> None:
        self._path = path
        self._known: dict[Place, dict[str, bool]] = {}
        self._names = {mutant.key: (_place(mutant), digest(mutant.key)) for mutant in mutants}
        self._read()

    def _read(self) -> None:
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            file, scope, code, *words = line.split(" ")
            self._known[file, scope, code] = {word[1:]: word[0] == "+" for word in words}

    def of(self, key: str) -> bool | None:
        """Return whether the mutant ``key`` was killed; None if its code was never tried."""
        place, name = self._names[key]
        return self._known.get(place, {}).get(name)

    def note(self, key: str, killed: bool) -> None:
        """Write down an outcome."""
        self._read()
        place, name = self._names[key]
        self._known.setdefault(place, {})[name] = killed
        self.write()

    def write(self) -> None:
        """Write the file, in the order of its names."""
        there: dict[Place, set[str]] = {}
        for place, name in self._names.values():
            there.setdefault(place, set()).add(name)
        lines = []
        for place, outcomes in sorted(self._known.items()):
            kept = sorted(outcomes.keys() & there.get(place, set()))
            if kept:
                words = [f"{'+' if outcomes[name] else '-'}{name}" for name in kept]
                lines.append(" ".join((*place, *words)))
        self._path.write_text("\n".join([*lines, ""]))
