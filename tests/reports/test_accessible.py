"""The report for everybody: axe-core finds nothing, in light and dark, and it prints."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.elle.check import check_transactions
from kraftwreck.checkers.linearizability.keyed import check_calls
from kraftwreck.checkers.linearizability.models import MODELS
from kraftwreck.histories.verdict import Verdict
from kraftwreck.reports.run_report import write_report
from tests.reports.conftest import Opened
from tests.reports.pictured_runs import cycle_ops, stale_read_ops, write_judged_run

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js.gz"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def complaints(page: Any, within: str = "html") -> list[str]:
    """Return axe-core's findings against WCAG 2.2 A and AA, with their elements."""
    page.evaluate(gzip.decompress(AXE.read_bytes()).decode())
    found = page.evaluate(
        "([within, rules]) => axe.run(within, {runOnly: {type: 'tag', values: rules}})",
        [within, RULES],
    )
    assert found["passes"]
    return [
        f"{v['id']}: {v['help']}: {[n['target'] for n in v['nodes'][:3]]} "
        f"{v['nodes'][0].get('failureSummary', '')}"
        for v in found["violations"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened: Open, report: Path, scheme: str) -> None:
    page = opened(report, color_scheme=scheme).page
    page.keyboard.press("j")
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    assert complaints(page) == []


@pytest.mark.parametrize("of", ["register", "transactions"])
def test_axe_finds_nothing_in_pictures(opened: Open, tmp_path: Path, of: str) -> None:
    if of == "register":
        ops = stale_read_ops()
        result = check_calls(MODELS["cas-register"], pair(ops))
    else:
        ops = cycle_ops()
        result = check_transactions(ops, "list-append")
    folder = write_judged_run(tmp_path / "run", ops, Verdict.of({"checker": result}))
    page = opened(write_report(folder), color_scheme="dark").page
    page.evaluate("for (const d of document.querySelectorAll('.anomaly')) d.open = true")
    assert complaints(page, ".anomaly") == []


COLOURS = ("text", "muted", "ok", "fail", "info", "p50", "p95", "p99", "mark", "partition", "kill",
           "pause", "other-fault", "down", "accent")  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drawings_have_contrast_with_their_background(
    opened: Open, report: Path, scheme: str
) -> None:
    """Axe cannot see into a canvas: 3 to 1 for shapes, 4.5 to 1 for text (WCAG 1.4.11, 1.4.3)."""
    page = opened(report, color_scheme=scheme).page

    def luminance(name: str) -> float:
        text = page.evaluate(
            "n => getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim()",
            name,
        )
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    ground = luminance("panel")
    for name in COLOURS:
        low, high = sorted((luminance(name), ground))
        least = 4.5 if name in ("text", "muted", "p50", "p95", "p99", "accent") else 3
        assert (high + 0.05) / (low + 0.05) >= least, f"{name} in {scheme}"


def test_all_of_it_can_be_reached_by_keyboard(opened: Open, report: Path) -> None:
    page = opened(report).page
    reached: set[str] = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(e => e.id || e.dataset.key || e.className || e.tagName)(document.activeElement)"
            )
        )
    assert {"charts", "copy", "+", "-", "0", "link show", "SUMMARY"} <= reached


def test_it_prints_without_controls_and_without_hiding_anything(opened: Open, report: Path) -> None:
    page = opened(report).page
    page.emulate_media(media="print")
    page.wait_for_timeout(200)
    assert page.is_hidden("#copy")
    assert page.is_hidden(".keys")
    assert page.is_visible("#charts")
    cut = page.evaluate(
        """[...document.querySelectorAll('.scroll, .list, pre')].filter(
             e => getComputedStyle(e).overflowY !== 'visible').map(e => e.className)"""
    )
    assert cut == [], "nothing is cut off on paper"
    assert page.pdf(format="A4")[:5] == b"%PDF-"
