"""``bench.checker_mutants`` finds constants, bounds and comparisons, and changes one of them."""

from __future__ import annotations

import ast

import pytest

from bench.checker_mutants import Mutant, mutate, places

SOURCE = """
LIMIT = 10
LONG = 3 * LIMIT
ENDLESS = 1 << 62


def late(times: list[int], end: int) -> bool:
    if max(times) < end + 5:
        return len(times) >= 2
    raise ValueError(f"{len(times) > 7}")
"""


def test_places_are_found_outside_of_messages() -> None:
    found = [(kind, scope, text) for _, kind, scope, text, _ in places(ast.parse(SOURCE))]
    assert found == [
        ("constant", "LIMIT", "10"),
        ("constant", "LONG", "3 * LIMIT"),
        ("constant", "ENDLESS", "1 << 62"),
        ("comparison", "late", "max(times) < end + 5"),
        ("bound", "late", "end + 5"),
        ("comparison", "late", "len(times) >= 2"),
        ("bound", "late", "len(times) >= 2"),
    ]


@pytest.mark.parametrize(
    ("index", "kind", "change", "expected"),
    [
        (0, "constant", "halved", "LIMIT = 5"),
        (1, "constant", "doubled", "LONG = 6 * LIMIT"),
        (3, "comparison", "Lt to LtE", "if max(times) <= end + 5:"),
        (4, "bound", "doubled", "if max(times) < end + 10:"),
        (6, "bound", "halved", "return len(times) >= 1"),
    ],
)
def test_a_mutant_has_one_change(index: int, kind: str, change: str, expected: str) -> None:
    tree = mutate(SOURCE, Mutant("a.py", kind, index, "", "", change, 0, 1))
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    after = ast.unparse(tree).splitlines()
    assert [line.strip() for line in after if line not in before] == [expected]
