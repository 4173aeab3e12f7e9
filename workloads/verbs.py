"""The meaning of the verbs of any workload, for stores that compare and set values by key.

A client reads the values of :func:`keys_of` an operation, and :func:`carry_out` returns what to
write. The client writes that if none of the values has changed since, else it begins again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.harness.client import Completion
from kraftwreck.histories.operation import FAIL, OK, Op
from kraftwreck.workloads.generic import ACCOUNTS, FIRST_BALANCE

VERBS: Final = (
    "read", "write", "cas", "add", "txn", "append", "enqueue", "dequeue", "drain", "acquire",
    "release", "transfer",
)  # fmt: skip
"""The verbs that :func:`carry_out` knows: those of all generic workloads."""
_READS: Final = ("r", "read")


class _RefusedError(Exception):
    """The state does not allow the operation."""


def keys_of(op: Op) -> list[Any]:
    """Return the keys of the objects that ``op`` reads or changes, each once."""
    return list(dict.fromkeys(key for _, key, _ in _parts(op)))


def carry_out(op: Op, values: Mapping[Any, Any]) -> tuple[dict[Any, Any], Completion]:
    """Return the values that ``op`` writes, by key, and how it ends once they are written.

    ``values`` has the present value of each of its keys, None for one that was never written. A
    plain ``write`` needs no values. Without values to write the completion holds at once: a read,
    or a refused operation (``fail``).
    """
    written: dict[Any, Any] = {}
    results = []
    try:
        for verb, key, value in _parts(op):
            old = written[key] if key in written else _present(key, values.get(key))
            new, result = _step(verb, key, value, old, op.process)
            if verb not in _READS:
                written[key] = new
            results.append(result)
    except _RefusedError as refused:
        return {}, Completion(FAIL, error=str(refused))
    if op.f != "txn":
        return written, Completion(OK, results[0])
    parts = [[part[0], part[1], result] for part, result in zip(op.value, results, strict=True)]
    return written, Completion(OK, parts)


def _parts(op: Op) -> list[list[Any]]:
    return list(op.value) if op.f == "txn" else [[op.f, op.key, op.value]]


def _present(key: Any, value: Any) -> Any:
    """Return the value of an object, which may never have been written."""
    if value is not None:
        return value
    if key == "bank":
        return {str(account): FIRST_BALANCE for account in range(ACCOUNTS)}
    return {"set": [], "queue": [], "counter": 0}.get(key)


def _step(verb: str, key: Any, value: Any, old: Any, process: int) -> tuple[Any, Any]:
    """Return the new value of ``key`` and the result of ``verb``."""
    if verb in _READS:
        return old, old
    if verb in ("w", "write"):
        return value, value
    if verb in ("append", "enqueue") or (verb, key) == ("add", "set"):
        return [*(old or ()), value], value
    if verb == "add":
        return old + value, value
    if verb == "dequeue":
        _require(bool(old), "the queue is empty")
        return old[1:], old[0]
    if verb == "drain":
        return [], old
    if verb == "transfer":
        return _transferred(old, **value), value
    expected, new = {"acquire": (None, process), "release": (process, None)}.get(verb) or value
    _require(old == expected, f"the value is {old}")
    return new, value


def _transferred(balances: Mapping[str, int], **by: Any) -> dict[str, int]:
    source, target, amount = str(by["from"]), str(by["to"]), int(by["amount"])
    _require(balances[source] >= amount, f"account {source} has only {balances[source]}")
    changes = {source: balances[source] - amount, target: balances[target] + amount}
    return {**balances, **changes}


def _require(allowed: bool, why: str) -> None:
    if not allowed:
        raise _RefusedError(why)
