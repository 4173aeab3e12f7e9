"""Words of one system stay in its own folders: the rest of the project runs any system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
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
_OF_RAFT = "the name of a setting of Raft, by its authors"
_FEW_HOSTS = "an option of the default system, without which it has more hosts"
_A_LIST_OF_PATHS = "the modules that mypyc compiles, by their paths"

IN_TESTS = re.compile(
    r"kafka|broker|controller|quorum|voters?(?![a-z])|(?<![a-z])isr(?![a-z])", re.IGNORECASE
)
"""The words for tests and benchmarks. A test of a generic part runs it with some system, so the
name of the default system is no finding there."""

OF_A_SYSTEM: dict[str, str] = {
    "bench/acknowledgements.py": "measures brokers of nodes/",
    "bench/planted_bugs.py": "hunts the bugs of mutants/",
    "bench/random_bugs.py": "makes bugs of nodes/",
    "bench/suites/": "measures brokers of nodes/",
    "tests/admin/": "tests of nodes/",
    "tests/broker/": "tests of nodes/",
    "tests/consensus/": "tests of nodes/",
    "tests/frames/": "tests of nodes/",
    "tests/log/": "tests of nodes/",
    "tests/metadata/": "tests of nodes/",
    "tests/protocol/": "tests of nodes/",
    "tests/replication/": "tests of nodes/",
    "tests/server/": "tests of nodes/",
    "tests/checkers/kraft/": "tests of checkers/kraft",
    "tests/checkers/conftest.py": "recorded runs of nodes/, most for tests of checkers/kraft",
    "tests/checkers/test_step_rules.py": "tests of checkers/kraft",
    "tests/systems/kraft/": "tests of systems/kraft",
    "tests/mutants/": "tests of mutants/",
    "tests/oracle/": "tests of oracle/",
    "tests/regressions/": "recorded failures of nodes/",
    "tests/checkers/jepsen/": "Jepsen has a checker of this name, which judges any log",
    "tests/checkers/test_checker_mutants.py": "Jepsen has a checker of this name, with its paths",
    "tests/examples/": "the example runs on both cores of nodes/, by their names",
    "tests/simulation/": "most tests watch runs of nodes/ in the simulator",
    "tests/clusters/test_brokers.py": "hosts of systems/kraft",
    "tests/clusters/test_disks_and_voters.py": "hosts of systems/kraft",
    "tests/clusters/test_kafka_client.py": "hosts of systems/kraft",
    "tests/clusters/test_remote_admin.py": "hosts of systems/kraft",
    "tests/clusters/test_roles.py": "hosts of systems/kraft",
    "tests/clusters/test_roles_and_restarts.py": "hosts of systems/kraft",
    "tests/wild/": "systems that nobody here wrote, by their names",
    "bench/wild": "systems that nobody here wrote, by their names",
    "bench/hosts_matrix": "measures runs of systems/kraft, with all of its options",
    "bench/hygiene.py": "measures runs of systems/kraft, with all of its options",
    "bench/nodes.py": "measures runs of systems/kraft, with all of its options",
    "bench/simulator.py": "measures runs of systems/kraft, with all of its options",
    "bench/slow_disk.py": "measures nodes/",
    "bench/start.py": "measures runs of systems/kraft, with all of its options",
    "tests/seconds.json": "paths and names of all tests",
    "bench/broker": "measures nodes/ beside a system that nobody here wrote",
    "bench/kafka_": "measures nodes/ beside a system that nobody here wrote",
    "bench/quorums/": "measures the cores of nodes/",
    "bench/push_and_pull.py": "measures the cores of nodes/",
    "bench/codec.py": "measures nodes/",
    "bench/image.py": "measures nodes/",
    "bench/results/": "pages of figures, most of nodes/",
    "tests/test_words.py": "this file names the words",
}
"""Tests and benchmarks, by the start of their path, of what a system has for itself; and why."""

ALLOWED_IN_TESTS: dict[tuple[str, str], str] = {
    (
        "tests/checkers/test_registry.py",
        '"quorum-state"',
    ): _A_FILE_OF_BOTH_CORES,
    ("tests/systems/raft/test_hosts.py", '"quorum-state"'): _A_FILE_OF_BOTH_CORES,
    ("tests/systems/raft/test_simulated.py", "check_quorum"): _OF_RAFT,
    ("tests/reports/test_log_pictures.py", "IN_SYNC"): "a trace event of the default system",
    ("tests/cli/test_nightly.py", "brokers = 0"): _FEW_HOSTS,
    ("tests/clusters/test_nights.py", "brokers = 0"): _FEW_HOSTS,
    (
        "tests/clusters/test_rootless.py",
        '"roles-slow", "--brokers", "1"',
    ): "the only family of which nothing is possible without packets",
    ("tests/compiled/suites.py", '"broker", "checkers"'): "folders of tests of nodes/",
    ("tests/harness/conftest.py", '"controller_id": 1'): "the answer that a workload waits for",
    ("tests/test_floors.py", "_GUESTS = "): "the modules of one system, by their paths",
    ("tests/vagrant/matrix.py", '"--controllers", "3"'): "an option of bench/hosts_matrix",
}
"""Lines of other tests in which a word is unavoidable, by a text of theirs, with the reason."""

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
    ("systems/raft/simulated.py", "check_quorum"): _OF_RAFT,
    ("systems/raft/simulated.py", "quorum_state"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "QuorumState"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "QUORUM_STATE"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "quorum_state"): _A_FILE_OF_BOTH_CORES,
    ("simulation/", "quorum-state"): _A_FILE_OF_BOTH_CORES,
    ("harness/on_host/disk.py", "quorum-state"): _A_FILE_OF_BOTH_CORES,
    ("harness/compiled/modules.py", '"checkers/kraft/'): _A_LIST_OF_PATHS,
    ("harness/compiled/modules.py", '"systems/kraft/'): _A_LIST_OF_PATHS,
    ("harness/compiled/modules.py", '"nodes/'): _A_LIST_OF_PATHS,
    ("campaigns/hunting.py", '"nodes/broker/'): _A_LIST_OF_PATHS,
}
"""Places in which a word is unavoidable: a file, or a folder that ends with a slash, with the text
that each such line has (all of them: empty), and the reason."""


def _files_of(folder: str) -> Iterator[Path]:
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
    for path in chain.from_iterable(map(_files_of, GENERIC)):
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


def _found_in_tests() -> Iterator[tuple[str, str]]:
    """Yield each line with a word, with its file, of tests and benchmarks of generic parts."""
    for path in chain(_files_of("bench"), _files_of("tests")):
        name = str(path.relative_to(ROOT))
        if name.startswith(tuple(OF_A_SYSTEM)):
            continue
        for line in path.read_text().splitlines():
            if IN_TESTS.search(line):
                yield name, line.strip()


def test_tests_of_generic_parts_do_not_name_what_one_system_has() -> None:
    allowed = list(ALLOWED_IN_TESTS)
    worse = [
        f"{name}: {line}"
        for name, line in _found_in_tests()
        if not any(name == place and part in line for place, part in allowed)
    ]
    assert worse == [], "say it in words of any system, or move the test to the system's own folder"


def test_each_allowed_line_of_a_test_is_there_and_has_a_reason() -> None:
    lines = list(_found_in_tests())
    for (place, part), reason in ALLOWED_IN_TESTS.items():
        assert sum(name == place and part in line for name, line in lines) == 1, (place, part)
        assert len(reason.split()) > 3, (place, part)


def test_each_path_of_a_system_s_own_tests_is_there() -> None:
    for start in OF_A_SYSTEM:
        assert list(ROOT.glob(f"{start.rstrip('/')}*")), start


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
