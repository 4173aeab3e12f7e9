"""A run on hosts computes its tables beside its verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.pipeline import run_tables
from kraftwreck.pipeline.background import Handle

pytestmark = [
    pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("spark")
]  # fmt: skip


class Borrowed:
    """The tests' Spark in place of one that the command would start."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def measure(self, folder: Path) -> None:
        self._handle.measure(folder)

    def finish_judged(self, folder: Path) -> Any:
        return self._handle.finish_judged(folder, timeout_s=1800)

    def close(self) -> None:
        pass


def test_a_run_on_hosts_has_tables(
    worker: Handle, kraftwreck: Callable[..., Any], tmp_path: Path, netns_possible: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(run_tables, "start", lambda _, **how: Borrowed(worker))
    options = ("-n", "none", "-t", 3, "--nodes", 1, "--store", tmp_path, "--json")
    ended = kraftwreck("run", *options)
    said = json.loads(ended.out)
    assert said["tables"]["runs"] == 1
    assert said["tables"]["valid"] == said["valid"]
    assert list(Path(said["run"], "analysis").glob("*.parquet"))
