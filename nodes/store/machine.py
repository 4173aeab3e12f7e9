"""The replicated state of the store: values by key, changed by one command at a time."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Iterable, MutableMapping
from typing import Any, Final

Command = dict[str, Any]
COUNTER: Final = "counter"
"""``add`` adds to the number at this key, and appends to the list at any other."""
_SUMS: Final = frozenset((COUNTER,))
COMMANDS: Final = frozenset(("write", "cas", "add", "txn"))
"""The requests that change the state: all but ``read``."""


def encode(command: Command) -> bytes:
    """Return the record of a command."""
    return json.dumps(command, separators=(",", ":"), sort_keys=True).encode()


class Store:
    """A :class:`~nodes.consensus.embedded.StateMachine`. Keys are texts, values are JSON.

    Commands: ``write`` (key, value), ``cas`` (key, old, new), ``add`` (key, value), and ``txn``
    (ops: lists of ``r``, ``w`` or ``append``, a key and a value).
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def apply(self, offset: int, record: bytes) -> dict[str, Any]:
        """Apply a committed command and return its answer: ``ok``, and ``value`` of a ``txn``.

        A command that lacks a field, or does not fit the present values, changes nothing.
        """
        command = json.loads(record)
        changes = ChainMap[str, Any]({}, self.values)
        try:
            answer = _carried_out(command, changes)
        except (KeyError, TypeError, ValueError):
            return {"ok": False, "error": f"cannot carry out this {command['do']}"}
        self.values.update(changes.maps[0])
        return answer

    def read(self, key: str) -> Any:
        """Return the value of ``key``; None, or 0 for a counter, if there is none."""
        return self.values.get(key, 0 if key in _SUMS else None)

    def snapshot(self) -> Iterable[bytes]:
        """Return a record for each key."""
        for key, value in sorted(self.values.items()):
            yield json.dumps([key, value], separators=(",", ":")).encode()

    def restore(self, records: Iterable[bytes]) -> None:
        """Restore the state of a snapshot."""
        self.values = dict(json.loads(record) for record in records)


def _carried_out(command: Command, values: MutableMapping[str, Any]) -> dict[str, Any]:
    """Change ``values`` and return the answer. Raises KeyError, TypeError or ValueError."""
    if command["do"] == "txn":
        return {"ok": True, "value": [_part(values, *part) for part in command["ops"]]}
    key = str(command["key"])
    match command["do"]:
        case "write":
            values[key] = command["value"]
        case "cas":
            old, new = command["old"], command["new"]
            if values.get(key) != old:
                return {"ok": False, "error": "another value"}
            values[key] = new
        case "add":
            new = command["value"]
            if key in _SUMS:
                values[key] = values.get(key, 0) + new
            else:
                values[key] = [*(values.get(key) or ()), new]
    return {"ok": True}


def _part(values: MutableMapping[str, Any], kind: str, key: Any, value: Any) -> list[Any]:
    name = str(key)
    if kind == "append":
        values[name] = [*values.get(name, ()), value]
    elif kind == "w":
        values[name] = value
    else:
        value = values.get(name)
    return [kind, key, value]
