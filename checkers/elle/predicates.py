"""Transactions with predicate reads over a closed universe of objects.

An ``init`` operation, whose value maps keys to values, makes the universe. Transactions
then hold ``["insert", k, v]``, ``["delete", k]``, ``["w", k, v]``, ``["r", k, v]`` and
``["rp", p, {k: v, …}]``, where the predicate p is ``"true"``, ``["=", v]`` or ``["mod", m, r]``.
A predicate read selects a version of every object. The version of an object that it returned is
known; that of another object is known only if exactly one version does not match.

Source: Adya (1999), section 4.4.2 on predicate dependencies; elle.closed-predicate, whose
choices where the version is in doubt are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kraftwreck.checkers.elle.graph import RW, RWP, WR, WRP, WW
from kraftwreck.checkers.elle.transactions import (
    FAIL,
    INVOKE,
    KINDS,
    OK,
    Events,
    Ints,
    MicroOps,
    TransactionError,
    Transactions,
    pair,
)
from kraftwreck.histories.operation import Op

NAME = "closed-predicate"
Parts = list[tuple[Ints, Ints, int]]
_WRITES = ("insert", "delete", "w")


class _State:
    """The state of an object before it is inserted, or after it is deleted."""

    def __init__(self, name: str) -> None:
        self.name = name


UNBORN, DEAD = _State("unborn"), _State("dead")


def _key(key: Any) -> Any:
    # The keys of a JSON map are strings, whatever they are elsewhere.
    return int(key) if isinstance(key, str) and key.lstrip("-").isdigit() else key


def matches(predicate: Any, version: Any) -> bool:
    """Return whether a version satisfies a predicate. Raises :class:`TransactionError`."""
    if isinstance(version, _State):
        return False
    if predicate in ("true", True):
        return True
    if isinstance(predicate, list | tuple) and predicate:
        if predicate[0] == "=" and len(predicate) == 2:
            return bool(version == predicate[1])
        if predicate[0] == "mod" and len(predicate) == 3:
            return bool(version % predicate[1] == predicate[2])
    raise TransactionError(f"no predicate is written {predicate!r}")


class Universe:
    """The versions of every object in order, their writers, and the resulting edges between
    transactions."""

    def __init__(self, history: Sequence[Op]) -> None:
        self._history = history
        self.transactions = _transactions(history)
        kind = self.transactions.events.kind
        possible = (kind != INVOKE) & (kind != FAIL)
        self._possible = np.flatnonzero(possible).tolist()
        self._ok = np.flatnonzero(kind == OK).tolist()
        self.versions: dict[Any, list[Any]] = {}
        self._writer: dict[tuple[Any, Any], int] = {}
        for event in self._possible:
            self._take_versions(event)
        for event in self._possible:
            for key, value in self._written(event).items():
                if self._writer.setdefault((key, value), event) != event:
                    index = history[event].index
                    raise TransactionError(
                        f"operation {index} writes {_shown(value)!r} to key {key!r}, as another did"
                    )
        self._steps: dict[tuple[int, int, int], dict[str, Any]] = {}

    def _mops(self, event: int) -> list[Any]:
        value = self._history[event].value
        return [] if self._history[event].f == "init" else list(value or ())

    def _take_versions(self, event: int) -> None:
        if self._history[event].f == "init":
            value = self._history[event].value or {}
            self.versions = {_key(key): [item] for key, item in value.items()}
            return
        for mop in self._mops(event):
            if mop[0] in _WRITES:
                item = DEAD if mop[0] == "delete" else mop[2]
                self.versions.setdefault(_key(mop[1]), [UNBORN]).append(item)

    def _written(self, event: int) -> dict[Any, Any]:
        """Return a transaction's final writes, by key."""
        if self._history[event].f == "init":
            return {_key(key): item for key, item in (self._history[event].value or {}).items()}
        return {
            _key(mop[1]): DEAD if mop[0] == "delete" else mop[2]
            for mop in self._mops(event)
            if mop[0] in _WRITES
        }

    def _resolved(self, key: Any, value: Any) -> Any:
        """Return the version that was read; None where a null may be either state."""
        if value is not None:
            return value
        versions = self.versions.get(key, [])
        born_here = bool(versions) and versions[0] is UNBORN
        dead = bool(versions) and versions[-1] is DEAD
        if born_here and dead:
            return None
        return DEAD if dead else UNBORN

    def _after(self, key: Any, version: Any) -> list[Any]:
        versions = self.versions.get(key, [])
        return versions[versions.index(version) + 1 :] if version in versions else []

    def _selected(self, predicate: Any, seen: dict[Any, Any]) -> dict[Any, Any]:
        """Return the versions that a predicate read certainly selected."""
        found = dict(seen)
        for key, versions in self.versions.items():
            if key not in found:
                left = [item for item in versions if not matches(predicate, item)]
                if len(left) <= 1:
                    found[key] = left[0] if left else UNBORN
        return found

    def _reads(self, event: int) -> Iterator[tuple[int, Any, Any]]:
        """Yield (place, key, version) of a transaction's reads of objects."""
        for place, mop in enumerate(self._mops(event)):
            if mop[0] == "r":
                key = _key(mop[1])
                yield place, key, self._resolved(key, mop[2] if len(mop) > 2 else None)

    def _predicate_reads(self, event: int) -> Iterator[tuple[int, Any, dict[Any, Any]]]:
        """Yield (place, predicate, result) of a transaction's predicate reads."""
        for place, mop in enumerate(self._mops(event)):
            if mop[0] == "rp":
                seen = mop[2] if len(mop) > 2 else None
                yield place, mop[1], {_key(key): item for key, item in (seen or {}).items()}

    def edges(self) -> Parts:
        """Return all dependencies between transactions."""
        for event in self._possible:
            for key, value in self._written(event).items():
                versions = self.versions.get(key, [])
                at = versions.index(value) if value in versions else 0
                if at > 0 and self._history[event].f != "init":
                    self._link(self._writer.get((key, versions[at - 1])), event, WW, key,
                               versions[at - 1], value)  # fmt: skip
        for event in self._ok:
            for place, key, version in self._reads(event):
                self._link(self._writer.get((key, version)), event, WR, key, version, None, place)
                after = self._after(key, version)[:1]
                if version is UNBORN and not after:
                    after = self.versions.get(key, [])[:1]
                for item in after:
                    self._link(event, self._writer.get((key, item)), RW, key, version, item, place)
            for place, predicate, seen in self._predicate_reads(event):
                for key, version in self._selected(predicate, seen).items():
                    writer = self._writer.get((key, version))
                    self._link(writer, event, WRP, key, version, None, place)
                    for item in self._after(key, version):
                        if matches(predicate, version) != matches(predicate, item):
                            writer = self._writer.get((key, item))
                            self._link(event, writer, RWP, key, version, item, place)
        kinds = sorted({kind for _, _, kind in self._steps})
        return [
            (
                np.array([a for a, _, k in self._steps if k == kind], dtype=np.int64),
                np.array([b for _, b, k in self._steps if k == kind], dtype=np.int64),
                kind,
            )
            for kind in kinds
        ]

    def _link(
        self,
        source: int | None,
        target: int | None,
        kind: int,
        key: Any,
        before: Any,
        after: Any,
        place: int | None = None,
    ) -> None:
        if source is None or target is None or source == target:
            return
        reader_first = kind in (RW, RWP)
        first = place if reader_first else self._place(source, key, before)
        second = self._place(target, key, after) if kind in (WW, RW, RWP) else place
        step: dict[str, Any] = {
            "type": {WW: "ww", WR: "wr", WRP: "wrp", RW: "rw", RWP: "rwp"}[kind],
            "key": key,
            "value": _shown(before),
        }
        if kind in (WW, RW, RWP):
            step["value'"] = _shown(after)
        if kind in (WRP, RWP):
            reader = source if reader_first else target
            step["predicate-read"] = self._mops(reader)[place or 0]
        if kind == RWP:
            step["predicate?"] = True
        step |= {"a-mop-index": first, "b-mop-index": second}
        self._steps.setdefault((source, target, kind), step)

    def _place(self, event: int, key: Any, value: Any) -> int:
        """Return where a transaction wrote a version; 0 in ``init``."""
        for place, mop in enumerate(self._mops(event)):
            if mop[0] not in _WRITES or _key(mop[1]) != key:
                continue
            if (DEAD if mop[0] == "delete" else mop[2]) == value:
                return place
        return 0

    def misses(self) -> list[dict[str, Any]]:
        """Return predicate reads that left out an object of which every version matches."""
        return [
            {
                "op": self.transactions.op(event),
                "mop": self._mops(event)[place],
                "key": key,
                "versions": [_shown(item) for item in versions],
            }
            for event in self._ok
            for place, predicate, seen in self._predicate_reads(event)
            for key, versions in self.versions.items()
            if key not in seen and all(matches(predicate, item) for item in versions)
        ]

    def dirty_reads(self) -> dict[str, list[dict[str, Any]]]:
        """Return committed reads, of objects or by predicates, of values that no state may hold.

        G1a: only transactions that aborted wrote the value. G1b: its transaction wrote the object
        again later. Source: Adya (1999), section 4.2.3; the cases are as in elle.rw-register.
        """
        kind = self.transactions.events.kind
        aborted = self._values(np.flatnonzero(kind == FAIL).tolist())
        passing = self._values(self._possible)
        final = set(self._writer)
        found: dict[str, list[dict[str, Any]]] = {"G1a": [], "G1b": []}
        for event in self._ok:
            for place, key, value in self._seen(event):
                if (key, value) in final:
                    continue
                writer, name = passing.get((key, value)), "G1b"
                if writer is None:
                    writer, name = aborted.get((key, value)), "G1a"
                if writer is not None and writer != event:
                    found[name].append(
                        {
                            "op": self.transactions.op(event),
                            "mop": self._mops(event)[place],
                            "writer": self.transactions.op(writer),
                        }
                    )
        return {name: cases for name, cases in found.items() if cases}

    def _values(self, events: list[int]) -> dict[tuple[Any, Any], int]:
        """Return the writers of all values that ``events`` wrote, intermediate ones too."""
        return {
            (_key(mop[1]), mop[2]): event
            for event in events
            for mop in self._mops(event)
            if mop[0] in _WRITES and len(mop) > 2
        }

    def _seen(self, event: int) -> Iterator[tuple[int, Any, Any]]:
        """Yield (place, key, value) of everything that a transaction read."""
        for place, key, version in self._reads(event):
            if version is not None and not isinstance(version, _State):
                yield place, key, version
        for place, _, seen in self._predicate_reads(event):
            for key, value in seen.items():
                yield place, key, value

    def explain(self, source: int, target: int, kind: int) -> dict[str, Any] | None:
        """Return Elle's step of the given kind between two events, or None."""
        return self._steps.get((source, target, kind))


def _shown(version: Any) -> Any:
    return version.name if isinstance(version, _State) else version


def _transactions(history: Sequence[Op]) -> Transactions:
    def show(at: int) -> tuple[Any, Any]:
        return history[at].f, history[at].value

    for op in history:
        if op.f == "init":
            if op.value is not None and not isinstance(op.value, dict):
                raise TransactionError(f"operation {op.index}: init maps keys to values")
            continue
        for mop in op.value or ():
            named = isinstance(mop, list | tuple) and len(mop) >= 2
            if not named or mop[0] not in (*_WRITES, "r", "rp"):
                raise TransactionError(f"operation {op.index}: no micro-operation is {mop!r}")
    none = np.zeros(0, dtype=np.int64)
    events = Events(
        index=np.array([op.index for op in history], dtype=np.int64),
        process=np.array([op.process for op in history], dtype=np.int64),
        time=np.array([op.time for op in history], dtype=np.int64),
        kind=np.array([KINDS.index(op.type) for op in history], dtype=np.int64),
        show=show,
    )
    return pair(events, MicroOps(none, none, none, none, none, none, none), [int, int])
