"""F15: a formatting that was interrupted can be repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.log.layout import META_PROPERTIES
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated.format_rehearsal import unfinished

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("seed", range(5))
def test_the_nodes_can_repeat_it(seed: int) -> None:
    assert list(unfinished(seed)) == []


def test_a_directory_that_counts_as_formatted_too_early_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace = Filesystem.replace
    later: list[Any] = []

    def planted(self: Filesystem, path: Path, data: bytes) -> None:
        """Write meta.properties before the snapshot."""
        if path.name == META_PROPERTIES:
            replace(self, path, data)
            while later:
                replace(self, *later.pop())
        else:
            later.append((path, data))

    monkeypatch.setattr(Filesystem, "replace", planted)
    assert any("cannot be repeated" in wrong for wrong in unfinished(1))


def test_a_part_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftwreck.nodes.log.format._check_same", lambda *_: None)
    replace = Filesystem.replace
    written: list[str] = []

    def planted(self: Filesystem, path: Path, data: bytes) -> None:
        """Leave the snapshot out of all formattings but the first."""
        if path.name == META_PROPERTIES or not written:
            written.append(path.name)
            replace(self, path, data)

    monkeypatch.setattr(Filesystem, "replace", planted)
    assert any("lacks a part" in wrong for wrong in unfinished(1))
