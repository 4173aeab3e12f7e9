"""Rules of the tree's style that a machine can check."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 450
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
PUT_OFF = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
UNPINNED = "Auto" + "AddPolicy"


def tracked(*patterns: str) -> list[Path]:
    """The files git tracks that match ``patterns`` and still exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


SOURCES = tracked("*.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_source_file_is_short_named_well_and_finished(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE, "more than one idea lives here"
    assert path.stem not in VAGUE
    if path != Path(__file__):
        assert not PUT_OFF.search(text)
        assert UNPINNED not in text, "host keys are pinned"
        assert "shell=True" not in text


def test_no_large_file_is_tracked() -> None:
    large = [p.name for p in tracked() if p.stat().st_size > 400_000]
    assert large == []


def test_every_package_has_a_description() -> None:
    packages = [p for p in SOURCES if p.name == "__init__.py"]
    silent = [str(p.relative_to(ROOT)) for p in packages if not p.read_text().startswith('"""')]
    assert silent == []
