"""The clean-shutdown file counts for exactly one start."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.nodes.server import clean_shutdown


def test_a_clean_shutdown_file_is_used_once(tmp_path: Path) -> None:
    clean_shutdown.write(tmp_path, 42)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":42}'
    assert clean_shutdown.take(tmp_path) == 42
    assert clean_shutdown.take(tmp_path) == clean_shutdown.UNCLEAN
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"brokerEpoch":"1"}', '{"brokerEpoch":-5}'])
def test_an_unreadable_file_is_no_clean_shutdown(tmp_path: Path, content: str) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_text(content)
    assert clean_shutdown.take(tmp_path) == -1
    assert list(tmp_path.iterdir()) == []
