"""``kraftwreck run`` imports nothing that takes long, and nothing of campaigns."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.test_floors import MODULES, files_imported, module_name

PROGRAM = """
import sys
from kraftwreck.cli.main import cli
try:
    cli(["run", "-c", "sim", "-t", "1", "--seed", "1", "--store", sys.argv[1]])
except SystemExit:
    pass
print("imported:", "pyarrow" in sys.modules, "pandas" in sys.modules)
print("campaigns:", [name for name in sys.modules if name.startswith("kraftwreck.campaigns")])
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The last two lines of a process that made one run and looked at what it imported."""
    store = tmp_path_factory.mktemp("store")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(store)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-2:]


def test_a_run_leaves_pandas_out(printed: list[str]) -> None:
    assert printed[0] == "imported: True False"


def test_a_run_takes_nothing_from_campaigns(printed: list[str]) -> None:
    assert printed[1] == "campaigns: []"


def test_no_module_that_a_run_may_import_imports_campaigns() -> None:
    """Whatever the options: hosts, a planted bug, tables."""
    paths = {module_name(path): path for path in MODULES}
    reached, left = set[str](), {"kraftwreck.cli.run"}
    while left:
        name = left.pop()
        reached.add(name)
        left |= files_imported(paths[name].read_text(), set(paths)) - reached
    assert "kraftwreck.harness.run" in reached
    assert [name for name in sorted(reached) if name.startswith("kraftwreck.campaigns")] == []
