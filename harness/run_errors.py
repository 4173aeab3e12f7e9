"""Errors of a run, kept as objects until they are printed; a lost host gives a single line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kraftwreck.harness.remote.errors import RemoteError, UnreachableError


@dataclass(frozen=True, slots=True)
class Trouble:
    """One error.

    ``text`` is a line for people. ``lost`` are the unreachable hosts with the error of each; it is
    empty if anything else failed, too. ``phase`` is the phase of the run.
    """

    text: str
    lost: Mapping[str, str] = field(default_factory=dict)
    phase: str = ""

    @classmethod
    def of(cls, error: Exception, text: str, phase: str = "") -> Trouble:
        """Return ``error`` as a trouble with this ``text``."""
        return cls(text, lost_hosts(error), phase)

    @classmethod
    def together(cls, troubles: Sequence[Trouble], text: str) -> Trouble:
        """Return several troubles as one."""
        only_lost = all(each.lost for each in troubles)
        lost = {host: said for each in troubles for host, said in each.lost.items()}
        return cls(text, lost if only_lost else {})

    def during(self, phase: str) -> Trouble:
        """Return the same trouble in a phase of the run."""
        return Trouble(self.text, self.lost, phase)

    def __str__(self) -> str:
        return f"{self.phase}: {self.text}" if self.phase else self.text


def lost_hosts(error: Exception) -> dict[str, str]:
    """Return the unreachable hosts, and why, if ``error`` is about nothing else."""
    parts = error.parts if isinstance(error, RemoteError) else ()
    if not all(isinstance(part, UnreachableError) for part in parts):
        return {}
    return {part.host: part.said for part in parts}


def merge(troubles: Iterable[Trouble]) -> list[str]:
    """Return ``troubles`` as lines, with a single line for every unreachable host.

    That line is at the host's first trouble, and counts them. A trouble with other causes stays as
    it is.
    """
    lines: list[str] = []
    places: dict[str, tuple[int, str, list[str]]] = {}
    for trouble in troubles:
        if not trouble.lost:
            lines.append(str(trouble))
        for host, said in trouble.lost.items():
            if host not in places:
                places[host] = (len(lines), said, [])
                lines.append("")
            places[host][2].append(trouble.phase)
    for host, (place, said, phases) in places.items():
        where = ", ".join(dict.fromkeys(phases))
        lines[place] = f"{host}: {said} ({len(phases)} times: {where})"
    return lines
