"""The first screen of a report, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.elle.check import check_transactions
from kraftwreck.checkers.linearizability.keyed import check_calls
from kraftwreck.checkers.linearizability.models import MODELS
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Verdict
from kraftwreck.reports.run_report import LISTED, write_report
from tests.reports.conftest import Opened
from tests.reports.pictured_runs import cycle_ops, stale_read_ops, write_judged_run

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]

DESK, PHONE = {"width": 1280, "height": 800}, {"width": 420, "height": 900}

BOXES = """selector => [...document.querySelectorAll(selector)]
  .filter(e => e.checkVisibility())
  .map(e => e.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])"""

OVERPRINTED = """() => {
  const texts = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!node.data.trim() || !parent.checkVisibility() ||
      parent.closest("script, noscript, title, .order:not(.shown)")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const frame = parent.closest("pre, #repeat")?.getBoundingClientRect();
    for (const { left, top, right, bottom } of range.getClientRects()) {
      const box = { left, top, right: Math.min(right, frame?.right ?? right),
        bottom: Math.min(bottom, frame?.bottom ?? bottom) };
      if (left >= 0) texts.push({ text: node.data.trim().slice(0, 40), box, node });
    }
  }
  const found = [];
  texts.forEach((a, i) => {
    for (const b of texts.slice(i + 1)) {
      if (a.node === b.node) continue;
      const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (across > 2 && down > 5) found.push(`${a.text} / ${b.text}`);
    }
  });
  return found;
}"""

SCROLLING = """() => [...document.querySelectorAll("#anomalies, #anomalies *")]
  .filter(e => !(e instanceof SVGElement))
  .filter(e => /auto|scroll|hidden/.test(getComputedStyle(e).overflow))
  .map(e => e.tagName + "." + e.className)"""


def reports(folder: Path, invalid: Path) -> dict[str, Path]:
    """A report with a window, one with a cycle, and one of a whole run."""
    register, transactions = stale_read_ops(), cycle_ops()
    judged = {
        "window": (register, check_calls(MODELS["cas-register"], pair(register))),
        "cycle": (transactions, check_transactions(transactions, "list-append")),
    }
    written = {
        name: write_report(write_judged_run(folder / name, ops, Verdict.of({"checker": result})))
        for name, (ops, result) in judged.items()
    }
    return {**written, "run": invalid}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, report: Path) -> dict[str, Path]:
    """Reports of all kinds; only for reading."""
    return reports(tmp_path_factory.mktemp("pages"), report)


def sized(opened: Open, path: Path, size: dict[str, int]) -> Any:
    """Open a report in a window of ``size``."""
    page = opened(path).page
    page.set_viewport_size(size)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(50)
    return page


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("kind", ["window", "cycle", "run"])
def test_operations_of_the_first_anomaly_are_in_view(
    opened: Open, pages: dict[str, Path], kind: str, size: dict[str, int]
) -> None:
    page = sized(opened, pages[kind], size)
    proof = "table.operations tbody tr" if kind == "run" else ":is(.bar rect, .box)"
    for selector in (f"#anomaly-1 {proof}", "#anomaly-1 summary", "h1"):
        boxes = page.evaluate(BOXES, selector)
        assert boxes, selector
        for left, top, right, bottom in boxes:
            assert left >= 0, selector
            assert top >= 0, selector
            assert right <= size["width"], selector
            assert bottom <= size["height"], selector


def test_values_of_the_first_anomaly_are_in_view(opened: Open, pages: dict[str, Path]) -> None:
    page = sized(opened, pages["window"], DESK)
    labels = page.locator("#anomaly-1 svg.wide text.label")
    assert "read → 1" in labels.all_text_contents()
    page = sized(opened, pages["run"], DESK)
    rows = page.evaluate(BOXES, "#anomaly-1 table.operations tr")
    assert all(bottom <= DESK["height"] for *_, bottom in rows)


@pytest.mark.parametrize("kind", ["window", "cycle", "run"])
def test_nothing_overprints_on_a_phone(opened: Open, pages: dict[str, Path], kind: str) -> None:
    page = sized(opened, pages[kind], PHONE)
    assert page.evaluate(OVERPRINTED) == []
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    assert page.evaluate(OVERPRINTED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("kind", ["window", "cycle", "run"])
def test_no_scroll_box_holds_anomalies(
    opened: Open, pages: dict[str, Path], kind: str, size: dict[str, int]
) -> None:
    page = sized(opened, pages[kind], size)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    assert page.evaluate(SCROLLING) == []
    for left, _, right, _ in page.evaluate(BOXES, "#anomalies td, #anomalies svg, #anomalies p"):
        assert left >= 0
        assert right <= size["width"]


def test_many_anomalies_are_counted_and_one_click_away(opened: Open, tmp_path: Path) -> None:
    ops = stale_read_ops()
    found = [Anomaly(type="lost", explanation=f"Lost {i}.", operations=[0]) for i in range(60)]
    result = CheckerResult(valid=False, anomalies=found)
    folder = write_judged_run(tmp_path / "run", ops, Verdict.of({"committed": result}))
    page = opened(write_report(folder)).page
    assert page.locator(".anomaly:visible").count() == LISTED
    page.get_by_text(f"Show {60 - LISTED} more anomalies").click()
    assert page.locator(".anomaly:visible").count() == 60
    page.get_by_text(f"Show {60 - LISTED} more anomalies").click()
    page.keyboard.press("k")
    assert page.locator("#anomaly-60").is_visible(), "selecting an anomaly opens the list"


def test_several_rules_of_one_fact_share_an_entry(opened: Open, tmp_path: Path) -> None:
    ops = stale_read_ops()
    result = check_calls(MODELS["cas-register"], pair(ops))
    read = result.anomalies[0].operations[-1]
    other = Anomaly(type="stale", explanation="A stale read.", operations=[read])
    verdict = Verdict.of(
        {"stale": CheckerResult(valid=False, anomalies=[other]), "linearizable": result}
    )
    page = opened(write_report(write_judged_run(tmp_path / "run", ops, verdict))).page
    assert page.locator(".anomaly").count() == 1
    assert "1 anomaly" in page.inner_text("#verdict")
    rules = page.inner_text("#anomaly-1 p.rules")
    assert rules == "Reported by linearizable (nonlinearizable), stale (stale)."
    assert page.locator("#anomaly-1 svg.wide .order").count() > 0, "the picture leads"


def test_the_page_works_in_a_sandbox_without_an_origin(opened: Open, report: Path) -> None:
    view = opened(report)
    page = view.page
    page.route(
        "http://store.test/**",
        lambda route: route.fulfill(
            body=report.read_text(encoding="utf-8"),
            content_type="text/html",
            headers={"Content-Security-Policy": "sandbox allow-scripts"},
        ),
    )
    page.goto("http://store.test/report.html#anomaly=1")
    page.wait_for_selector("#charts[data-ready]")
    assert page.evaluate("origin") == "null"
    page.keyboard.press("+")
    page.wait_for_timeout(500)
    assert "t=" in page.evaluate("location.hash"), "the address follows the view"
    page.click("#copy")
    page.get_by_role("button", name="Copied").wait_for()
    assert view.complaints == []
