"""Two judges of one history: ours, and the real Elle where ``KRAFTWRECK_ELLE`` names one.

It concerns transactions on lists on systems that nobody here wrote. A difference between the two
is a defect of one of them, so it proves nothing about the system: the run is ``unknown``, and both
results say what each engine found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.checkers.elle.binding import VARIABLE, ElleError, ElleMissingError, check_with_elle
from kraftwreck.checkers.elle.check import Options
from kraftwreck.checkers.modelled import by_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.verdict import WORDS, CheckerResult, Verdict

LISTS: Final = "list-append"
OURS: Final = by_model(LISTS)
ELLES: Final = "elle/list-append"
"""The name of Elle's result among those of the checkers."""


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
