"""The sends and polls of one operation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

from kraftwreck.checkers.linearizability.models import freeze
from kraftwreck.histories.events import Event

Pair = tuple[int | None, Hashable]
"""An offset (None if unknown) and a value."""
CALLS = frozenset({"poll", "send", "txn"})


class Operation(msgspec.Struct, gc=False):
    """An event with its micro-operations read.

    ``writes`` and ``reads`` map keys to the pairs sent and polled, in order. ``moves`` has
    every send and poll as (position of the micro-operation, is a send, key, pair).
    ``keys`` are those of ``assign`` and ``subscribe``. ``rebalanced`` are the keys that
    the client's rebalance log names.
    """

    event: Event
    number: int
    type: str
    f: str
    writes: dict[str, list[Pair]]
    reads: dict[str, list[Pair]]
    moves: list[tuple[int, bool, str, Pair]]
    keys: frozenset[str]
    rebalanced: frozenset[str]

    @property
    def name(self) -> dict[str, int]:
        """The operation's name in results."""
        return {"op-index": self.event.index}


def key_text(key: Any) -> str:
    """Return a key as text: JSON maps have no other keys, so 11 and "11" are one key."""
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


def read_operations(events: Iterable[Event]) -> list[Operation]:
    """Return every event as an operation. Raises HistoryError for values of other shapes."""
    return [_read(event, number) for number, event in enumerate(events)]


def _read(event: Event, number: int) -> Operation:
    operation = Operation(event, number, event.type, event.f, {}, {}, [], frozenset(), frozenset())
    if event.f in CALLS:
        _micro(event, operation)
    elif event.f in ("assign", "subscribe") and isinstance(event.value, list):
        operation.keys = frozenset(map(key_text, event.value))
    log = event.fields.get("rebalance-log") if event.fields else None
    if isinstance(log, list):
        operation.rebalanced = frozenset(
            key_text(key)
            for entry in log
            if isinstance(entry, dict)
            for key in entry.get("keys") or []
        )
    return operation


def _micro(event: Event, operation: Operation) -> None:
    if event.value is None:
        return
    if not isinstance(event.value, list):
        raise event.refuse("must be a list of sends and polls")
    for position, mop in enumerate(event.value):
        match mop:
            case ["send", key, value]:
                pair = _pair(event, value) if isinstance(value, list) else (None, freeze(value))
                if event.f != "poll":
                    _note(operation, position, True, key_text(key), pair)
            case ["poll"] | ["poll", None]:
                continue
            case ["poll", dict() as polled]:
                if event.f == "send":
                    continue
                for key, entries in polled.items():
                    operation.reads.setdefault(key_text(key), [])
                    for entry in entries or []:
                        _note(operation, position, False, key_text(key), _pair(event, entry))
            case _:
                raise event.refuse('must be a list of ["send", k, v] and ["poll", {…}]')


def _pair(event: Event, entry: Any) -> Pair:
    match entry:
        case [int() | None as offset, value] if not isinstance(offset, bool):
            return (offset, freeze(value))
    raise event.refuse("must hold pairs [offset, value]")


def _note(operation: Operation, position: int, send: bool, key: str, pair: Pair) -> None:
    (operation.writes if send else operation.reads).setdefault(key, []).append(pair)
    operation.moves.append((position, send, key, pair))
