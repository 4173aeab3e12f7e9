"""The replicated state of the store: values by key, changed by one command at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
        """Apply a committed command and return its answer: ``ok``, and ``value`` of a ``txn``."""
        command = json.loads(record)
        key = str(command.get("key"))
        match command["do"]:
            case "write":
                self.values[key] = command["value"]
            case "cas":
                if self.values.get(key) != command["old"]:
                    return {"ok": False, "error": "another value"}
                self.values[key] = command["new"]
            case "add":
                before = self.read(key)
                new = command["value"]
                self.values[key] = before + new if key in _SUMS else [*(before or ()), new]
            case "txn":
                return {"ok": True, "value": [self._part(*part) for part in command["ops"]]}
        return {"ok": True}

    def _part(self, kind: str, key: Any, value: Any) -> list[Any]:
        name = str(key)
        if kind == "append":
            self.values[name] = [*self.values.get(name, ()), value]
        elif kind == "w":
            self.values[name] = value
        else:
            value = self.values.get(name)
        return [kind, key, value]

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
