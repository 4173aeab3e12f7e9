"""Verdicts (valid, invalid or unknown), and how they are merged.

Source: jepsen.checker ``merge-valid``: true < unknown < false.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

Validity = bool | Literal["unknown"]

WORDS: dict[Validity, str] = {True: "valid", False: "INVALID", "unknown": "unknown"}
"""Verdicts in words, for terminals and summaries."""

NOT_CHECKED = "not checked"
"""The status of a rule that a run has no evidence for."""

_RANK: dict[Validity, int] = {True: 0, "unknown": 1, False: 2}


def merge_valid(values: Iterable[Validity]) -> Validity:
    """Return the worst of ``values``; True for none at all."""
    worst: Validity = True
    for value in values:
        if _RANK[value] > _RANK[worst]:
            worst = value
    return worst


class Anomaly(msgspec.Struct, kw_only=True):
    """One violation.

    ``type`` is the standard name or the invariant's id (``I1``), ``explanation`` one or two plain
    sentences. ``operations`` are the indices of the history that prove it, ``events`` the trace
    events that do (as dicts). ``time`` is when it was detected, in microseconds since the start of
    the test, if no operation or event gives the time.
    """

    type: str
    explanation: str
    operations: list[int] = []
    events: list[dict[str, Any]] = []
    time: int | None = None


class Suspicion(Anomaly, kw_only=True):
    """A finding that proves nothing: it depends on a limit in real time.

    ``why`` is a sentence on what else than a bug exceeds that limit. A suspicion never makes a run
    invalid.
    """

    why: str


class CheckerResult(msgspec.Struct, kw_only=True):
    """The result of one checker. ``stats`` are numbers for people, never part of the verdict.

    A checker with rules has the "status" of each, by id, in ``stats["invariants"]``.
    """

    valid: Validity
    anomalies: list[Anomaly] = []
    suspicions: list[Suspicion] = []
    stats: dict[str, Any] = {}
    error: str | None = None

    @property
    def unchecked(self) -> set[str]:
        """The ids of the rules that are :data:`NOT_CHECKED`."""
        rules = self.stats.get("invariants")
        if not isinstance(rules, dict):
            return set()
        return {
            rule
            for rule, known in rules.items()
            if isinstance(known, dict) and known.get("status") == NOT_CHECKED
        }


class Verdict(msgspec.Struct, kw_only=True):
    """The results of all checkers of a run; ``valid`` merges them."""

    valid: Validity
    checkers: dict[str, CheckerResult]

    @classmethod
    def of(cls, checkers: dict[str, CheckerResult]) -> Verdict:
        """Merge ``checkers`` into one verdict."""
        return cls(valid=merge_valid(c.valid for c in checkers.values()), checkers=checkers)

    @property
    def suspected(self) -> dict[str, int]:
        """The number of suspicions by ``checker: type``."""
        counts: dict[str, int] = {}
        for name, result in self.checkers.items():
            for suspicion in result.suspicions:
                rule = f"{name}: {suspicion.type}"
                counts[rule] = counts.get(rule, 0) + 1
        return counts

    @property
    def in_words(self) -> str:
        """The verdict with its suspicions: ``valid, 2 suspicions: invariants: L11``."""
        word, suspected = WORDS[self.valid], self.suspected
        if not suspected:
            return word
        count = sum(suspected.values())
        return f"{word}, {count} suspicion{'' if count == 1 else 's'}: {', '.join(suspected)}"


def stored_verdict(folder: Path) -> Verdict:
    """Return the verdict in ``results.json`` of a run's folder.

    Raises OSError, and one of :data:`histories.undecodable.UNDECODABLE` for another content.
    """
    return msgspec.json.decode((folder / "results.json").read_bytes(), type=Verdict)
