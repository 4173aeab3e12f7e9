"""Commands of ``kraftwreck`` as words that its parser reads back to the same options."""

from __future__ import annotations

import shlex
from collections.abc import Mapping


def command_words(
    name: str, *arguments: object, options: Mapping[str, object] | None = None
) -> list[str]:
    """Return the words after ``kraftwreck`` for command ``name``.

    ``options`` maps an option, such as ``--nodes``, to its value. None and False omit the option,
    True writes it alone, a tuple becomes ``a,b`` (empty: ``none``), a list repeats the option, and
    a float becomes the shortest text that reads back as the same number.
    """
    words: list[str] = []
    for option, value in (options or {}).items():
        if value is None or value is False:
            continue
        if isinstance(value, list):
            words += [word for each in value for word in (option, _text(each))]
            continue
        words += [option] if value is True else [option, _text(value)]
    given = [str(argument) for argument in arguments]
    if any(argument.startswith("-") for argument in given):
        return [name, *words, "--", *given]
    return [name, *given, *words]


def command_line(name: str, *arguments: object, options: Mapping[str, object] | None = None) -> str:
    """Return the shell command with the words of :func:`command_words`."""
    return shlex.join(["kraftwreck", *command_words(name, *arguments, options=options)])


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
