"""The tables of rules in docs/invariants.md and docs/simulator.md, from the rules themselves.

Evidence: T1 captured messages, T2 disk images, T4 the nodes' traces, T5 the clients' history, T6
the decoded records of the committed log, T7 the steps of a node. Statements follow KRaft's KIPs.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.checkers.kraft.invariants import (  # noqa: F401 (they add their rules)
    active_controller,
    answers,
    broker_life,
    commit_delay,
    controller,
    disks,
    fetches,
    image_states,
    leadership,
    liveness,
    logs,
    membership_answers,
    quorum_answers,
    requests,
    resignations,
    retention,
    sessions,
    snapshots,
    state_machine,
    timely_elections,
    unrequested,
    voter_sets,
    votes,
)
from kraftwreck.checkers.kraft.rule import RULES, Rule

_LETTERS: Final = "IDLC"
_BY_REPLAY: Final = {"I": 30, "L": 9, "C": 17}
"""The first number by letter of the rules that need a replay of the committed log; also C15."""


def _place(rule: Rule) -> tuple[int, int, int]:
    """Return section, letter and number of a rule, which order the tables."""
    letter, number = rule.id[0], int(rule.id[1:])
    by_replay = rule.id == "C15" or (letter in _BY_REPLAY and number >= _BY_REPLAY[letter])
    place = _LETTERS.index(letter)
    return 3 if by_replay else max(place - 1, 0), place, number


TABLE: Final = tuple(
    sorted((rule for rule in RULES.values() if rule.name and not rule.simulated), key=_place)
)
"""The rules that recorded runs are judged by, in the order of docs/invariants.md."""

SECTIONS: Final = ("quorum", "liveness", "controller", "replay")


def section(rule: Rule) -> str:
    """Return the section of docs/invariants.md that lists the rule."""
    return SECTIONS[_place(rule)[0]]


def page(name: str) -> list[str]:
    """Return the rules of a section of docs/invariants.md as lines of a Markdown table."""
    lines = ["| id | name | what must hold | evidence | online |", "|---|---|---|---|---|"]
    for rule in TABLE:
        if section(rule) == name:
            online = "yes" if rule.live else "no"
            lines.append(
                f"| {rule.id} | {rule.name} | {rule.statement} | {rule.evidence} | {online} |"
            )
    return lines
