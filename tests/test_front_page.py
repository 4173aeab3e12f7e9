"""The statements of the front page are true today."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def test_the_stale_read_of_the_picture_is_found_by_its_command(
    kraftwreck: Callable[..., Any], tmp_path: Path
) -> None:
    caption = (ROOT / "README.md").read_text().partition("\n*A planted bug")[2].partition("*\n")[0]
    (command,) = re.findall(r"`kraftwreck (run [^`]+)`", caption)
    ended = kraftwreck(*command.split(), "--store", tmp_path)
    assert ended.code == 1, "the run is INVALID"
    assert re.search(r"^ *linearizable +INVALID 1 anomal", ended.out + ended.err, re.MULTILINE)


def test_the_number_of_rules_is_that_of_the_pages_which_list_them() -> None:
    pages = [(ROOT / "docs" / name).read_text() for name in ("invariants.md", "simulator.md")]
    ids = {
        found for page in pages for found in re.findall(r"^\| ([CDFIL]\d+) \|", page, re.MULTILINE)
    }
    assert f"| {len(ids)} by id:" in (ROOT / "README.md").read_text()
