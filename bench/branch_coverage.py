"""Branch coverage by folder: ``python -m bench.branch_coverage [PYTEST ARGUMENT ...]``.

Runs pytest with the arguments under coverage.py, processes that tests start included, and writes
the table ``bench/results/coverage.md``. Code that numba compiles counts as not run.
"""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "build/coverage"
PAGE = ROOT / "bench/results/coverage.md"
ABOUT = (
    "`make coverage` writes this page. It leaves out tests with a marker: those of hosts, Spark,",
    "browsers and whole runs. Code that numba compiles, and code that runs on hosts or in Spark's",
    "workers only, counts as not run.",
)


@dataclass
class Counts:
    """Statements and branches of some files, and how many of them ran."""

    statements: int = 0
    statements_run: int = 0
    branches: int = 0
    branches_run: int = 0

    def add(self, summary: Mapping[str, Any]) -> None:
        """Add a file's ``summary`` from coverage.py's JSON report."""
        self.statements += summary["num_statements"]
        self.statements_run += summary["covered_lines"]
        self.branches += summary["num_branches"]
        self.branches_run += summary["covered_branches"]


def by_folder(report: Mapping[str, Any]) -> dict[str, Counts]:
    """Return the counts of each folder, without its folders, from coverage.py's JSON report."""
    folders: dict[str, Counts] = defaultdict(Counts)
    for file, found in report["files"].items():
        folders[str(Path(file).parent)].add(found["summary"])
    return dict(sorted(folders.items()))


def table(folders: Mapping[str, Counts]) -> list[str]:
    """Return the lines of a Markdown table with a row for each folder and one for all."""
    every = Counts()
    for counts in folders.values():
        every.statements += counts.statements
        every.statements_run += counts.statements_run
        every.branches += counts.branches
        every.branches_run += counts.branches_run
    rows = [(f"`{name}/`", counts) for name, counts in folders.items()]
    return [
        "| folder | statements | run | branches | run |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {counts.statements:,} | {_share(counts.statements_run, counts.statements)}"
            f" | {counts.branches:,} | {_share(counts.branches_run, counts.branches)} |"
            for name, counts in [*rows, ("**all**", every)]
        ),
    ]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _run(*command: str) -> int:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode


def main() -> int:
    """Run the tests and write the page; return pytest's exit code, or that of coverage.py."""
    arguments = sys.argv[1:]
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    failed = _run("coverage", "run", "-m", "pytest", *arguments)
    found = DATA / "report.json"
    for command in (["combine", "-q"], ["json", "-q", "-o", str(found)]):
        if code := _run("coverage", *command):
            return code
    version = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(version, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    lines = [
        "# Coverage by the tests",
        "",
        f"Taken on {datetime.now(UTC):%Y-%m-%d} by {commit} with Python"
        f" {platform.python_version()}{', with failed tests' if failed else ''}. Command:",
        "",
        "```console",
        f"$ {shlex.join(['python', '-m', 'bench.branch_coverage', *arguments])}",
        "```",
        "",
        *ABOUT,
        "",
        *table(by_folder(json.loads(found.read_text()))),
    ]
    PAGE.write_text("\n".join(lines) + "\n")
    print(PAGE.relative_to(ROOT))
    return failed


if __name__ == "__main__":
    sys.exit(main())
