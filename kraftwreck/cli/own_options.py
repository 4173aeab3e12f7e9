"""Flags for the options that systems declare: ``--NAME VALUE`` for ``--option NAME=VALUE``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from kraftwreck.harness.own_options import (
    YES,
    OptionError,
    OwnOption,
    OwnOptions,
    declared,
    everywhere,
    values,
)

OWN = "system_options"
"""The parameter with the texts ``NAME=VALUE``."""


class OwnOptionCommand(click.Command):
    """A command with an argument ``system`` and a flag for each option that a system declares.

    The flags that were given come first in the parameter :data:`OWN`, before its own texts.
    """

    def __init__(
        self, *args: Any, own: Callable[[OwnOptions], Sequence[OwnOption]], **attributes: Any
    ) -> None:
        """``own`` chooses among the options of a system those of this command."""
        super().__init__(*args, **attributes)
        self._own = own
        places = [place for place, each in enumerate(self.params) if each.name == "nodes"]
        place = places[0] + 1 if places else len(self.params)
        self.params[place:place] = _flags(own)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; check the options of the system's own. Raises OptionError."""
        left = super().parse_args(ctx, args)
        given = []
        for flag in (each for each in self.params if isinstance(each, _Flag)):
            assert flag.name is not None
            value = ctx.params.pop(flag.name)
            if ctx.get_parameter_source(flag.name) is not ParameterSource.DEFAULT:
                given.append((flag.option.name, YES if flag.option.flag else str(value)))
        system = str(ctx.params["system"])
        known = self._own(declared(system))
        for name, _ in given:
            if name not in {option.name for option in known}:
                raise OptionError(f"--{name} has no meaning for {system}")
        texts = [f"{name}={value}" for name, value in given]
        if texts or (known and ctx.params.get(OWN)):
            texts = [*texts, *ctx.params.get(OWN, ())]
            values(known, texts, system)
            ctx.params[OWN] = tuple(texts)
        ctx.params.setdefault(OWN, ())
        return left


class _Flag(click.Option):
    """The flag of one declared option."""

    def __init__(self, option: OwnOption, systems: Sequence[str]) -> None:
        about = f"{option.about.rstrip('.')} ({', '.join(systems)})."
        if option.flag:
            super().__init__([f"--{option.name}"], is_flag=True, help=about)
        else:
            super().__init__(
                [f"--{option.name}"],
                metavar=option.metavar,
                default=option.default,
                show_default=True,
                help=about,
            )
        self.option = option


def _flags(own: Callable[[OwnOptions], Sequence[OwnOption]]) -> list[click.Parameter]:
    """Return a flag for each name; of systems that declare the same name the first one's help."""
    first: dict[str, OwnOption] = {}
    systems: dict[str, list[str]] = {}
    for system, options in everywhere().items():
        for option in own(options):
            known = first.setdefault(option.name, option)
            if known.flag == option.flag:
                systems.setdefault(option.name, []).append(system)
    return [_Flag(option, systems[name]) for name, option in first.items()]
