"""``kraftwreck run`` imports nothing that takes long and that it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from kraftwreck.cli.main import cli
try:
    cli(["run", "-c", "sim", "-t", "1", "--seed", "1", "--store", sys.argv[1]])
except SystemExit:
    pass
print("imported:", "pyarrow" in sys.modules, "pandas" in sys.modules)
"""


def test_a_run_leaves_pandas_out(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "imported: True False", done.stderr
