"""jepsen.tests.bank: money moves between accounts, and every read sees all of it.

Options: ``accounts`` (list), ``total-amount``, ``negative-balances?``. By default accounts and
amount are those of the first read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options
from kraftwreck.histories.events import Event
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import Anomaly


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Check the balances of every completed read."""
    accounts = options.get("accounts")
    known = None if accounts is None else {str(account) for account in accounts}
    total = options.get("total-amount")
    negative = bool(options.get("negative-balances?"))
    count = 0
    errors: dict[str, list[dict[str, Any]]] = {}
    anomalies = []
    stranger: Event | None = None
    for event in events:
        if event.f not in ("read", "transfer"):
            stranger = stranger or event
        if event.f != "read" or event.type != "ok":
            continue
        balances = _balances(event)
        count += 1
        if known is None:
            known = set(balances)
        if total is None:
            total = sum(b for b in balances.values() if b is not None)
        error = _wrong(balances, known, total, negative)
        if error is not None:
            error["op"] = {"op-index": event.index}
            errors.setdefault(error["type"], []).append(error)
            text = f"The read {event.index} {error.pop('text')}."
            anomalies.append(
                Anomaly(type=error["type"], explanation=text, operations=[event.index])
            )
    if stranger is not None and not count:
        raise HistoryError(
            f"{stranger.where()}: model bank has no operation {stranger.f!r}, and no read of "
            "balances is in this history"
        )
    firsts = [found[0] for found in errors.values()]
    result: dict[str, Any] = {
        "valid?": not errors,
        "read-count": count,
        "error-count": sum(map(len, errors.values())),
        "first-error": min(firsts, key=lambda e: e["op"]["op-index"], default=None),
        "errors": {kind: _summary(kind, found, total) for kind, found in errors.items()},
    }
    return Judgement(result=result, anomalies=anomalies)


def _balances(event: Event) -> dict[str, int | float | None]:
    value = event.value
    if not isinstance(value, dict):
        raise event.refuse("must be a map of accounts to balances")
    for balance in value.values():
        if balance is not None and (isinstance(balance, bool) or not isinstance(balance, int)):
            raise event.refuse("must be a map of accounts to whole numbers")
    return {str(account): balance for account, balance in value.items()}


def _wrong(
    balances: dict[str, int | float | None], known: set[str], total: Any, negative: bool
) -> dict[str, Any] | None:
    """Return the first fault, in Jepsen's order; ``text`` describes it."""
    strangers = sorted(set(balances) - known)
    if strangers:
        text = f"sees unknown accounts: {', '.join(strangers)}"
        return {"type": "unexpected-key", "unexpected": strangers, "text": text}
    nils = {account: None for account, balance in balances.items() if balance is None}
    if nils:
        text = f"sees no balance of {', '.join(nils)}"
        return {"type": "nil-balance", "nils": nils, "text": text}
    amounts = [balance for balance in balances.values() if balance is not None]
    if sum(amounts) != total:
        text = f"sees a total of {sum(amounts)}, not {total}"
        return {"type": "wrong-total", "total": sum(amounts), "text": text}
    below = [amount for amount in amounts if amount < 0]
    if below and not negative:
        text = f"sees balances below zero: {', '.join(map(str, below))}"
        return {"type": "negative-value", "negative": below, "text": text}
    return None


def _badness(error: dict[str, Any], total: Any) -> float:
    match error["type"]:
        case "unexpected-key":
            return len(error["unexpected"])
        case "nil-balance":
            return len(error["nils"])
        case "wrong-total":
            off: float = abs(error["total"] - total)
            return off
    return -float(sum(error["negative"]))


def _summary(kind: str, found: list[dict[str, Any]], total: Any) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "count": len(found),
        "first": found[0],
        "worst": max(found, key=lambda error: _badness(error, total)),
        "last": found[-1],
    }
    if kind == "wrong-total":
        summary["lowest"] = min(found, key=lambda error: error["total"])
        summary["highest"] = max(found, key=lambda error: error["total"])
    return summary
