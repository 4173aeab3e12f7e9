"""Options that one system declares: ``--NAME VALUE``, or ``--option NAME=VALUE``.

A package declares them with an entry point of the group ``kraftwreck.options``, whose name is that
of the system and whose object is :class:`OwnOptions`. They reach the system as texts ``NAME=VALUE``
(``RunOptions.system_options``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.plugins import plugins

GROUP = "kraftwreck.options"
YES, NO = "yes", "no"
_NUMBER = re.compile("[0-9]{1,18}")


class OptionError(BadInputError):
    """An option cannot be used; the message is one line: what is wrong, where, what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOption:
    """One option of a system.

    - ``about``: its meaning, for ``--help``
    - ``words``: the words that it takes; without ``most`` or ``file`` there must be some
    - ``most``: it takes whole numbers from 0 to this one, too
    - ``default``: its value if it is left out
    - ``flag``: on the command line it is given without a value, which stands for ``yes``
    - ``file``: it takes the path of a file; without a default there is none
    """

    name: str
    about: str
    default: str
    words: tuple[str, ...] = ()
    most: int | None = None
    flag: bool = False
    file: bool = False

    @property
    def expected(self) -> str:
        """The values that it takes, for people."""
        if self.file:
            return "the path of a file"
        if self.most is None:
            return f"one of {', '.join(map(repr, self.words))}"
        words = "".join(f", or {word}" for word in self.words)
        return f"0 to {self.most}{words}"

    @property
    def metavar(self) -> str:
        """The values that it takes, for ``--help``."""
        if self.file:
            return "FILE"
        if self.most is None:
            return f"[{'|'.join(self.words)}]"
        return "|".join(("N", *self.words))

    def takes(self, value: str) -> bool:
        """Return whether ``value`` is one of its values."""
        if value in self.words or self.file:
            return True
        number = self.most is not None and _NUMBER.fullmatch(value) is not None
        return number and int(value) <= int(self.most or 0)

    def check(self, value: str, given: str) -> str:
        """Return ``value``. Raises :class:`OptionError`, one line, if it does not take it;
        ``given`` is how the user named the option."""
        if self.takes(value):
            return value if self.file or value in self.words else str(int(value))
        shown = repr(value if len(value) <= 60 else f"{value[:60]}...")
        if self.most is None:
            raise OptionError(f"{given}: {shown} is not {self.expected}")
        raise OptionError(f"{given} {shown}: give {self.expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOptions:
    """The options of one system: those of a ``run``, and those of a campaign (``sim``)."""

    run: tuple[OwnOption, ...] = ()
    campaign: tuple[OwnOption, ...] = ()


def declared(system: str) -> OwnOptions:
    """Return the options that ``system`` declares."""
    found = plugins(GROUP).found.get(system, OwnOptions())
    assert isinstance(found, OwnOptions), f"{system}: not an OwnOptions"
    return found


def everywhere() -> dict[str, OwnOptions]:
    """Return the declared options of all systems, by the system's name."""
    return {name: declared(name) for name in sorted(plugins(GROUP).found)}


def values(known: Sequence[OwnOption], given: Iterable[str], system: str) -> dict[str, str]:
    """Return the value of each option of ``known``, from texts ``NAME=VALUE``.

    Raises :class:`OptionError`, one line, for an unknown name or value, or one given twice.
    """
    by_name = {option.name: option for option in known}
    chosen: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"--option {text!r} must be NAME=VALUE")
        if name not in by_name:
            names = ", ".join(sorted(by_name)) or "none"
            raise OptionError(f"{system} has no option {name!r}; its options: {names}")
        if name in chosen:
            raise OptionError(f"--{name} is given twice")
        chosen[name] = by_name[name].check(value, f"--{name}")
    return {option.name: chosen.get(option.name, option.default) for option in known}


def texts(known: Sequence[OwnOption], plain: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts ``NAME=VALUE`` of the options in ``plain`` that differ from their default.

    True and False are ``yes`` and ``no``.
    """
    found = []
    for option in known:
        value = plain.get(option.name, option.default)
        text = (YES if value else NO) if isinstance(value, bool) else str(value)
        if value is not None and text != option.default:
            found.append(f"{option.name}={text}")
    return tuple(found)


def in_present_shape(plain: Mapping[str, Any], system: str) -> dict[str, Any]:
    """Return the stored options of a run with those of its system as texts ``system_options``.

    In folders of earlier releases they are fields like all others.
    """
    known = declared(system).run
    names = {option.name for option in known}
    rest = {name: value for name, value in plain.items() if name not in names}
    return {**rest, "system_options": [*texts(known, plain), *rest.get("system_options", ())]}


def as_flags(known: Sequence[OwnOption], given: Iterable[str]) -> dict[str, object]:
    """Return ``given``, texts ``NAME=VALUE``, as options of the command line with their values."""
    by_name = {option.name: option for option in known}
    flags: dict[str, object] = {}
    others = []
    for text in given:
        name, _, value = text.partition("=")
        option = by_name.get(name)
        if option is None or (option.flag and value != YES):
            others.append(text)
        else:
            flags[f"--{name}"] = True if option.flag else value
    return {**flags, "--option": others}
