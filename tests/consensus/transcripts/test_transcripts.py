"""The consensus core does what ``situations/*.txt`` say; ``--rewrite`` records what it does now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.harness.archive import IMPORT_ROOT, PROJECT_TREE
from kraftwreck.harness.patched_nodes import environment, patch_of, patched_tree
from tests.consensus.transcripts.commands import COMMANDS
from tests.consensus.transcripts.script import SITUATIONS, ScriptError, difference, parse, play

FILES = sorted(SITUATIONS.glob("*.txt"))
HEADER = "# A sentence.\n# Source: KIP-595.\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_situation(path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        path.write_text(play(parse(path.read_text(), path.name)).text())
    assert difference(path) == ""


def test_every_command_is_used_and_nothing_is_left_in_another_folder() -> None:
    lines = [line for path in FILES for line in path.read_text().splitlines()]
    first = {line.removeprefix("quietly ").split(" ")[0] for line in lines}
    assert set(COMMANDS) <= first
    assert len(FILES) >= 30


def played(text: str) -> str:
    return play(parse(HEADER + text, "a.txt")).text().removeprefix(HEADER)


def test_a_transcript_keeps_comments_and_replaces_output() -> None:
    text = "\n# Why.\nquietly add-nodes 2\n    anything\n\nstate 1\n    old\n# The end.\n"
    state = "1 unattached, epoch 0, log 0@0, hw -"
    expected = f"\n# Why.\nquietly add-nodes 2\n\nstate 1\n    {state}\n# The end.\n"
    assert played(text) == expected
    assert played(expected) == expected


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("add-nodes 3\nfly 1\n", "a.txt:4: unknown command 'fly'"),
        ("add-nodes 3\nquietly\n", "a.txt:4: unknown command ''"),
        ("add-nodes 3 fast\n", "a.txt:3: unknown argument 'fast'"),
        ("add-nodes 3 speed=1\n", "a.txt:3: unknown argument 'speed'"),
        ("add-nodes three\n", "a.txt:3: unknown argument 'three'"),
        ("add-nodes 3\nadd-nodes 3\n", "a.txt:4: the nodes are there already"),
        ("campaign 1\n", "a.txt:3: begin with add-nodes"),
        ("add-nodes 3\ncampaign\n", "a.txt:4: campaign needs NODE"),
        ("add-nodes 3\ncampaign 4\n", "a.txt:4: no node 4 is running"),
        ("add-nodes 3\ncampaign 1 2\n", "a.txt:4: unknown argument '2'"),
        ("add-nodes 3\ncampaign 01\n", "a.txt:4: unknown argument '01'"),
        ("add-nodes 1\ncampaign 1\n", "a.txt:4: node 1 is leader and cannot"),
        ("add-nodes 3\nrestart 1\n", "a.txt:4: no node 1 is down"),
        ("add-nodes 3\ncrash 1 lose-all\n", "a.txt:4: unknown argument 'lose-all'"),
        ("add-nodes 3\ndrop 1 2\n", "a.txt:4: nothing is in flight from 1 to 2"),
        ("add-nodes 3\nsend 1 2 hello\n", "a.txt:4: unknown argument 'hello'"),
        ("add-nodes 3\nsend 1 2 vote era=1\n", "a.txt:4: unknown argument"),
        ("    output\n", "a.txt:3: output without a command"),
        ("  add-nodes 3\n", "a.txt:3: indent output by four spaces"),
    ],
)
def test_an_unknown_command_or_argument_names_file_and_line(script: str, error: str) -> None:
    with pytest.raises(ScriptError) as raised:
        played(script)
    assert str(raised.value).startswith(error)


@pytest.mark.parametrize("text", ["add-nodes 3\n", "# A sentence.\nadd-nodes 3\n"])
def test_a_transcript_says_what_it_shows_and_its_source(text: str) -> None:
    with pytest.raises(ScriptError, match=r"^a.txt:1: begin with '# '"):
        parse(text, "a.txt")


# --- transcripts that fail ----------------------------------------------------------------------


def changed_with(tree: Path) -> tuple[int, set[str]]:
    """How the situations end with the nodes in ``tree``, and which of them differ."""
    command = [sys.executable, "-m", "tests.consensus.transcripts.script"]
    ended = subprocess.run(
        command,
        cwd=IMPORT_ROOT,
        env=environment(tree),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == "" or ended.returncode == 1, ended.stderr
    names = {path.name for path in FILES}
    return ended.returncode, {name.removesuffix(".txt") for name in names if name in ended.stdout}


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("mutant", "situation"),
    [
        ("R01", "figure_8"),
        ("R03", "vote_survives_restart"),
        ("R05", "leader_restart"),
        ("R08", "vote_newer_log"),
        ("V05", "leader_removes_itself"),
    ],
)
def test_a_planted_bug_changes_a_transcript(mutant: str, situation: str) -> None:
    with patched_tree(patch_of(mutant)) as tree:
        code, changed = changed_with(tree)
    assert code == 1
    assert situation in changed


def test_sound_nodes_change_none() -> None:
    assert changed_with(PROJECT_TREE) == (0, set())
