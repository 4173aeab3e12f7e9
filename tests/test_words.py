"""Words of one system stay in its own folders: the rest of the project runs any system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

GENERIC = (
    "campaigns", "checkers", "examples", "harness", "histories", "kraftwreck", "nemesis", "nightly",
    "pipeline", "reports", "runs", "simulation", "systems", "workloads",
)  # fmt: skip
"""Folders whose code runs any system. ``nodes``, ``mutants`` and ``oracle`` are KRaft's own."""

GUESTS = ("checkers/kraft/", "systems/kraft/")

KINDS = {".py", ".c", ".css", ".html", ".j2", ".js", ".json", ".md", ".sh", ".toml"}

WORDS = re.compile(
    r"kraft(?!wreck)|kafka|broker|controller|quorum|voters?(?![a-z])|(?<![a-z])isr(?![a-z])",
    re.IGNORECASE,
)

_A_FILE_OF_BOTH_CORES = "the file with epoch and vote, and its effect: both cores of nodes/ have it"
_A_LIST_OF_PATHS = "the modules that mypyc compiles, by their paths"

ALLOWED: dict[tuple[str, str], str] = {
    (
        "histories/system_name.py",
        "DEFAULT_SYSTEM",
    ): "the system of commands and files that name none",
    ("checkers/jepsen/", ""): "Jepsen has a checker of this name, which judges any log",
    ("checkers/catalogue.py", "kafka"): "the name of Jepsen's checker, which users type",
    ("examples/lock_service/", ""): "the example runs on both cores of nodes/, by their names",
    ("examples/README.md", "lock_service/"): "the same example, listed with the cores it runs on",
    ("nightly/example.toml", "quorum ="): "an example for the default system, with its options",
    ("nightly/example.toml", "brokers ="): "an example for the default system, with its options",
    ("systems/raft/simulated.py", "check_quorum"): "the name of a setting of Raft, by its authors",
    ("systems/raft/simulated.py", "quorum_state"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "QuorumState"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "QUORUM_STATE"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "quorum_state"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "quorum-state"): _A_FILE_OF_BOTH_CORES,
    ("harness/on_host/disk.py", "quorum-state"): _A_FILE_OF_BOTH_CORES,
    ("harness/compiled/modules.py", '"checkers/kraft/'): _A_LIST_OF_PATHS,
    ("harness/compiled/modules.py", '"systems/kraft/'): _A_LIST_OF_PATHS,
    ("harness/compiled/modules.py", '"nodes/'): _A_LIST_OF_PATHS,
}
"""Places in which a word is unavoidable: a file, or a folder that ends with a slash, with the text
that each such line has (all of them: empty), and the reason."""


def _files() -> Iterator[Path]:
    for folder in GENERIC:
        for path in sorted((ROOT / folder).rglob("*")):
            ours = not any(parent.is_symlink() for parent in (path, *path.parents))
            if ours and path.is_file() and path.suffix in KINDS and "__pycache__" not in path.parts:
                yield path


def lines_with_words(name: str, text: str) -> list[str]:
    """The lines of a file that name what only KRaft has, without the places in :data:`ALLOWED`."""
    allowed = [
        part
        for place, part in ALLOWED
        if name == place or (place.endswith("/") and name.startswith(place))
    ]
    return [
        f"{name}:{number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if WORDS.search(line) and not any(part in line for part in allowed)
    ]


def _found() -> dict[str, list[str]]:
    found = {}
    for path in _files():
        name = str(path.relative_to(ROOT))
        if not name.startswith(GUESTS) and (lines := lines_with_words(name, path.read_text())):
            found[name] = lines
    return found


def test_only_a_system_s_own_folders_name_what_it_has() -> None:
    found = _found()
    worse = [line for lines in found.values() for line in lines]
    assert worse == [], "these files run any system: say it in words of any system"


def test_each_allowed_place_is_there_and_has_a_reason() -> None:
    for (place, part), reason in ALLOWED.items():
        files = [ROOT / place] if not place.endswith("/") else (ROOT / place).rglob("*.py")
        lines = [line for file in files for line in file.read_text().splitlines()]
        assert any(part in line and WORDS.search(line) for line in lines), (place, part)
        assert len(reason.split()) > 3, (place, part)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from kraftwreck.harness.options import RunOptions", False),
        ("stat.S_ISREG(mode), this red: isRed(run)", False),
        ("from kraftwreck.systems.kraft.system import SYSTEM", True),
        ('"""The brokers of a test."""', True),
        ("def controller_names(self) -> None: ...", True),
        ("class RequestVoteResponse: ...", False),
        ("api = 'UpdateRaftVoter'", True),
        ("QUORUM_STATE = 1", True),
        ("self.isr = []  # who is in sync", True),
    ],
)
def test_words_are_found_in_names_texts_and_imports(line: str, found: bool) -> None:
    assert bool(lines_with_words("some.py", line)) is found
