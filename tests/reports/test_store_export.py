"""The store's pages as files: the written files, and refused targets."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from kraftwreck.reports.run_folder import RunFolderError
from kraftwreck.reports.store.export import export
from tests.reports.made_store import FIRST_DAY, make_run, make_store, write_json


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name in ("href", "src") and value]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of 40 runs and two nights."""
    return make_store(tmp_path / "store", 40, nights=2)


def test_every_link_of_an_export_leads_to_one_of_its_files(store: Path, tmp_path: Path) -> None:
    done = export(store, tmp_path / "site")
    assert done.nights == 2
    pages = list(done.folder.rglob("index.html"))
    assert len(pages) == 3
    pages += done.folder.glob("compare/*.html")
    for page in pages:
        parser = _Links()
        parser.feed(page.read_text())
        for link in parser.links:
            if not link.startswith("#"):
                assert (page.parent / unquote(link)).resolve().is_file(), f"{page}: {link}"


def test_reports_of_reds_are_taken_along_of_all_or_of_none(store: Path, tmp_path: Path) -> None:
    reds = export(store, tmp_path / "site")
    everything = export(store, tmp_path / "site", "all")
    nothing = export(store, tmp_path / "site", "none")
    assert 0 < reds.reports < everything.reports
    assert everything.reports == len(list(store.glob("*/*/report.html")))
    assert nothing.reports == 0
    assert list((tmp_path / "site").rglob("report.html")) == [], "an old export is replaced"


def test_the_store_and_foreign_folders_are_never_written_to(store: Path, tmp_path: Path) -> None:
    before = sorted(store.rglob("*"))
    for target in (store, store / "site", store / "nights"):
        with pytest.raises(RunFolderError, match="is in the store"):
            export(store, target)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("all my work")
    with pytest.raises(RunFolderError, match="other files than an export"):
        export(store, precious)
    (tmp_path / "link").symlink_to(precious)
    with pytest.raises(RunFolderError, match="not a directory"):
        export(store, tmp_path / "link")
    assert (precious / "thesis.txt").exists()
    assert sorted(store.rglob("*")) == before


def test_a_report_that_is_a_link_is_not_taken_along(store: Path, tmp_path: Path) -> None:
    path = store / make_run(store, 5, 1, FIRST_DAY) / "report.html"
    (tmp_path / "secret.txt").write_text("not for the web")
    path.unlink()
    path.symlink_to(tmp_path / "secret.txt")
    export(store, tmp_path / "site", "all")
    found = (tmp_path / "site").rglob("report.html")
    assert all("not for the web" not in file.read_text() for file in found)


def test_pairs_that_pages_link_to_are_compared_in_the_export(store: Path, tmp_path: Path) -> None:
    times = [FIRST_DAY, FIRST_DAY + timedelta(seconds=7)]
    paths = [make_run(store, 5, n, at, seed=77, faults=[]) for n, at in enumerate(times)]
    for path, valid in zip(paths, (True, False), strict=True):
        test = json.loads((store / path / "test.json").read_text())
        fixed = {"system": "kraft", "workload": "register", "cluster": "sim", "repeat": "x"}
        write_json(store / path / "test.json", test | fixed)
        write_json(store / path / "results.json", {"valid": valid, "checkers": {}})
    done = export(store, tmp_path / "site", "none")
    assert done.compared >= 1
    pages = list((tmp_path / "site" / "compare").iterdir())
    assert len(pages) == done.compared
    texts = [page.read_text() for page in pages]
    assert any(all(Path(path).name in text for path in paths) for text in texts)
    assert all("Two runs side by side" in text and "Swap A" not in text for text in texts)
    overview = (tmp_path / "site" / "index.html").read_text()
    assert f'href="compare/{pages[0].name}"' in overview
    assert f"kraftwreck serve {store.name}" in overview


def test_the_command_exports_and_ends(
    kraftwreck: Callable[..., Any], store: Path, tmp_path: Path
) -> None:
    arguments = [str(store), "--export", str(tmp_path / "site"), "--json"]
    result = kraftwreck("serve", *arguments)
    assert result.code == 0
    told = json.loads(result.out)
    assert (Path(told["export"]) / "index.html").is_file()
    assert told["nights"] == 2
    assert told["compared"] >= 0


def test_a_failed_export_is_one_line_and_254(
    kraftwreck: Callable[..., Any], store: Path, tmp_path: Path
) -> None:
    for arguments in (
        [str(store), "--export", str(store / "x")],
        [str(tmp_path / "nothing"), "--export", str(tmp_path / "y")],
        [str(next(store.glob("kraft-*/*"))), "--export", str(tmp_path / "z")],
    ):
        result = kraftwreck("serve", *arguments)
        assert result.code == 254
        assert result.err.count("\n") == 1
