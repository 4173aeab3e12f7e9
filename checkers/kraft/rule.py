"""The registry of KRaft's rules: each is a function that carries its id and its sentence.

A rule may rest on several kinds of evidence, and then has a function for each of them: the first
one carries name, sentence and evidence, all carry the id. Findings take their id from there.

* Rules over **steps** (``on``) are called by :mod:`checkers.kraft.quorum_model`, for each event of
  these kinds, live in the simulator and afterwards over recorded traces. They return what is wrong.
* Rules over **a whole run** are called once after it, with all evidence (:data:`GROUPS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(slots=True)
class Rule:
    """``evidence`` has the tags of docs/invariants.md, ``nothing`` why a run with that evidence may
    have nothing to judge. ``live`` is True if the simulator judges the
    rule during the run, too; ``simulated`` if nothing else can. ``steps`` are what its functions
    over steps are called on, ``checks`` its functions over a whole run."""

    id: str
    name: str = ""
    statement: str = ""
    evidence: str = ""
    nothing: str = "no such event in this run"
    live: bool = False
    steps: tuple[str, ...] = ()
    simulated: bool = False
    checks: list[Callable[..., None]] = field(default_factory=list)


RULES: dict[str, Rule] = {}
"""All rules by id."""

STEPS: dict[str, list[tuple[str, Callable[..., Any]]]] = {}
"""The rules over steps: (id, function) by what they are called on."""

GROUPS: dict[Callable[..., None], list[str]] = {}
"""The functions over a whole run, in order, with the ids that each judges."""


def rule(
    id: str,
    name: str = "",
    statement: str = "",
    evidence: str = "",
    nothing: str = "",
    *,
    on: tuple[str, ...] = (),
    live: bool = False,
    simulated: bool = False,
) -> Callable[[Function], Function]:
    """Mark a function that judges the rule ``id``."""
    known = RULES.setdefault(id, Rule(id))
    if name:
        assert not known.name, f"{id} is named twice"
        known.name, known.statement, known.evidence = name, statement, evidence
    known.nothing = nothing or known.nothing
    known.live |= live or simulated or bool(on)
    known.simulated |= simulated
    known.steps += on

    def mark(function: Function) -> Function:
        for each in on:
            STEPS.setdefault(each, []).append((id, function))
        if not on and not simulated:
            known.checks.append(function)
            GROUPS.setdefault(function, []).append(id)
        return function

    return mark


def judges(*ids: str) -> Callable[[Function], Function]:
    """Mark a function over a whole run that is a further one of the rules ``ids``."""

    def mark(function: Function) -> Function:
        for id in ids:
            rule(id)(function)
        return function

    return mark


def simulated() -> list[str]:
    """Return the rules that only a simulator can judge as lines of a Markdown table."""
    own = [rule for rule in RULES.values() if rule.simulated]
    own.sort(key=lambda rule: (rule.id[0], int(rule.id[1:])))
    rows = [f"| {rule.id} | {rule.name} | {rule.statement} |" for rule in own]
    return ["| id | name | what must hold |", "|---|---|---|", *rows]
