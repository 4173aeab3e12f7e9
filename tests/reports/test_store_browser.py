"""The store's pages in headless Chromium: content, filter, keyboard, and no complaints."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.reports.store.export import export
from kraftwreck.reports.web import StoreServer
from tests.reports.fake_run import HOSTILE, write_fake_run
from tests.reports.made_store import make_store, write_gold, write_json

pytestmark = pytest.mark.browser
FIRST = "kraft-register/20261122T020000.000Z-0"
SECOND = "kraft-register/20261122T020001.000Z-1"
RUNS = 300 + 2 * 220 + 2
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 300 runs, two nights, and two whole runs with hostile names."""
    store = make_store(tmp_path_factory.mktemp("browsed") / "store", 300, nights=2)
    for path, invalid in ((FIRST, True), (SECOND, False)):
        folder = write_fake_run(store / path, invalid=invalid)
        checkers: dict[str, Any] = {"epochs": {"valid": True}}
        if invalid:
            found = {"type": HOSTILE, "explanation": HOSTILE}
            checkers = {"epochs": {"valid": False, "anomalies": [found]}}
        write_json(folder / "results.json", {"valid": not invalid, "checkers": checkers})
    rows: list[dict[str, Any]] = []
    for made in sorted(store.glob("kraft-*/202611*")):
        day = int(made.name[6:8])
        if day <= 11:
            run = f"{made.parent.name}/{made.name}"
            told = {"availability": 1 - (day - 1) / 100, "p99_ms": 2.0**day}
            rows.append({"run": run, "system": "kraft", **told})
    write_gold(store, {"runs": rows}, [row["run"] for row in rows])
    return store


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    """A server over the store."""
    with StoreServer(store, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Visit]:
    """Open a page of the server; nothing may be complained of or asked of anybody else."""
    contexts = []
    complaints: list[str] = []

    def go(target: str = "", **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1300, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.on(
            "request",
            lambda r: complaints.append(r.url) if not r.url.startswith(address) else None,
        )
        page.goto(target if "://" in target else address + target)
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def drawn(page: Any) -> Any:
    """Wait until the overview is drawn."""
    page.wait_for_selector("html[data-drawn]", timeout=300_000)
    return page


def rows(page: Any) -> list[str]:
    """The runs in the table, a line each."""
    return [str(text) for text in page.locator("#run-table tbody tr").all_inner_texts()]


def redrawn(page: Any, act: Callable[[], Any]) -> None:
    """Do something that draws the page again, and wait until it did."""
    before = page.evaluate("document.documentElement.dataset.drawn")
    act()
    changed = "before => document.documentElement.dataset.drawn !== before"
    page.wait_for_function(changed, arg=before)


def test_the_first_screen_names_the_failure(visit: Visit) -> None:
    page = drawn(visit())
    head = page.locator("#verdict")
    assert "1 thing broke" in head.inner_text()
    assert "register: nonlinearizable" in head.inner_text()
    assert head.bounding_box()["height"] < 400, "the first screen has room for more"
    page.click("#verdict a")
    assert page.locator("#break-1").is_visible()
    assert "kraftwreck sim kraft -w register" in page.locator("#repeat-1").inner_text()


def test_every_run_is_counted_and_shown_a_piece_at_a_time(visit: Visit) -> None:
    page = drawn(visit())
    assert page.locator("#count").inner_text().startswith(f"{RUNS} of {RUNS} runs")
    assert len(rows(page)) == 100
    page.click("#more")
    assert len(rows(page)) == 300
    assert page.evaluate("document.activeElement.closest('tr') !== null"), "focus stays there"


def test_the_filter_narrows_everything_and_stays_in_the_address(visit: Visit) -> None:
    page = drawn(visit())
    redrawn(page, lambda: page.select_option("[name=fault]", "kill"))
    redrawn(page, lambda: page.select_option("[name=verdict]", "invalid"))
    redrawn(page, lambda: page.select_option("[name=build]", "clean"))
    found = rows(page)
    assert found
    assert all("kill" in row and "INVALID" in row for row in found)
    again = drawn(visit(page.url))
    assert rows(again) == found
    assert again.input_value("[name=fault]") == "kill"
    redrawn(again, lambda: again.click("#filters [type=reset]"))
    assert "#" not in again.url
    assert again.locator("#count").inner_text().startswith(f"{RUNS} of")


def test_it_is_used_without_a_mouse(visit: Visit) -> None:
    page = drawn(visit())
    page.keyboard.press("/")
    redrawn(page, lambda: page.keyboard.type("two-leaders"))
    assert rows(page)
    assert all("two-leaders" in row for row in rows(page))
    redrawn(page, lambda: page.keyboard.press("Escape"))
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.name") == "build"
    redrawn(page, lambda: page.keyboard.press("c"))
    assert page.input_value("[name=build]") == "clean"
    redrawn(page, lambda: page.locator("#trend-workloads button").first.press("Enter"))
    assert page.input_value("[name=workload]") != ""


def test_the_trend_counts_the_runs_of_the_table(visit: Visit) -> None:
    page = drawn(visit("#system=kraft&workload=register&per=night"))
    cells = page.locator("#trend-workloads tbody tr").first.locator("td.n").all_inner_texts()
    runs, valid, invalid, planted, unknown = map(int, cells[:5])
    assert page.locator("#trend-workloads tbody tr").count() == 1
    assert runs == valid + invalid + planted + unknown
    assert page.locator("#count").inner_text().startswith(f"{runs} of")
    assert page.locator("#trend-workloads svg title").count() == 2, "a bar per night"


def test_trends_of_service_and_latency_are_drawn_and_filtered(visit: Visit) -> None:
    page = drawn(visit())
    assert page.locator("#trend circle").count() == 0
    redrawn(page, lambda: page.click("[data-show=latency]"))
    dots = page.locator("#trend-workloads tr", has_text="kraft").first.locator("circle")
    assert 5 < dots.count() <= 11, "of every day with such a run one"
    heights = [float(y) for y in dots.evaluate_all("all => all.map(dot => dot.getAttribute('cy'))")]
    assert heights == sorted(heights, reverse=True), "latency grew from day to day"
    assert "logarithmic" in page.locator("#span").inner_text()
    assert "show=latency" in page.url
    assert page.locator("#legend .key:visible").count() == 0
    redrawn(page, lambda: page.locator("[data-show=service]").press("Enter"))
    label = page.locator("#trend-systems svg").first.get_attribute("aria-label")
    assert "from 100.0 % to" in label
    figures = page.locator("#trend-systems tbody tr").first.locator("td.n").all_inner_texts()
    redrawn(page, lambda: page.select_option("[name=verdict]", "invalid"))
    assert page.locator("#trend-systems tbody tr td.n").all_inner_texts() != figures
    again = drawn(visit(page.url))
    assert again.locator("[data-show=service]").get_attribute("aria-pressed") == "true"
    redrawn(again, lambda: again.click("[data-show='']"))
    assert again.locator("#trend circle").count() == 0


def test_heat_maps_follow_the_filter(visit: Visit, store: Path) -> None:
    page = drawn(visit())
    whole = page.locator("#heat-pairs").inner_html()
    said = page.locator("#heat-runs").inner_text()
    redrawn(page, lambda: page.select_option("[name=workload]", "register"))
    redrawn(page, lambda: page.select_option("[name=cluster]", "netns"))
    redrawn(page, lambda: page.select_option("[name=build]", "clean"))
    met: set[str] = set()
    runs = 0
    for file in store.glob("nights/*/coverage_by_test.json"):
        for test in json.loads(file.read_text()):
            if (test["workload"], test["cluster"], test["tree"]) == ("register", "netns", "clean"):
                met |= test["follows"].keys()
                runs += test["runs"]
    assert met
    assert page.locator("#heat-pairs .met").inner_text().startswith(f"{len(met)} of ")
    assert page.locator("#heat-runs").inner_text().startswith(f"Of {runs} run")
    kills = sum(pair.startswith("kill/") and " > pause/" in pair for pair in met)
    cell = page.locator("#heat-pairs td[title^='kill, pause:']")
    assert cell.get_attribute("title").startswith(f"kill, pause: {kills} of ")
    assert "then" in page.locator("#heat-pairs-never p").text_content()
    assert page.locator("#heat-note").is_visible(), "what is of no known test is told"
    before = page.locator("#heat-pairs").inner_html()
    redrawn(page, lambda: page.select_option("[name=verdict]", "valid"))
    assert page.locator("#heat-pairs").inner_html() == before, "verdicts do not count here"
    redrawn(page, lambda: page.click("#filters [type=reset]"))
    assert page.locator("#heat-pairs").inner_html() == whole
    assert page.locator("#heat-runs").inner_text() == said
    assert not page.locator("#heat-note").is_visible()


def test_an_address_that_is_nonsense_shows_everything(visit: Visit) -> None:
    page = drawn(visit("#system=nothing&verdict=%3Cb%3E&sort=__proto__&per=x&text="))
    assert page.locator("#count").inner_text().startswith("0 of")
    assert page.input_value("[name=verdict]") == ""


def test_orders(visit: Visit) -> None:
    page = drawn(visit("#sort=recovery"))
    times = page.locator("#run-table tbody td:nth-child(9)").all_inner_texts()
    values = [float(text.split()[0]) for text in times if text]
    assert values == sorted(values, reverse=True)
    redrawn(page, lambda: page.click("[data-sort=red]"))
    assert "INVALID" in rows(page)[0]


def test_two_chosen_runs_are_compared(visit: Visit) -> None:
    page = drawn(visit("#text=20261122T0200"))
    boxes = page.locator("#run-table input[type=checkbox]")
    assert boxes.count() == 2
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.click("#compare-link")
    assert page.locator("h1").inner_text() == "Two runs side by side"
    assert page.locator(".timeline").count() == 2
    assert page.locator(".timeline .band").count() > 4
    assert "p99" in page.locator("#service").inner_text()
    assert "seed" not in page.locator("#checkers").inner_text()
    assert HOSTILE in page.locator("#checkers").inner_text(), "shown as text"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(visit: Visit, scheme: str, store: Path) -> None:
    night = sorted(path.name for path in (store / "nights").iterdir())[-1]
    for target in ("", f"nights/{night}/", f"compare?a={FIRST}&b={SECOND}"):
        page = visit(target, color_scheme=scheme)
        assert page.evaluate(CONTRAST) == [], target


CONTRAST = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const f = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const bad = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("svg")) continue;
    const a = light(parse(getComputedStyle(element).color)), b = light(ground(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.add(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return [...bad];
}"""


def test_without_a_script_the_figures_are_there(visit: Visit) -> None:
    page = visit("", java_script_enabled=False)
    assert len(rows(page)) == 100
    assert page.locator("#trend-faults tbody tr").count() == 8
    assert page.locator("#heat-pairs td").count() > 80
    assert not page.locator("#filters").is_visible()
    assert "need JavaScript" in page.locator("noscript").inner_text()


def test_it_prints_without_its_controls(visit: Visit) -> None:
    page = drawn(visit())
    page.emulate_media(media="print")
    assert not page.locator("#filters").is_visible()
    assert not page.locator("#more").is_visible()
    assert page.locator("#run-table").is_visible()
    assert page.pdf()[:5] == b"%PDF-"


def test_a_narrow_window_does_not_scroll_sideways(visit: Visit, store: Path) -> None:
    night = sorted(path.name for path in (store / "nights").iterdir())[-1]
    for target in ("", f"nights/{night}/", f"compare?a={FIRST}&b={SECOND}"):
        page = visit(target)
        page.set_viewport_size({"width": 480, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 480, target


def test_an_export_is_browsed_from_files(browser: Any, store: Path, tmp_path: Path) -> None:
    done = export(store, tmp_path / "site")
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((done.folder / "index.html").as_uri())
    drawn(page)
    page.click("#verdict a")
    assert page.locator("#break-1").is_visible()
    page.click("#break-1 .links a")
    assert page.locator("h1").inner_text() == "made up"
    page.go_back()
    page.click(".run-name a")
    drawn(page)
    redrawn(page, lambda: page.select_option("[name=verdict]", "valid"))
    nights = page.locator("#run-table td:last-child a").count()
    assert page.locator("#run-table a").count() == nights, "no link to what is not there"
    assert page.locator("#compare").is_hidden()
    page.close()
    assert complaints == []
