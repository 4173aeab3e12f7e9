"""Rules of the tree's style that a machine can check."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 600
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


def test_source_files_are_short_named_well_and_finished() -> None:
    wrong: list[str] = []
    for path in SOURCES:
        text = path.read_text()
        mistakes = {
            "more than one idea lives here": text.count("\n") > LONGEST_FILE,
            "the name says nothing": path.stem in VAGUE,
            "unfinished": path != Path(__file__) and bool(PUT_OFF.search(text)),
            "host keys are pinned": path != Path(__file__) and UNPINNED in text,
            "a shell": path != Path(__file__) and "shell=True" in text,
        }
        wrong += [f"{path.relative_to(ROOT)}: {what}" for what, is_so in mistakes.items() if is_so]
    assert wrong == []


def test_no_large_file_is_tracked() -> None:
    large = [p.name for p in tracked() if p.stat().st_size > 400_000]
    assert large == []


def test_every_package_has_a_description() -> None:
    packages = [p for p in SOURCES if p.name == "__init__.py"]
    silent = [str(p.relative_to(ROOT)) for p in packages if not p.read_text().startswith('"""')]
    assert silent == []
