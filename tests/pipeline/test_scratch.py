"""Temporary files of killed analyses are deleted, and no others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kraftwreck.pipeline.scratch import scratch, sweep

NOBODY = 1 << 30
"""No process has this number."""


def test_old_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    long_ago = time.time() - 100_000
    names = {
        "gone": f"kraftwreck-spark-{NOBODY}-x",
        "silver": f"kraftwreck-silver-{NOBODY}-x",
        "alive": f"kraftwreck-spark-{os.getpid()}-x",
        "young": f"kraftwreck-spark-{NOBODY}-young",
        "other": f"kraftwreck-worker-{NOBODY}-x",
        "foreign": "precious",
    }
    for key, name in names.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
        if key != "young":
            os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / f"kraftwreck-spark-{NOBODY}-link").symlink_to(tmp_path / "precious")
    sweep(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert {key for key, name in names.items() if name not in left} == {"gone", "silver"}
    assert (tmp_path / "precious" / "file").exists()


def test_a_folder_is_there_for_as_long_as_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch("silver") as place:
        (place / "file").write_text("x")
        assert str(os.getpid()) in place.name
    assert list(tmp_path.iterdir()) == []
    sweep(tmp_path / "nowhere")
