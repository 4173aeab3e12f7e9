"""Every planted bug is in the catalogue, applies, changes the nodes, and is found."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from harness.archive import PROJECT_TREE
from harness.options import OptionError
from harness.patched_nodes import patched_tree
from kraftwreck.campaign import Campaign
from kraftwreck.hunt import Hunted, environment, hunt
from kraftwreck.main import status
from kraftwreck.mutants import HuntError, Row, hunt_patch, table
from mutants import FOLDER, Mutant, catalogue
from nodes.node import Node

MUTANTS = list(catalogue().values())
CORE = {"R01", "R02", "R03", "R06", "R08", "R16", "R18", "R19", "R21", "R25", "R26", "R33", "R38"}

FOUND_BY_TESTS = [mutant for mutant in MUTANTS if mutant.found_by_test]

CHEAP = ("R01", "R03", "R05", "R16", "R19", "R25", "R33", "R38", "M05")
"""Found within a CPU second; the others are for the whole campaign."""


def ids(mutant: Mutant) -> str:
    return mutant.id


def test_every_patch_has_an_entry_and_every_entry_a_patch() -> None:
    assert {path.stem for path in FOLDER.glob("*.patch")} == set(catalogue())


def test_the_bugs_that_must_be_found_are_there() -> None:
    assert {mutant.id for mutant in MUTANTS if mutant.core} >= CORE


@pytest.mark.parametrize("mutant", MUTANTS, ids=ids)
def test_an_entry_says_what_where_from_and_what_notices(mutant: Mutant) -> None:
    assert mutant.title
    assert mutant.source
    assert mutant.trigger
    assert mutant.note
    assert mutant.breaks
    for broken in mutant.breaks:
        assert re.fullmatch(r"[ICDL]\d+|committed|linearizable", broken)


def changed_files(tree: Path) -> list[Path]:
    """The files of a patched tree that differ from the project's."""
    return [
        path
        for path in sorted(tree.rglob("*.py"))
        if path.read_bytes() != (PROJECT_TREE / path.relative_to(tree)).read_bytes()
    ]


def code_of(path: Path) -> str:
    """The code in a file: what is left without comments, layout and docstrings."""
    tree = ast.parse(path.read_text())
    for node in cast(Iterator[Any], ast.walk(tree)):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [
                each
                for each in body
                if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
    return ast.dump(tree)


@pytest.mark.parametrize("mutant", MUTANTS, ids=ids)
def test_a_patch_applies_and_changes_the_code_of_the_nodes(mutant: Mutant) -> None:
    with patched_tree(mutant.patch) as tree:
        changed = changed_files(tree)
        assert changed
        for path in changed:
            compile(path.read_text(), str(path), "exec")
            assert code_of(path) != code_of(PROJECT_TREE / path.relative_to(tree))
        # A name that is not defined would be found by anybody, and for the wrong reason.
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823"]
        checked = subprocess.run(
            [*command, *map(str, changed)], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout


def hunks(patch: str) -> Iterator[tuple[str, list[str]]]:
    """The hunks of a unified diff: the file each changes, and the lines it expects there."""
    file = ""
    before: list[str] | None = None
    for line in [*patch.splitlines(), "diff"]:
        if line.startswith(("@@", "diff")) and before is not None:
            yield file, before
            before = None
        if line.startswith("@@"):
            before = []
        elif before is None and line.startswith("--- a/"):
            file = line.removeprefix("--- a/")
        elif before is not None and line[:1] in (" ", "-"):
            before.append(line[1:])


@pytest.mark.parametrize("mutant", MUTANTS, ids=ids)
def test_a_patch_cannot_land_anywhere_else(mutant: Mutant) -> None:
    found = list(hunks(mutant.patch.read_text()))
    assert found
    for file, expected in found:
        lines = (PROJECT_TREE.parent / file).read_text().splitlines()
        places = [
            start for start in range(len(lines)) if lines[start : start + len(expected)] == expected
        ]
        assert len(places) == 1, (file, expected)


def test_no_two_patches_are_the_same() -> None:
    texts = [mutant.patch.read_text() for mutant in MUTANTS]
    assert len(set(texts)) == len(texts)


def test_cheap_bugs_are_found_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["mutants", *CHEAP, "--budget", "20", "--json"]) == 0
    output = capsys.readouterr()
    found = {row["id"]: row for row in json.loads(output.out)["mutants"]}
    assert set(found) == set(CHEAP)
    for row in found.values():
        assert row["found"] is True
        assert row["checker"]
        assert row["cpu_s"] < 20
    assert "9 of 9 found" in output.err


@pytest.mark.campaign
@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.core and not m.missed and m.id not in CHEAP], ids=ids
)
def test_a_core_bug_is_found(mutant: Mutant) -> None:
    hunted = hunt_patch(mutant.patch, 120)
    assert hunted.found
    assert hunted.anomaly


def outcome_of(test: str, tree: Path) -> int:
    """How pytest ends with one test of the nodes in ``tree``: 0 it passes, 1 it fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    return subprocess.run(
        command, cwd=PROJECT_TREE.parent, env=environment(tree), capture_output=True, check=False
    ).returncode


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", FOUND_BY_TESTS, ids=ids)
def test_the_test_that_is_said_to_find_a_bug_does(mutant: Mutant) -> None:
    with patched_tree(mutant.patch) as tree:
        assert outcome_of(mutant.found_by_test, tree) == 1
    assert outcome_of(mutant.found_by_test, PROJECT_TREE) == 0


def test_what_fails_without_the_bug_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bool, int]] = []

    def fake(what: str, tree: Path, budget_s: float, seed: int, runs: int | None = None) -> Hunted:
        clean = tree == PROJECT_TREE
        asked.append((clean, seed))
        if clean:
            return Hunted(found=seed == 3, cpu_s=1.0, runs=1, sim_s=10.0)
        failing = 3 if seed <= 3 else 7
        return Hunted(
            found=True,
            cpu_s=2.0,
            runs=failing - seed + 1,
            sim_s=20.0,
            checker="epochs",
            anomaly="I1",
            seed=failing,
        )

    monkeypatch.setattr("kraftwreck.mutants._hunt", fake)
    hunted = hunt_patch(MUTANTS[0].patch, 100)
    assert (hunted.found, hunted.seed, hunted.not_its) == (True, 7, (3,))
    assert (hunted.runs, hunted.sim_s, hunted.cpu_s) == (8, 40.0, 4.0)
    assert asked == [(False, 0), (True, 3), (False, 4), (True, 7)]
    hunted = hunt_patch(MUTANTS[0].patch, 1)
    assert (hunted.found, hunted.seed, hunted.not_its) == (False, None, (3,))
    assert (hunted.runs, hunted.cpu_s) == (4, 2.0)


def harmless(folder: Path) -> Path:
    """A patch that plants nothing: a comment in the middle of the nodes."""
    source = PROJECT_TREE / "draw.py"
    lines = source.read_text().splitlines()
    place = lines.index("import hashlib") + 1
    patch = folder / "harmless.patch"
    patch.write_text(
        "--- a/nodes/draw.py\n+++ b/nodes/draw.py\n"
        f"@@ -{place},3 +{place},4 @@\n {lines[place - 1]}\n+# Nothing is wrong.\n"
        f" {lines[place]}\n {lines[place + 1]}\n"
    )
    return patch


def test_a_patch_that_plants_no_bug_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = str(harmless(tmp_path))
    assert status(["mutants", "--patch", patch, "--budget", "4", "--json"]) == 1
    output = capsys.readouterr()
    [row] = json.loads(output.out)["mutants"]
    assert (row["id"], row["found"], row["checker"]) == ("harmless", False, None)
    assert row["runs"] >= 3
    assert "missed: harmless" in output.err


def test_bad_arguments_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["mutants", "R99"]) == 254
    assert "unknown mutant 'R99'; known mutants: R01" in capsys.readouterr().err
    patch = tmp_path / "bad.patch"
    patch.write_text("--- a/simulation/x.py\n+++ b/simulation/x.py\n@@ -0,0 +1 @@\n+x\n")
    assert status(["mutants", "--patch", str(patch)]) == 254
    error = capsys.readouterr().err
    assert "only nodes/ may be patched" in error
    assert error.count("\n") == 1


def test_a_patch_that_breaks_the_import_is_a_failure_of_the_hunt(tmp_path: Path) -> None:
    patch = tmp_path / "broken.patch"
    patch.write_text(
        harmless(tmp_path).read_text().replace("# Nothing is wrong.", "import no_such_module")
    )
    with pytest.raises(HuntError, match=r"broken\.patch: the hunt ended with 1: .*no_such_module"):
        hunt_patch(patch, 2)
    patch.write_text("nothing")
    with pytest.raises(OptionError, match="not a unified diff"):
        hunt_patch(patch, 2)


def test_a_node_that_never_ends_a_step_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forever(self: Node, event: object, now: int, wall_ms: int) -> NoReturn:
        while True:
            pass

    monkeypatch.setattr("kraftwreck.hunt.RUN_LIMIT_S", 0.5)
    monkeypatch.setattr(Node, "step", forever)
    hunted = hunt(Campaign(time_limit_s=2), 0, budget_s=30, runs=1)
    assert (hunted.found, hunted.anomaly) == (True, "I29")
    assert "something loops" in (hunted.explanation or "")


def test_the_table_names_what_was_missed() -> None:
    rows = [
        Row(id="R01", title="one", hunted=Hunted(found=False, cpu_s=3.0, runs=4, sim_s=5.0)),
        Row(
            id="R02",
            title="two",
            hunted=Hunted(
                found=True, cpu_s=0.5, runs=1, sim_s=2, checker="epochs", anomaly="I1", seed=9
            ),
        ),
    ]
    lines = list(table(rows))
    assert lines[2] == "| R01 | one | **missed** |  | 4 | 5 | 3.00 |"
    assert lines[3] == "| R02 | two | epochs: I1 | 9 | 1 | 2 | 0.50 |"
