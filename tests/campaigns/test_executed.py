"""Counters of the statements that a patch changes."""

from __future__ import annotations

import ast
import difflib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.campaigns import detection, executed
from kraftwreck.campaigns.detection import hunt_all
from kraftwreck.campaigns.executed import added, changed_lines
from kraftwreck.campaigns.hunt import Hunted, Progress
from kraftwreck.campaigns.hunting import OnProgress, hunt_patch
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.patched_nodes import environment, patched_tree
from kraftwreck.mutants import catalogue

BEFORE = '''"""A module."""
from __future__ import annotations


def sign(value):
    """Return the sign."""
    if value < 0:
        return -1
    elif value == 0:
        return 0
    try:
        return 1
    except ValueError:
        raise
'''
CALLS = "for value in (-3, 0, 0, 5, 6, 7): sign(value)"


def counts_of(tmp_path: Path, new: str, calls: str = CALLS) -> dict[int, int]:
    """Return executions by line of the changed module, after ``calls``, in a process."""
    for name, text in (("old", BEFORE), ("new", new)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(text)
    program = (
        "import json, sys; from pathlib import Path; from kraftwreck.campaigns import executed;"
        "new = Path(sys.argv[1]) / 'new'; executed.count(new, new.parent / 'old');"
        "sys.path.insert(0, str(new)); from module import sign\n"
        f"{calls}\nprint(json.dumps(executed.executed()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    return {
        int(place.rpartition(":")[2]): times for place, times in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("if value < 0", "if value <= -1", {7: 6}),
        ("return -1", "return -2", {8: 1}),
        ("elif value == 0", "elif not value", {9: 5}),
        ("        return 1\n", "        return 2\n", {12: 3}),
        ("except ValueError", "except KeyError", {13: 0}),
        ("def sign(value)", "def sign(value, base=0)", {5: 6}),
        ("    elif value == 0:\n        return 0\n", "", {8: 1}),
        ('"""Return the sign."""', '"""Return its sign."""', {}),
    ],
)
def test_each_changed_statement_is_counted(
    tmp_path: Path, old: str, new: str, expected: dict[int, int]
) -> None:
    assert old in BEFORE
    assert counts_of(tmp_path, BEFORE.replace(old, new)) == expected


def test_counters_change_no_line_number_and_no_result(tmp_path: Path) -> None:
    failing = BEFORE.replace("return 0", "return 1 // value")
    calls = (
        "import traceback\ntry: sign(0)\n"
        "except ZeroDivisionError as error: assert traceback.extract_tb(error.__traceback__)[-1]"
        ".lineno == 10\nassert sign(-2) == -1"
    )
    assert counts_of(tmp_path, failing, calls) == {10: 1}


def test_every_patch_of_the_catalogue_has_a_statement_that_is_counted() -> None:
    for mutant in catalogue().values():
        with patched_tree(mutant.patch, whole=False) as tree:
            for name, lines in changed_lines(tree, PROJECT_TREE).items():
                counting = executed._Counting(name, lines)
                counting.visit(ast.parse((tree / name).read_text()))
            assert executed._counts, mutant.id
            executed._counts.clear()


def test_counts_of_several_hunts_are_added() -> None:
    assert added([{"a:1": 2}, {"a:1": 1, "b:2": 0}]) == {"a:1": 3, "b:2": 0}


SELDOM = "metadata/topics.py", "A topic may have at most", "A topic must have at most"
"""A module of the nodes, and a change of a statement that hardly any run executes."""
ALWAYS = "consensus/kraft/leader.py", "// 2 + 1", "// 2 + 2 - 1"


def patch_of(tmp_path: Path, module: str, old: str, new: str) -> Path:
    text = (PROJECT_TREE / module).read_text()
    assert text.count(old) == 1
    before, after = text.splitlines(keepends=True), text.replace(old, new).splitlines(keepends=True)
    name = f"nodes/{module}"
    patch = tmp_path / "changed.patch"
    patch.write_text("".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")))
    return patch


@pytest.mark.parametrize(("change", "reached"), [(SELDOM, False), (ALWAYS, True)])
def test_a_miss_says_whether_the_change_was_reached(
    tmp_path: Path, change: tuple[str, str, str], reached: bool
) -> None:
    patch = patch_of(tmp_path, *change)
    (row,) = hunt_all([("changed", "", patch)], 0.5, 1, lambda row: None)
    assert not row.hunted.found
    assert [times > 0 for times in row.hunted.executed.values()] == [reached]


def test_all_hunts_show_that_they_live(monkeypatch: pytest.MonkeyPatch) -> None:
    def hunt(patch: Path, budget_s: float, *, on_progress: OnProgress, **_: object) -> Hunted:
        on_progress(Progress(runs=2, cpu_s=1.0))
        return Hunted(found=False, cpu_s=budget_s, runs=3, sim_s=0.0)

    monkeypatch.setattr(detection, "hunt_patch", hunt)
    progress: list[str] = []
    hunt_all(
        [("changed", "", Path("changed.patch"))], 3.0, 1, lambda row: None,
        on_progress=lambda name, part: progress.append(f"{name} {part.runs}"),
    )  # fmt: skip
    assert progress == ["changed 2"]


@pytest.mark.slow
def test_a_hunt_begins_at_the_first_seed_asked_for() -> None:
    patch = catalogue()["R25"].patch  # Any election shows it.
    assert hunt_patch(patch, 30.0, first_seed=500).seed == 500


def test_a_hunt_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    """Even when that one is killed and can end nothing itself."""
    patch = patch_of(tmp_path, *SELDOM)
    program = (
        "import sys; from pathlib import Path; from kraftwreck.campaigns.hunting import hunt_patch;"
        "hunt_patch(Path(sys.argv[1]), 600.0, on_progress=lambda part: print(part, flush=True))"
    )
    hunting = subprocess.Popen(
        [sys.executable, "-c", program, str(patch)],
        stdout=subprocess.PIPE, env=environment(PROJECT_TREE), start_new_session=True,
    )  # fmt: skip
    assert hunting.stdout is not None
    with hunting.stdout as output:
        output.readline()
    children = Path(f"/proc/{hunting.pid}/task/{hunting.pid}/children").read_text().split()
    assert children
    os.kill(hunting.pid, signal.SIGKILL)
    hunting.wait()
    for child in children:
        while Path(f"/proc/{child}/cmdline").is_file():
            if not Path(f"/proc/{child}/cmdline").read_bytes():
                break  # It has ended, and nobody has asked for its exit code.
