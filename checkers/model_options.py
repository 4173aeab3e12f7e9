"""Options of a model of histories, as the user writes them: NAME=JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from kraftwreck.checkers.catalogue import HistoryModel, find, options_of


def model_named(name: str) -> HistoryModel:
    """Return the model ``name``. Raises ValueError, one line, with the known ones."""
    try:
        return find(name)
    except KeyError as error:
        raise ValueError(str(error.args[0])) from None


def parsed_options(
    entry: HistoryModel | None, given: tuple[str, ...], lists: dict[str, Any]
) -> dict[str, Any]:
    """Return the options of the model ``entry``, from texts NAME=JSON and ``lists``.

    A value that is not JSON is a string. Raises ValueError, one line, for a mistake.
    """
    if not given and not lists:
        return {}
    if entry is None:
        raise ValueError("options of a model need --model")
    values: dict[str, Any] = dict(lists)
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise ValueError(f"--option {text!r} is not NAME=JSON")
        try:
            values[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            values[name] = value
    try:
        return options_of(entry, values)
    except KeyError as error:
        raise ValueError(str(error.args[0])) from None
