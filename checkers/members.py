"""Members of a system that are at the same position have the same state.

Each member shows its own state, whatever the others know, which no client may see. Without a common
position nothing is proven: the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.members import Member, by_position, differing, encoded
from kraftwreck.histories.verdict import CheckerResult

DIFFER: Final = "members-differ"
_SHOWN = 5
"""Differences that an explanation names."""
_LONGEST = 60
"""Characters of a value in an explanation."""
_ABSENT = object()


def check(run: RunData) -> CheckerResult:
    """Compare the members that :mod:`harness.inspection` has asked."""
    members = run.members
    if not members:
        return CheckerResult(valid="unknown", error="no member was asked for its state")
    known = {name: member for name, member in members.items() if not member.error}
    groups = by_position(members)
    findings = Findings()
    for one, other in differing(members):
        _explain(one, other, known, findings)
    stats = {
        "positions": {name: member.position for name, member in known.items()},
        "compared": max(map(len, groups.values()), default=0),
    }
    if findings.anomalies:
        return CheckerResult(valid=False, anomalies=findings.anomalies, stats=stats)
    if error := _doubt(members, groups):
        return CheckerResult(valid="unknown", stats=stats, error=error)
    return CheckerResult(valid=True, stats=stats)


def _doubt(members: Mapping[str, Member], groups: Mapping[bytes, list[str]]) -> str:
    """Return why not all members were compared, "" if they were."""
    if silent := [f"{name}: {member.error}" for name, member in members.items() if member.error]:
        return f"not all members were compared: {'; '.join(silent)}"
    if len(groups) > 1:
        places = [f"{', '.join(n)} at {position.decode()}" for position, n in groups.items()]
        return f"not all members were compared, as their positions differ: {'; '.join(places)}"
    return "" if len(members) > 1 else "a single member has none to be compared with"


def _explain(one: str, other: str, members: Mapping[str, Member], findings: Findings) -> None:
    """Add a finding that names where the states of two members differ."""
    a, b = members[one].state, members[other].state
    # Two numbers may be equal and have different texts.
    differences = list(_differences(a, b, "")) or [("", a, b)]
    shown = "; ".join(
        f"{place or 'the state'}: {one} has {_text(a)}, {other} has {_text(b)}"
        for place, a, b in differences[:_SHOWN]
    )
    more = len(differences) - _SHOWN
    findings.add(
        DIFFER,
        f"{one} and {other} are both at position {_text(members[one].position)}, but their states"
        f" differ in {len(differences)} {'places' if len(differences) > 1 else 'place'}: {shown}"
        + (f"; and {more} more." if more > 0 else "."),
    )


def _differences(a: Any, b: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield where two JSON values differ: maps by their keys, lists by their elements."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            below = f"{place} {key}".strip()
            yield from _differences(a.get(key, _ABSENT), b.get(key, _ABSENT), below)
    elif isinstance(a, list) and isinstance(b, list):
        yield from _of_lists(a, b, place)
    elif a is _ABSENT or b is _ABSENT or type(a) is not type(b) or a != b:
        yield place, a, b


def _of_lists(a: list[Any], b: list[Any], place: str) -> Iterator[tuple[str, Any, Any]]:
    if encoded(a) == encoded(b):
        return
    in_a, in_b = ({encoded(element): element for element in each} for each in (a, b))
    only_a = [element for text, element in in_a.items() if text not in in_b]
    only_b = [element for text, element in in_b.items() if text not in in_a]
    yield from ((place, element, _ABSENT) for element in only_a)
    yield from ((place, _ABSENT, element) for element in only_b)
    if not only_a and not only_b:
        yield place, a, b  # The same elements in another order or number.


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = encoded(value).decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
