"""A stale installation is refused in one line that says what to do."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

import pytest

from kraftwreck.histories import plugins
from kraftwreck.histories.installation import (
    PACKAGE,
    SOURCES,
    StaleInstallationError,
    check_installation,
)


def sources(folder: Path, add: str = "") -> Path:
    """Return sources that declare what is installed, changed."""
    lines = ["[project]", 'name = "kraftwreck"']
    points = sorted(distribution(PACKAGE).entry_points, key=lambda point: point.group)
    for group in sorted({point.group for point in points}):
        if group == "console_scripts":
            continue
        lines.append(f'[project.entry-points."{group}"]')
        lines += [f'{p.name} = "{p.value}"' for p in points if p.group == group]
    (folder / "pyproject.toml").write_text("\n".join(lines) + add + "\n")
    return folder


def test_this_installation_is_that_of_the_sources() -> None:
    check_installation()
    assert (SOURCES / "pyproject.toml").exists()


def test_what_is_installed_as_declared_is_not_stale(tmp_path: Path) -> None:
    check_installation(sources(tmp_path))


def test_sources_of_a_wheel_declare_nothing(tmp_path: Path) -> None:
    check_installation(tmp_path)


def test_sources_in_a_zip_declare_nothing(tmp_path: Path) -> None:
    """Executors of Spark import the package from one."""
    archive = tmp_path / "kraftwreck.zip"
    archive.write_bytes(b"")
    check_installation(archive / "kraftwreck")


def test_an_entry_point_that_was_added_later_is_named(tmp_path: Path) -> None:
    added = '\n[project.entry-points."kraftwreck.later"]\nnew = "kraftwreck.new:NEW"'
    with pytest.raises(StaleInstallationError) as raised:
        check_installation(sources(tmp_path, add=added))
    said = str(raised.value)
    assert "it lacks the entry point 'new' of 'kraftwreck.later', which " in said
    assert said.endswith("declares; run: make setup")
    assert "\n" not in said


def test_an_entry_point_that_has_moved_is_stale(tmp_path: Path) -> None:
    here = sources(tmp_path)
    text = (here / "pyproject.toml").read_text()
    moved = text.replace("kraft.recorded.recordings:", "kraft.elsewhere:")
    assert moved != text
    (here / "pyproject.toml").write_text(moved)
    with pytest.raises(StaleInstallationError, match=r"'kraft' of 'kraftwreck\.recordings'"):
        check_installation(here)


def test_no_plugin_is_used_of_a_stale_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = '\n[project.entry-points."kraftwreck.later"]\nnew = "kraftwreck.new:NEW"'
    stale = sources(tmp_path, add=added)
    monkeypatch.setattr(plugins, "check_installation", lambda: check_installation(stale))
    plugins._checked.cache_clear()
    try:
        with pytest.raises(StaleInstallationError):
            plugins.plugins("kraftwreck.a group that nobody asked for")
    finally:
        plugins._checked.cache_clear()
