"""Two judges of one history: ours, and the real Elle where ``KRAFTWRECK_ELLE`` names one.

It concerns transactions on lists on systems that nobody here wrote. A difference between the two
is a defect of one of them, so it proves nothing about the system: the run is ``unknown``, and both
results say what each engine found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kraftwreck.checkers.elle.binding import VARIABLE, ElleError, ElleMissingError, check_with_elle
from kraftwreck.checkers.elle.check import Options
from kraftwreck.checkers.modelled import by_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import WORDS, CheckerResult, Verdict

LISTS: Final = "list-append"
OURS: Final = by_model(LISTS)
ELLES: Final = "elle/list-append"
"""The name of Elle's result among those of the checkers."""


TRIAL: Final = (
    Op(index=0, process=0, type="invoke", f="txn", value=[["append", "x", 1]], time=0),
    Op(index=1, process=0, type="ok", f="txn", value=[["append", "x", 1]], time=1),
    Op(index=2, process=1, type="invoke", f="txn", value=[["r", "x", None]], time=2),
    Op(index=3, process=1, type="ok", f="txn", value=[["r", "x", [1]]], time=3),
)
"""A valid history. A program that does not call it so is no Elle, or does not run."""


def require_elle(system: object, checkers: Sequence[str]) -> None:
    """Try the second judge of a run of ``system`` on hosts, if it will have one.

    Raises :class:`~harness.options.OptionError` if ``KRAFTWRECK_ELLE`` does not name an Elle.
    """
    if OURS not in checkers or not wanted({"simulated": False}, system):
        return
    try:
        found = check_with_elle(TRIAL, LISTS, Options())
    except (ElleMissingError, ElleError) as error:
        raise OptionError(f"{VARIABLE}: {' '.join(str(error).split())}; unset it") from None
    if found.valid is not True:
        answer = _answer(found)
        raise OptionError(f"{VARIABLE}: it calls a valid history {answer}; name Elle, or unset it")


def wanted(test: Mapping[str, Any], system: object) -> bool:
    """Return whether Elle judges runs of ``system`` too: it is foreign, and ran on hosts."""
    own = getattr(system, "replayable", False) or test.get("simulated") is not False
    return bool(os.environ.get(VARIABLE)) and not own


def with_elle(data: RunData, verdict: Verdict) -> Verdict:
    """Return ``verdict`` with Elle's result, if the run was judged as transactions on lists."""
    ours = verdict.checkers.get(OURS)
    if ours is None:
        return verdict
    try:
        elles = check_with_elle(list(data.ops), LISTS, Options())
    except (ElleMissingError, ElleError) as error:
        elles = CheckerResult(valid="unknown", error=f"{type(error).__name__}: {error}")
    if ours.valid != elles.valid:
        text = f"the engines differ. kraftwreck: {_answer(ours)}. Elle: {_answer(elles)}."
        for result in (ours, elles):
            result.valid, result.error = "unknown", text
    return Verdict.of({**verdict.checkers, ELLES: elles})


def _answer(result: CheckerResult) -> str:
    """Return what an engine found, in a few words."""
    kinds = ", ".join(dict.fromkeys(anomaly.type for anomaly in result.anomalies))
    why = kinds or result.error or ""
    return f"{WORDS[result.valid]} ({why})" if why else WORDS[result.valid]
