"""The report in a real browser: its contents and its controls."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.linearizability.keyed import check_calls
from kraftwreck.checkers.linearizability.models import MODELS
from kraftwreck.histories.verdict import Verdict
from kraftwreck.reports.run_folder import load_run
from kraftwreck.reports.run_report import write_report
from tests.reports.conftest import Opened
from tests.reports.fake_run import HOSTILE, write_fake_run, write_lines
from tests.reports.pictured_runs import stale_read_ops, write_judged_run

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]

PIXELS = """
(id) => {
  const canvas = document.getElementById(id);
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  let painted = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] + data[i + 1] + data[i + 2] === 765) continue;
    painted++;
    colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  }
  return {share: painted / (data.length / 4), colours: colours.size};
}
"""

COLUMN = """
([id, seconds, y]) => {
  const canvas = document.getElementById(id), ratio = canvas.width / canvas.clientWidth;
  const {from, to} = document.getElementById("charts").dataset;
  const x = 104 + (seconds * 1e6 - from) / (to - from) * (canvas.clientWidth - 104 - 14);
  return [...canvas.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data];
}
"""

CHARTS = (
    "faults-chart", "nodes-chart", "messages-chart", "operations-chart", "latency-chart",
    "rate-chart", "clock-chart",
)  # fmt: skip


@pytest.fixture(scope="module")
def messages_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose messages are known: a vote in flight when n2 and n3 both led."""
    folder = write_fake_run(tmp_path_factory.mktemp("messages") / "run", count=100, invalid=True)
    run = load_run(folder)
    assert run.verdict is not None
    event = run.verdict.checkers["epochs"].anomalies[0].events[0]
    moment = event["mono"] - run.test["clock"][event["node"]]["offset_us"]
    lines: list[dict[str, Any]] = []
    for n in range(60):
        sent = (moment - 40_000 + n * 1500) * 1000
        asked = {"epoch": 4, "candidate_id": 2, "pre_vote": False}
        lines.append(
            {
                "time": sent + 900_000, "sent": sent, "asker": 2, "replier": 1 + n % 5 or 5,
                "api": "Vote", "asked": asked, "answer": {"vote_granted": True}, "records": None,
            }
        )  # fmt: skip
    write_lines(folder / "messages.jsonl", list(lines))
    return write_report(folder)


def test_the_verdict_comes_first(opened: Open, report: Path) -> None:
    page = opened(report).page
    assert page.inner_text("h1") == "INVALID"
    assert page.title().startswith("INVALID · kraft-register · seed 7")
    box = page.locator("#verdict").bounding_box()
    assert box["y"] == 0
    assert "3 anomalies in 1,000 operations" in page.inner_text("#verdict")
    assert page.locator("#checkers tbody tr").count() == 4
    assert page.locator("#repeat").bounding_box()["y"] < 900, "on the first screen"


def test_it_works_from_a_file_without_network_or_complaint(opened: Open, report: Path) -> None:
    view = opened(report)
    view.page.mouse.move(600, 500)
    view.page.keyboard.press("j")
    view.settle()
    assert view.complaints == []
    assert view.requests == [report.as_uri()], "nothing but the page itself is loaded"


def test_every_chart_is_drawn(opened: Open, report: Path) -> None:
    page = opened(report).page
    for chart in CHARTS:
        pixels = page.evaluate(PIXELS, chart)
        assert pixels["share"] > 0.02, chart
        assert pixels["colours"] > 10, chart
        assert len(page.get_attribute(f"#{chart}", "aria-label")) > 20


def test_latency_and_rate_are_shaded_where_faults_were(opened: Open, report: Path) -> None:
    page = opened(report).page
    bands = page.evaluate("JSON.parse(document.getElementById('run-data').textContent).faults")
    band = next(b for b in bands if b["kind"] == "kill")
    during = (band["start"] + band["end"]) / 2e6
    for chart, y in (("latency-chart", 3), ("rate-chart", 3), ("operations-chart", 1)):
        inside = page.evaluate(COLUMN, [chart, during, y])
        outside = page.evaluate(COLUMN, [chart, band["end"] / 1e6 + 0.7, y])
        assert inside[:3] != [255, 255, 255], f"{chart} is shaded during the fault"
        assert outside[:3] == [255, 255, 255], f"{chart} is bare after it"


def test_nodes_show_leader_epoch_and_being_down(opened: Open, report: Path) -> None:
    view = opened(report)
    page = view.page
    page.locator("#nodes-chart").scroll_into_view_if_needed()
    chart = page.locator("#nodes-chart").bounding_box()
    data = page.evaluate("JSON.parse(document.getElementById('run-data').textContent)")
    lane, (start, end) = next((i, n["down"][0]) for i, n in enumerate(data["nodes"]) if n["down"])

    def hover(row: int, at: float) -> str:
        x = 104 + at / data["end"] * (chart["width"] - 118)
        page.mouse.move(chart["x"] + x, chart["y"] + row * 34 + 12)
        view.settle()
        return cast(str, page.inner_text("#tooltip"))

    leading = hover(0, 1_000_000)
    assert re.search(r"state\s+leader", leading)
    assert re.search(r"epoch\s+1", leading)
    assert re.search(r"high watermark\s+\d+", leading)
    assert "down" in hover(lane, (start + end) / 2)
    first = page.evaluate(COLUMN, ["nodes-chart", 2, 20])
    later = page.evaluate(COLUMN, ["nodes-chart", 30, 34 + 20])
    assert first != later, "another epoch has another colour"


def test_the_wheel_zooms_where_it_points_and_dragging_pans(opened: Open, report: Path) -> None:
    view = opened(report)
    page = view.page
    page.locator("#operations-chart").scroll_into_view_if_needed()
    page.wait_for_timeout(400)  # a wheel that scrolls the page does not zoom
    box = page.locator("#operations-chart").bounding_box()
    whole = view.range()
    page.mouse.move(box["x"] + 104 + (box["width"] - 118) * 0.25, box["y"] + 40)
    page.mouse.wheel(0, -400)
    view.settle()
    zoomed = view.range()
    assert zoomed[1] - zoomed[0] < (whole[1] - whole[0]) * 0.7
    at = whole[1] * 0.25
    assert zoomed[0] < at < zoomed[1]
    assert abs((at - zoomed[0]) / (zoomed[1] - zoomed[0]) - 0.25) < 0.02, "the point stays put"
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25 - 120, box["y"] + 40, steps=4)
    page.mouse.up()
    view.settle()
    panned = view.range()
    assert panned[0] > zoomed[0]
    assert abs((panned[1] - panned[0]) - (zoomed[1] - zoomed[0])) <= 1


def test_the_keyboard_zooms_pans_and_resets(opened: Open, report: Path) -> None:
    view = opened(report)

    def after(key: str) -> tuple[int, int]:
        view.page.keyboard.press(key)
        view.settle()
        return view.range()

    whole = view.range()
    zoomed = after("+")
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 2, abs=2)
    assert after("ArrowRight")[0] > zoomed[0]
    assert after("ArrowLeft")[0] == pytest.approx(zoomed[0], abs=2)
    wider = after("-")
    assert wider[1] - wider[0] > zoomed[1] - zoomed[0]
    after("+")
    assert after("0") == whole
    assert "whole run" in view.page.inner_text("#range")


def test_an_anomaly_zooms_to_the_operations_that_prove_it(opened: Open, report: Path) -> None:
    view = opened(report)
    page = view.page
    data = page.evaluate("JSON.parse(document.getElementById('run-data').textContent)")
    number = next(i for i, a in enumerate(data["anomalies"]) if a["type"] == "lost-write")
    entry = page.locator(f"#anomaly-{number + 1}")
    entry.locator("summary .text").click()
    assert entry.locator("table.operations tbody tr").count() == 5
    assert entry.locator("svg.wide .bar").count() == 5
    entry.locator("button.show").click()
    view.settle()
    shown, anomaly = view.range(), data["anomalies"][number]
    assert shown[0] <= anomaly["start"] <= anomaly["end"] <= shown[1]
    assert shown[1] - shown[0] < data["end"] / 2
    assert "lost-write" in page.inner_text("#caption")
    mark = page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--mark').trim()"
    )
    red, green, blue = (int(mark[i : i + 2], 16) for i in (1, 3, 5))
    marked = page.evaluate(
        """([r, g, b]) => {
          const canvas = document.getElementById("operations-chart");
          const d = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          let n = 0;
          for (let i = 0; i < d.length; i += 4)
            if (d[i] === r && d[i + 1] === g && d[i + 2] === b && d[i + 3] === 255) n++;
          return n;
        }""",
        [red, green, blue],
    )
    assert marked > 40, "the proving operations are framed"
    page.wait_for_timeout(500)  # the address follows the view when it rests
    again = opened(report, "#" + page.evaluate("location.hash.slice(1)"))
    assert again.range() == pytest.approx(shown, abs=2), "the address brings the view back"


def test_j_and_k_walk_the_anomalies(opened: Open, report: Path) -> None:
    view = opened(report)
    seen = []
    for key in "jjkj":
        view.page.keyboard.press(key)
        view.settle()
        seen.append(view.page.inner_text("#caption").split(",")[0])
    assert seen == [f"Anomaly {n} of 3" for n in (1, 2, 1, 2)]
    view.page.keyboard.press("Escape")
    assert view.page.is_hidden("#caption")


def test_hovering_shows_the_details_of_an_operation(opened: Open, report: Path) -> None:
    view = opened(report)
    page = view.page
    page.keyboard.press("j")
    page.keyboard.press("j")
    entry = page.locator(".anomaly.selected")
    entry.locator("button.op").first.click()
    page.wait_for_timeout(100)
    view.settle()
    area = page.locator("#operations-chart").bounding_box()
    found = ""
    for row in range(5):
        page.mouse.move(area["x"] + 104 + (area["width"] - 118) * 0.44, area["y"] + row * 20 + 12)
        page.wait_for_timeout(50)
        if page.is_visible("#tooltip"):
            page.mouse.move(
                area["x"] + 105 + (area["width"] - 118) * 0.44, area["y"] + row * 20 + 12
            )
            found = page.inner_text("#tooltip")
            if "proves" in found:
                break
    for word in ("write", "ok", "index", "process", "key", "value", "node", "took", "lost-write"):
        assert word in found


def test_hostile_names_stay_text(opened: Open, report: Path) -> None:
    view = opened(report)
    dialogs: list[str] = []
    view.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    assert HOSTILE in view.page.inner_text("body")
    assert view.page.locator("script").count() == 4, "no script but ours"
    assert dialogs == []


def test_dark_light_and_print_have_colours_of_their_own(opened: Open, report: Path) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        view = opened(report, color_scheme=scheme)
        shades[scheme] = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
        for name in ("text", "muted", "valid", "invalid", "unknown", "accent"):
            assert _contrast(view.page, name) >= 4.5, f"{name} on the page in {scheme}"
        view.page.emulate_media(media="print")
        view.settle()
        assert view.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert view.page.is_hidden(".keys")
    assert shades["light"] != shades["dark"]


def _contrast(page: Any, name: str) -> float:
    """The contrast ratio (WCAG 2) of colour ``name`` on the page's background."""

    def luminance(variable: str) -> float:
        text = page.evaluate(
            "n => getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim()",
            variable,
        )
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    first, second = sorted((luminance(name), luminance("page")))
    return (second + 0.05) / (first + 0.05)


def test_without_script_the_page_still_says_it_all(opened: Open, report: Path) -> None:
    page = opened(report, java_script_enabled=False).page
    text = page.inner_text("body")
    for expected in (
        "INVALID",
        "lost-write",
        "partition",
        "The charts need JavaScript",
        "--seed 7",
    ):
        assert expected in text
    assert page.locator("#leaders tbody tr").count() >= 2
    assert page.locator("#faults tbody tr").count() == 7


def test_a_valid_run_of_many_operations_stays_quick(opened: Open, tmp_path: Path) -> None:
    run = write_fake_run(tmp_path / "run", count=100_000, clients=40)
    view = opened(write_report(run))
    assert view.page.inner_text("h1") == "valid"
    assert view.page.locator("#anomalies").count() == 0
    frames = []
    for key in ("+", "-", "+", "ArrowRight", "-", "0"):
        view.page.keyboard.press(key)
        view.settle()
        frames.append(float(view.page.get_attribute("#charts", "data-frame")))
    assert sorted(frames)[len(frames) // 2] < 400, f"frames took {frames} ms"
    assert view.complaints == []


def test_copy_puts_the_repeat_command_on_the_clipboard(opened: Open, report: Path) -> None:
    view = opened(report, permissions=["clipboard-read", "clipboard-write"])
    view.page.click("#copy")
    view.page.get_by_role("button", name="Copied").wait_for()
    copied = view.page.evaluate("navigator.clipboard.readText()")
    assert copied == view.page.inner_text("#repeat")
    assert copied.startswith("kraftwreck run kraft -w register")


def test_the_filter_hides_operations_and_says_how_many_are_left(opened: Open, report: Path) -> None:
    view = opened(report)
    page = view.page
    told = page.locator("#filter output")
    before = page.evaluate(PIXELS, "latency-chart")
    page.locator("#filter input[value='0']").uncheck()
    told.get_by_text("of 1,000 operations").wait_for()
    without_ok = page.evaluate(PIXELS, "latency-chart")
    assert without_ok["share"] < before["share"]
    page.locator("#filter input[value='0']").check()
    page.locator("#filter select").select_option(label="cas")
    told.get_by_text(re.compile(r"^2\d\d of 1,000")).wait_for()
    page.locator("#filter input[type=search]").fill("no answer in")
    told.get_by_text(re.compile(r"^\d{1,2} of 1,000")).wait_for()
    page.keyboard.press("+")
    view.settle()
    assert "whole run" in page.inner_text("#range"), "typing is not zooming"
    page.locator("#filter input[type=search]").fill("")
    page.locator("#filter select").select_option("")
    told.get_by_text("operations").wait_for(state="detached")
    # That reading pixels is slow is said of this test, not of the page.
    assert [said for said in view.complaints if "getImageData" not in said] == []


def test_messages_and_events_are_seen_when_near(opened: Open, messages_report: Path) -> None:
    view = opened(messages_report)
    page = view.page
    page.keyboard.press("k")  # the last anomaly is that of the trace events
    view.settle()
    chart = page.locator("#messages-chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    data = page.evaluate(
        """async () => {
          const packed = JSON.parse(document.getElementById("run-data").textContent).messages;
          const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
          const stream = new Blob([bytes]).stream().pipeThrough(
            new DecompressionStream("deflate-raw"));
          return JSON.parse(await new Response(stream).text());
        }"""
    )
    low, high = view.range()
    sent, arrived, source, target = next(
        row[:4] for row in data["arrows"] if low < row[0] and row[1] < high
    )
    middle = ((sent + arrived) / 2 - low) / (high - low)
    page.mouse.move(
        box["x"] + 104 + middle * (box["width"] - 118),
        box["y"] + 20 + 38 * (source + target) / 2,
    )
    view.settle()
    tip = page.inner_text("#tooltip")
    assert "→" in tip
    assert re.search(r"sent\s+\d", tip)
    assert "contents" in tip
    assert view.complaints == []


def test_another_longest_order_can_be_chosen(opened: Open, tmp_path: Path) -> None:
    ops = stale_read_ops()
    verdict = Verdict.of({"linearizable": check_calls(MODELS["cas-register"], pair(ops))})
    page = opened(write_report(write_judged_run(tmp_path / "run", ops, verdict))).page
    choices = page.locator(".orders input")
    assert choices.count() >= 2
    shown = "[...document.querySelectorAll('.order.shown')].map(g => g.dataset.order)"
    assert set(page.evaluate(shown)) == {"0"}
    choices.nth(1).check()
    assert set(page.evaluate(shown)) == {"1"}
    assert page.locator(".order.words.shown").count() == 1
    assert page.locator("svg.wide .bar.stuck").count() == 1
