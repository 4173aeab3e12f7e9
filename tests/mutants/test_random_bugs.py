"""Random bugs of the nodes for hunts: ``python -m bench.random_bugs``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench.random_bugs import ROOT, changes_of, drawn


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("return a < b", ["return a <= b"]),
        ("return a >= b", ["return a > b"]),
        ("return a == b", []),
        ("return a and b", ["return True and b", "return a and True"]),
        ("return a or b", ["return False or b", "return a or False"]),
        ("return min(a, b)", ["return a", "return b"]),
        ("return min(a, key=b)", []),
        ("return a if b else c", ["return a", "return c"]),
        ("return a - 1", ["return a"]),
        ("return a - 2", []),
        ("print(a)", ["pass"]),
        ("a.b = 1", ["pass"]),
        ("a[0] += 2", ["pass"]),
        ("a = 1", []),
    ],
)
def test_a_place_is_changed(code: str, changed: list[str], tmp_path: Path) -> None:
    path = tmp_path / "node.py"
    head = "def f():\n    "
    path.write_text(f"{head}{code}\n")
    source = path.read_bytes()
    found = [
        (source[: each.start] + each.new + source[each.end :]).decode() for each in changes_of(path)
    ]
    assert found == [f"{head}{each}\n" for each in changed]


def test_places_outside_of_functions_and_first_values_stay(tmp_path: Path) -> None:
    path = tmp_path / "node.py"
    path.write_text("print(1)\n\n\nclass A:\n    def __init__(self):\n        self.a = 1\n")
    assert changes_of(path) == []


def test_a_patch_has_the_change_only(tmp_path: Path) -> None:
    path = tmp_path / "node.py"
    path.write_text("def f(é, b):\n    return é < b\n")
    (change,) = changes_of(path)
    lines = change.patch(tmp_path).splitlines()
    assert lines[:3] == ["diff --git a/node.py b/node.py", "--- a/node.py", "+++ b/node.py"]
    assert lines[-2:] == ["-    return é < b", "+    return é <= b"]


def test_a_seed_draws_changes_of_the_nodes() -> None:
    found = drawn(1, 40)
    assert found == drawn(1, 40)
    assert found != drawn(2, 40)
    assert len(set(found)) == 40
    for change in found:
        source = change.path.read_bytes()
        ast.parse(source[: change.start] + change.new + source[change.end :])
        assert change.path.is_relative_to(ROOT / "nodes")
