"""Links and file names in Markdown lead to something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_tidy import ROOT, tracked

PAGES = tracked("*.md")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|toml|md))`")
_FOLDER = re.compile(r"`((?:[\w.-]+/)+)`")
TOUR = ("ARCHITECTURE.md", "CONTRIBUTING.md")
"""Pages that show the way through the tree, by paths from its root."""


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, link: str) -> bool:
    """Return whether a link of a page leads to no file, or to no heading in it."""
    if "://" in link:
        return False
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    return not target.exists() or bool(anchor and anchor not in anchors(target))


def test_relative_links_have_their_file_and_heading() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in _LINK.findall(_FENCE.sub("", page.read_text()))
        if broken(page, link)
    ]
    assert found == []


def test_a_broken_link_is_found() -> None:
    page = ROOT / "docs/README.md"
    assert broken(page, "nowhere.md")
    assert broken(page, "faults.md#no-such-heading")
    assert not broken(page, "https://example.org/nowhere")
    assert not broken(page, "faults.md")


@pytest.mark.parametrize("name", TOUR)
def test_files_named_on_a_tour_exist(name: str) -> None:
    text = _FENCE.sub("", (ROOT / name).read_text())
    named = [*_FILE.findall(text), *(f for f in _FOLDER.findall(text) if "/" in f.rstrip("/"))]
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_decision_has_a_number_of_its_own_and_is_in_the_index() -> None:
    pages = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))
    assert len({name[:4] for name in pages}) == len(pages)
    index = (ROOT / "docs/README.md").read_text()
    assert [name for name in pages if f"(decisions/{name})" not in index] == []
