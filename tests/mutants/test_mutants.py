"""Every planted bug is in the catalogue, applies, changes the nodes, and is found."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from kraftwreck.campaigns.campaign import Tested as Outcome
from kraftwreck.campaigns.detection import Row, table
from kraftwreck.campaigns.hunt import Hunted, hunt
from kraftwreck.campaigns.hunting import Aim, aim_at, hunt_patch
from kraftwreck.cli.main import status
from kraftwreck.harness.archive import IMPORT_ROOT, PROJECT_TREE
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.patched_nodes import environment, patched_tree
from kraftwreck.mutants import FOLDER, Mutant, catalogue
from kraftwreck.nodes.node import Node
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign

MUTANTS = list(catalogue().values())
CORE = {"R01", "R02", "R03", "R06", "R08", "R16", "R18", "R19", "R21", "R25", "R26", "R33", "R38"}

FOUND_BY_TESTS = [mutant for mutant in MUTANTS if mutant.found_by_test]

CHEAP = ("R01", "R05", "R16", "M05")
"""Found within a CPU second, by rules of votes, the high watermark, fetches and voter sets; the
others are for the whole campaign."""


def ids(mutant: Mutant) -> str:
    return mutant.id


def test_every_patch_has_an_entry_and_every_entry_a_patch() -> None:
    assert {path.stem for path in FOLDER.glob("*.patch")} == set(catalogue())


def test_the_bugs_that_must_be_found_are_there() -> None:
    assert {mutant.id for mutant in MUTANTS if mutant.core} >= CORE


@pytest.mark.parametrize("mutant", MUTANTS, ids=ids)
def test_an_entry_names_its_bug_source_and_detectors(mutant: Mutant) -> None:
    assert mutant.title
    assert mutant.source
    assert mutant.trigger
    assert mutant.note
    assert mutant.breaks
    for broken in mutant.breaks:
        assert re.fullmatch(r"[ICDLF]\d+|topics|linearizable", broken)


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
    with patched_tree(mutant.patch, whole=False) as tree:
        changed = changed_files(tree)
        assert changed
        for path in changed:
            compile(path.read_text(), str(path), "exec")
            assert code_of(path) != code_of(PROJECT_TREE / path.relative_to(tree))


def test_no_patch_uses_a_name_that_is_not_defined(tmp_path: Path) -> None:
    """Anybody would find that, and for the wrong reason."""
    for mutant in MUTANTS:
        with patched_tree(mutant.patch, whole=False) as tree:
            for path in changed_files(tree):
                copy = tmp_path / mutant.id / path.relative_to(tree)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823"]
    checked = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "bugs", [CHEAP[:2], pytest.param(CHEAP[2:], marks=pytest.mark.whole_run)], ids=",".join
)
def test_cheap_bugs_are_found_by_the_command(
    bugs: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["mutants", *bugs, "--budget", "20", "--json"]) == 0
    output = capsys.readouterr()
    found = {row["id"]: row for row in json.loads(output.out)["mutants"]}
    assert set(found) == set(bugs)
    for row in found.values():
        assert row["found"] is True
        assert row["checker"]
        assert row["cpu_s"] < 20
    assert "2 of 2 found" in output.err


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
        command, cwd=IMPORT_ROOT, env=environment(tree), capture_output=True, check=False
    ).returncode


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", FOUND_BY_TESTS, ids=ids)
def test_the_test_that_is_said_to_find_a_bug_does(mutant: Mutant) -> None:
    with patched_tree(mutant.patch) as tree:
        assert outcome_of(mutant.found_by_test, tree) == 1
    assert outcome_of(mutant.found_by_test, PROJECT_TREE) == 0


def test_failures_without_the_bug_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bool, int]] = []

    def fake(
        what: str, tree: Path, budget_s: float, seed: int, style: str, *_: object, **__: object
    ) -> Hunted:
        clean = tree == PROJECT_TREE
        asked.append((clean, seed))
        if clean:
            if seed != 3:
                return Hunted(found=False, cpu_s=1.0, runs=1, sim_s=10.0)
            return Hunted(
                found=True,
                cpu_s=1.0,
                runs=1,
                sim_s=10.0,
                checker="disks",
                anomaly="I9",
                explanation="n1 lost 3.",
                seed=3,
            )
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

    monkeypatch.setattr("kraftwreck.campaigns.hunting._hunt", fake)
    hunted = hunt_patch(MUTANTS[0].patch, 100)
    assert (hunted.found, hunted.seed) == (True, 7)
    assert hunted.not_its == {3: "disks: I9: n1 lost 3."}
    assert (hunted.runs, hunted.sim_s, hunted.cpu_s) == (8, 40.0, 4.0)
    assert asked == [(False, 0), (True, 3), (False, 4), (True, 7)]
    hunted = hunt_patch(MUTANTS[0].patch, 1)
    assert (hunted.found, hunted.seed, list(hunted.not_its)) == (False, None, [3])
    assert (hunted.runs, hunted.cpu_s) == (4, 2.0)


RECORDS, SHELLS = Aim(options=("records=yes",)), Aim(options=("shells=yes",))


@pytest.mark.parametrize(
    ("changed", "aim"),
    [
        (["nodes/replication/partition.py"], RECORDS),
        (["nodes/replication/partition.py", "nodes/server/data_calls.py"], RECORDS),
        (["nodes/broker/data_plane.py"], RECORDS),
        (["nodes/server/clean_shutdown.py"], RECORDS),
        (["nodes/protocol/produced.py", "nodes/server/log_dirs.py"], RECORDS),
        (["nodes/replication/partition.py", "nodes/server/shell.py"], SHELLS),
        (["nodes/replication/partition.py", "nodes/node.py"], Aim()),
        (["nodes/consensus/raft/poll.py", "nodes/consensus/embedded.py"], Aim("raft")),
        (["nodes/consensus/raft/poll.py", "nodes/consensus/log.py"], Aim()),
        ([], Aim()),
    ],
)
def test_a_patch_is_hunted_where_its_code_runs(
    changed: list[str], aim: Aim, tmp_path: Path
) -> None:
    patch = tmp_path / "bug.patch"
    patch.write_text("".join(f"--- a/{file}\n+++ b/{file}\n" for file in changed))
    assert aim_at(patch) == aim


IMPORT = "from hashlib import blake2b"
"""A line of ``nodes/draw.py`` behind which a comment changes nothing."""


def harmless(folder: Path) -> Path:
    """A patch that plants nothing: a comment in the middle of the nodes."""
    source = PROJECT_TREE / "draw.py"
    lines = source.read_text().splitlines()
    place = lines.index(IMPORT) + 1
    patch = folder / "harmless.patch"
    patch.write_text(
        "--- a/nodes/draw.py\n+++ b/nodes/draw.py\n"
        f"@@ -{place},3 +{place},4 @@\n {lines[place - 1]}\n+# Nothing is wrong.\n"
        f" {lines[place]}\n {lines[place + 1]}\n"
    )
    return patch


@pytest.mark.slow
def test_a_patch_that_plants_no_bug_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = str(harmless(tmp_path))
    assert status(["mutants", "--patch", patch, "--budget", "6", "--json"]) == 1
    output = capsys.readouterr()
    [row] = json.loads(output.out)["mutants"]
    assert (row["id"], row["found"], row["checker"]) == ("harmless", False, None)
    assert row["runs"] >= 2
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


def with_line(folder: Path, line: str) -> Path:
    """A patch that puts a line of code into the middle of the nodes."""
    patch = harmless(folder)
    patch.write_text(patch.read_text().replace("# Nothing is wrong.", line))
    return patch


def test_nodes_that_cannot_be_imported_are_found(tmp_path: Path) -> None:
    hunted = hunt_patch(with_line(tmp_path, "import no_such_module"), 2)
    assert (hunted.found, hunted.checker, hunted.anomaly) == (True, "import", "ModuleNotFoundError")
    assert "no_such_module" in (hunted.explanation or "")
    hunted = hunt_patch(with_line(tmp_path, "def ("), 2)
    assert (hunted.checker, hunted.anomaly) == ("import", "SyntaxError")


def test_nodes_that_fail_where_no_node_is_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        raise ValueError("no disk can be formatted")

    place = "nodes/log/format.py:1"
    monkeypatch.setattr("kraftwreck.campaigns.hunt.place_of", lambda error: place)
    monkeypatch.setattr("kraftwreck.campaigns.hunt.run_seed", broken)
    hunted = hunt(Campaign(), 5, budget_s=30, runs=1)
    assert (hunted.found, hunted.checker, hunted.anomaly) == (True, "crash", "ValueError")
    assert (hunted.seed, hunted.explanation) == (
        5,
        "no disk can be formatted (in nodes/log/format.py:1)",
    )


def test_a_rule_that_fails_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hunts compare with a run of the clean nodes, where a broken rule fails, too."""

    def broken(*_: object, **__: object) -> NoReturn:
        raise KeyError("no such replica")

    monkeypatch.setattr("kraftwreck.campaigns.hunt.run_seed", broken)
    hunted = hunt(Campaign(), 5, budget_s=30, runs=1)
    assert (hunted.found, hunted.checker, hunted.anomaly) == (True, "simulator", "unknown")
    assert re.fullmatch(
        r"KeyError: 'no such replica' \(in mutants/test_mutants.py:\d+\)", hunted.explanation or ""
    )


def test_a_checker_that_becomes_unknown_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    def puzzled(campaign: Campaign, seed: int, **_: object) -> Outcome:
        return Outcome(seed, "leader", "", 1.0, 0.1, unknown=[("epochs", "ValueError: what?")])

    monkeypatch.setattr("kraftwreck.campaigns.hunt.run_seed", puzzled)
    hunted = hunt(Campaign(), 0, budget_s=30, runs=1)
    assert (hunted.found, hunted.checker, hunted.anomaly) == (True, "epochs", "unknown")


def test_malformed_or_unfitting_patches_are_refused(tmp_path: Path) -> None:
    patch = tmp_path / "broken.patch"
    patch.write_text("nothing")
    with pytest.raises(OptionError, match="not a unified diff"):
        hunt_patch(patch, 2)
    patch.write_text(harmless(tmp_path).read_text().replace(IMPORT, "from hashlib import blake"))
    with pytest.raises(OptionError, match=r"broken\.patch: does not apply: "):
        hunt_patch(patch, 2)


def test_git_and_plain_diffs_of_several_files_are_taken(tmp_path: Path) -> None:
    one = harmless(tmp_path).read_text()
    two = one.replace("draw.py", "__main__.py")
    first, second = (PROJECT_TREE / "__main__.py").read_text().splitlines()[:2]
    two = f"--- a/nodes/__main__.py\n+++ b/nodes/__main__.py\n@@ -1,2 +1,3 @@\n {first}\n"
    two += f"+# Nor here.\n {second}\n"
    git = "".join(
        f"diff --git a/nodes/{name} b/nodes/{name}\nindex 1234567..89abcde 100644\n{text}"
        for name, text in (("draw.py", one), ("__main__.py", two))
    )
    plain = f"diff -ru a/nodes/draw.py b/nodes/draw.py\n{one}" + two.replace(
        "--- a/nodes/__main__.py", "--- a/nodes/__main__.py\t2026-01-01 00:00:00.000000000 +0000"
    )
    for text in (git, plain):
        patch = tmp_path / "several.patch"
        patch.write_text(text)
        with patched_tree(patch) as tree:
            assert {path.name for path in changed_files(tree)} == {"draw.py", "__main__.py"}
        with patched_tree(patch, whole=False) as tree:
            assert {path.name for path in tree.rglob("*.py")} == {"draw.py", "__main__.py"}


def test_several_hunts_for_one_bug_report_median_and_worst(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter((3.0, 1.0, 2.0))
    seeds: list[int] = []

    def fake(patch: Path, budget_s: float, *, first_seed: int, **_: object) -> Hunted:
        seeds.append(first_seed)
        return Hunted(found=True, cpu_s=next(times), runs=1, sim_s=9.0, checker="epochs",
                      anomaly="I1", seed=first_seed)  # fmt: skip

    monkeypatch.setattr("kraftwreck.campaigns.detection.hunt_patch", fake)
    assert status(["mutants", "R01", "--repeats", "3", "--json"]) == 0
    output = capsys.readouterr()
    [row] = json.loads(output.out)["mutants"]
    assert (row["cpu_s"], row["worst_cpu_s"], row["found_in"]) == (2.0, 3.0, 3)
    assert seeds == [0, 10_000, 20_000]
    assert "3 of 3 hunts: 3.00, 1.00, 2.00" in output.err


def test_a_node_that_never_ends_a_step_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forever(self: Node, event: object, now: int, wall_ms: int) -> NoReturn:
        while True:
            pass

    monkeypatch.setattr(Node, "step", forever)
    hunted = hunt(Campaign(time_limit_s=2), 0, budget_s=30, runs=1, loop_s=0.5)
    assert (hunted.found, hunted.anomaly) == (True, "I29")
    assert "endless loop" in (hunted.explanation or "")


def test_the_table_names_missed_bugs() -> None:
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
