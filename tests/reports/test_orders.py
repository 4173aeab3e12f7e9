"""Legal orders are stepped through by keys, by pointing, and in the list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.cli.main import status
from kraftwreck.histories.convert import write
from tests.checkers.rows import did, history
from tests.reports.conftest import Opened
from tests.reports.pictured_runs import stale_read_ops
from tests.reports.test_accessible import complaints
from tests.reports.test_first_screen import DESK, OVERPRINTED, PHONE

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a register with a stale read; only for reading."""
    folder = tmp_path_factory.mktemp("orders")
    path, page = folder / "h.jsonl", folder / "page.html"
    write(stale_read_ops(), path, "jsonl")
    assert status(["check", str(path), "-m", "cas-register", "--report", str(page)]) == 1
    return page


def step(page: Any) -> str:
    text: str = page.inner_text(".step")
    return text


def current(page: Any) -> list[str]:
    labels: list[str] = page.locator("svg.wide text.label.current").all_text_contents()
    return labels


def test_keys_step_through_an_order(opened: Open, page_file: Path) -> None:
    view = opened(page_file)
    page = view.page
    assert "read → 1 (operation 11) does not fit: the value is 4 here." in step(page)
    assert page.locator("svg.wide .bar.refused").count() == 1
    page.focus("figure.evidence")
    page.keyboard.press("ArrowRight")
    assert step(page) == "1 of 7: write 1 (operation 0): the value is now 1"
    assert current(page) == ["write 1"]
    assert page.locator("svg.wide .bar.later").count() == 6
    assert page.locator("svg.wide .bar.refused").count() == 0
    assert not page.locator("svg.wide .order.shown path.cross").is_visible()
    page.keyboard.press("ArrowRight")
    assert step(page).startswith("2 of 7: read → 1")
    page.keyboard.press("ArrowLeft")
    assert step(page).startswith("1 of 7")
    page.keyboard.press("End")
    assert "does not fit" in step(page)
    page.keyboard.press("ArrowDown")
    assert page.locator(".orders input").nth(1).is_checked()
    assert page.locator("svg.wide .order.shown .point").count() == 5
    page.keyboard.press("Escape")
    assert page.locator(".orders input").nth(0).is_checked()
    assert view.complaints == []


def test_pointing_at_an_operation_shows_the_longest_order_with_it(
    opened: Open, page_file: Path
) -> None:
    page = opened(page_file).page
    page.locator(".orders input").nth(1).check()
    assert page.locator("svg.wide .order.shown .point").count() == 5
    page.locator("svg.wide text.label", has_text="write 2").hover()
    assert step(page) == "3 of 7: write 2 (operation 4): the value is now 2"
    assert page.locator("svg.wide .order.shown .point").count() == 7
    page.locator("h1").hover()
    assert page.locator("svg.wide .order.shown .point").count() == 5, "the chosen one comes back"
    page.locator("svg.wide text.label", has_text="read → 1").last.hover()
    assert "does not fit" in step(page), "no order contains it"
    page.locator(".order.words.shown li", has_text="write 3").hover()
    assert current(page) == ["write 3"]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_overprints(opened: Open, page_file: Path, size: dict[str, int]) -> None:
    page = opened(page_file).page
    page.set_viewport_size(size)
    page.focus("figure.evidence")
    for _ in range(3):
        assert page.evaluate(OVERPRINTED) == []
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened: Open, page_file: Path, scheme: str) -> None:
    page = opened(page_file, color_scheme=scheme).page
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    assert complaints(page) == []


def test_a_history_without_times_opens_without_charts(opened: Open, tmp_path: Path) -> None:
    path, page = tmp_path / "h.jsonl", tmp_path / "page.html"
    write(history([*did(0, "write", 1), *did(1, "read", 2)]), path, "jsonl")
    assert status(["check", str(path), "-m", "register", "--report", str(page)]) == 1
    view = opened(page)
    assert view.complaints == []
    assert len(view.requests) == 1, "the page needs nothing but itself"
    assert "2" in view.page.locator("svg.wide").text_content()
