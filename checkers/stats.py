"""Number of operations by kind and outcome. Source: jepsen.checker ``stats``.

Jepsen calls a run invalid when some kind of operation never succeeded. Here that is
``unknown``: nothing was found wrong, but that kind was not tested. If ``test.json`` lists
``owed`` kinds, only these must succeed. A workload may request operations that succeed only in
rare states, such as cancelling a reassignment, and a refusal is a test as well.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import FAIL, INFO, OK
from kraftwreck.histories.verdict import CheckerResult


def check(run: RunData) -> CheckerResult:
    """Valid iff every required kind of operation succeeded at least once."""
    by_f: dict[str, dict[str, int]] = {}
    for call in run.calls:
        counts = by_f.setdefault(call.f, {OK: 0, FAIL: 0, INFO: 0})
        counts[call.type] += 1
    table: dict[str, Any] = {f: _with_rate(counts) for f, counts in sorted(by_f.items())}
    total = {kind: sum(counts[kind] for counts in by_f.values()) for kind in (OK, FAIL, INFO)}
    never = [f for f, counts in sorted(by_f.items()) if counts[OK] == 0]
    owed = run.test.get("owed")
    missed = [f for f in never if owed is None or f in owed]
    error = None
    if not by_f:
        error = "no operation was invoked"
    elif missed:
        error = f"never succeeded, so not tested: {', '.join(missed)}"
        if common := _errors([call for call in run.calls if call.f in missed]):
            error += f"; the most frequent error: {next(iter(common))}"
    return CheckerResult(
        valid="unknown" if error else True,
        stats={**_with_rate(total), "by_f": table, "never": never, "errors": _errors(run.calls)},
        error=error,
    )


def _with_rate(counts: dict[str, int]) -> dict[str, Any]:
    count = sum(counts.values())
    return {"count": count, **counts, "ok_rate": round(counts[OK] / count, 4) if count else None}


def _errors(calls: list[Call]) -> dict[str, int]:
    """Return the ten most frequent errors."""
    errors = Counter(call.error for call in calls if call.error is not None)
    return dict(sorted(errors.items(), key=lambda item: (-item[1], item[0]))[:10])
