"""The page of ``make coverage``: one row for each folder, from coverage.py's report."""

from __future__ import annotations

from bench.branch_coverage import by_folder, table


def summary(statements: int, run: int, branches: int, taken: int) -> dict[str, object]:
    counts = {
        "num_statements": statements,
        "covered_lines": run,
        "num_branches": branches,
        "covered_branches": taken,
    }
    return {"summary": counts}


def test_files_are_added_up_by_folder() -> None:
    files = {
        "nodes/log/a.py": summary(10, 5, 4, 1),
        "nodes/log/b.py": summary(10, 10, 0, 0),
        "nodes/node.py": summary(1000, 999, 0, 0),
    }
    assert table(by_folder({"files": files})) == [
        "| folder | statements | run | branches | run |",
        "|---|---|---|---|---|",
        "| `nodes/` | 1,000 | 99.9 % | 0 | - |",
        "| `nodes/log/` | 20 | 75.0 % | 4 | 25.0 % |",
        "| **all** | 1,020 | 99.4 % | 4 | 25.0 % |",
    ]
