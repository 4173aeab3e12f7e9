"""Verdicts (valid, invalid or unknown), and how they are merged.

Source: jepsen.checker ``merge-valid``: true < unknown < false.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Validity = bool | Literal["unknown"]

WORDS: dict[Validity, str] = {True: "valid", False: "INVALID", "unknown": "unknown"}
"""Verdicts in words, for terminals and summaries."""

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


class CheckerResult(msgspec.Struct, kw_only=True):
    """The result of one checker. ``stats`` are numbers for people, never part of the verdict."""

    valid: Validity
    anomalies: list[Anomaly] = []
    stats: dict[str, Any] = {}
    error: str | None = None


class Verdict(msgspec.Struct, kw_only=True):
    """The results of all checkers of a run; ``valid`` merges them."""

    valid: Validity
    checkers: dict[str, CheckerResult]

    @classmethod
    def of(cls, checkers: dict[str, CheckerResult]) -> Verdict:
        """Merge ``checkers`` into one verdict."""
        return cls(valid=merge_valid(c.valid for c in checkers.values()), checkers=checkers)
