"""Options that ``run`` refuses before it touches a host: one line, exit code 254."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.clusters.keys import new_key_pair
from kraftwreck.harness.remote.preloads import ClockworkError
from kraftwreck.runs import one_run


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """One host that does not answer."""
    path = tmp_path / "hosts"
    path.write_text(f'n1 192.0.2.1 hostkey="{new_key_pair()[1]}"\n')
    return path


def test_wrong_clocks_without_a_compiler(
    kraftwreck: Callable[..., Any], inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> bytes:
        raise ClockworkError("the fault 'clock' needs gcc, which is not there: apt-get install gcc")

    monkeypatch.setattr(one_run, "library", missing)
    ended = kraftwreck("run", "-c", f"hosts:{inventory}", "-n", "clock")
    assert ended.code == 254
    assert "apt-get install gcc" in ended.err
    assert ended.err.count("\n") == 1


def test_no_snapshots_is_an_option_of_hosts(kraftwreck: Callable[..., Any]) -> None:
    ended = kraftwreck("run", "-c", "sim", "--no-snapshots")
    assert ended.code == 254
    assert "--no-snapshots needs real hosts" in ended.err
    assert ended.err.count("\n") == 1
