"""Every planted bug is in the catalogue, applies, changes the nodes, and is found."""

from __future__ import annotations

import json
import py_compile
import re
from pathlib import Path
from typing import NoReturn

import pytest

from harness.archive import PROJECT_TREE
from harness.options import OptionError
from harness.patched_nodes import patched_tree
from kraftwreck.campaign import Campaign
from kraftwreck.hunt import Hunted, hunt
from kraftwreck.main import status
from kraftwreck.mutants import HuntError, Row, hunt_patch, table
from mutants import FOLDER, Mutant, catalogue
from nodes.node import Node

MUTANTS = list(catalogue().values())
CORE = {"R01", "R02", "R03", "R06", "R08", "R16", "R18", "R19", "R21", "R25", "R26", "R33", "R38"}

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


@pytest.mark.parametrize("mutant", MUTANTS, ids=ids)
def test_a_patch_applies_compiles_and_changes_the_nodes_only(mutant: Mutant) -> None:
    with patched_tree(mutant.patch) as tree:
        changed = [
            path
            for path in sorted(tree.rglob("*.py"))
            if path.read_bytes() != (PROJECT_TREE / path.relative_to(tree)).read_bytes()
        ]
        assert changed
        for path in changed:
            py_compile.compile(str(path), doraise=True)


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


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.core and m.id not in CHEAP], ids=ids)
def test_a_core_bug_is_found(mutant: Mutant) -> None:
    hunted = hunt_patch(mutant.patch, 120)
    assert hunted.found
    assert hunted.anomaly


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
