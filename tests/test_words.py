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
    r"kraft(?!wreck)|kafka|broker|controller|quorum|voter|(?<![a-z])isr(?![a-z])", re.IGNORECASE
)

ALLOWED: dict[tuple[str, str], str] = {}
"""Places in which a word is unavoidable: (file, text that each such line has) and the reason."""

UNCLEAN: dict[str, int] = {
    "checkers/catalogue.py": 3,
    "checkers/jepsen/__init__.py": 1,
    "checkers/jepsen/kafka/__init__.py": 1,
    "checkers/jepsen/kafka/checker.py": 7,
    "checkers/jepsen/kafka/consumption.py": 2,
    "checkers/jepsen/kafka/cycles.py": 3,
    "checkers/jepsen/kafka/lag.py": 2,
    "checkers/jepsen/kafka/logs.py": 1,
    "checkers/jepsen/kafka/losses.py": 2,
    "checkers/jepsen/kafka/order.py": 2,
    "checkers/recorded/capture.py": 10,
    "checkers/recorded/run_data.py": 7,
    "examples/README.md": 1,
    "examples/lock_service/serve.py": 10,
    "examples/lock_service/service.py": 15,
    "examples/lock_service/simulated.py": 5,
    "harness/clusters/cgroups.py": 13,
    "harness/clusters/node_root.py": 3,
    "harness/compiled/modules.py": 18,
    "harness/on_host/disk.py": 3,
    "harness/on_host/relay.py": 1,
    "harness/on_host/squeeze.py": 12,
    "harness/options.py": 1,
    "harness/remote/service.py": 2,
    "harness/simulated/embedded.py": 3,
    "harness/triggers.py": 4,
    "histories/disturbance.py": 3,
    "histories/message.py": 1,
    "kraftwreck/pytest_plugin.py": 1,
    "nemesis/relays.py": 1,
    "nightly/example.toml": 2,
    "pipeline/runs.py": 1,
    "pipeline/schemas.py": 1,
    "reports/assets/messages.js": 1,
    "reports/messages.py": 4,
    "reports/plain.py": 2,
    "reports/store/breaks.py": 1,
    "reports/words.py": 1,
    "simulation/disk.py": 14,
    "simulation/disk_check.py": 8,
    "simulation/disk_index.py": 8,
    "systems/raft/invariants.py": 2,
    "systems/raft/simulated.py": 7,
}
"""Files with such words, and the number of their lines. It only shrinks."""


def _files() -> Iterator[Path]:
    for folder in GENERIC:
        for path in sorted((ROOT / folder).rglob("*")):
            ours = not any(parent.is_symlink() for parent in (path, *path.parents))
            if ours and path.is_file() and path.suffix in KINDS and "__pycache__" not in path.parts:
                yield path


def lines_with_words(name: str, text: str) -> list[str]:
    """The lines of a file that name what only KRaft has, without the places in :data:`ALLOWED`."""
    allowed = [part for file, part in ALLOWED if file == name]
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
    worse = [line for name, lines in found.items() if name not in UNCLEAN for line in lines]
    assert worse == [], "these files run any system: say it in words of any system"
    assert {name: len(lines) for name, lines in found.items()} == UNCLEAN, "the list only shrinks"


def test_each_allowed_place_is_there_and_has_a_reason() -> None:
    for (name, part), reason in ALLOWED.items():
        assert WORDS.search(part), (name, part)
        assert any(part in line for line in (ROOT / name).read_text().splitlines()), (name, part)
        assert len(reason.split()) > 3, (name, part)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from kraftwreck.harness.options import RunOptions", False),
        ("stat.S_ISREG(mode), this red: isRed(run)", False),
        ("from kraftwreck.systems.kraft.system import SYSTEM", True),
        ('"""The brokers of a test."""', True),
        ("def controller_names(self) -> None: ...", True),
        ("QUORUM_STATE = 1", True),
        ("self.isr = []  # who is in sync", True),
    ],
)
def test_words_are_found_in_names_texts_and_imports(line: str, found: bool) -> None:
    assert bool(lines_with_words("some.py", line)) is found
