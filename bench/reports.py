"""Measures the size of a report, and the time to write, open and zoom it.

Run: ``python -m bench.reports [COUNT…]``; writes ``bench/results/reports.md``. The runs are
synthetic (``tests.reports.fake_run``); the browser is headless Chromium with software drawing.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kraftwreck.reports.run_report import write_report
from tests.reports.conftest import ARGUMENTS, CHROMIUM
from tests.reports.fake_run import write_fake_run

RESULTS = Path(__file__).parent / "results" / "reports.md"
OPENINGS = 3
FRAMES = 60

ZOOM = """
async (frames) => {
  const area = document.getElementById("charts");
  const chart = document.getElementById("operations-chart");
  chart.scrollIntoView({ block: "start" });
  await new Promise((done) => setTimeout(done, 600));
  const box = chart.getBoundingClientRect(), stamps = [], work = [];
  return await new Promise((done) => {
    const frame = (now) => {
      stamps.push(now);
      work.push(Number(area.dataset.frame));
      if (stamps.length > frames)
        return done({ gaps: stamps.slice(1).map((t, i) => t - stamps[i]), work: work.slice(1) });
      area.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true,
        deltaY: stamps.length % 30 < 15 ? -100 : 100,
        clientX: box.left + box.width * 0.4, clientY: box.top + 40 }));
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}
"""
"""Turns the wheel once per frame, in and out again; returns the time between frames."""


def cpu(browser: Any) -> float:
    """Return the CPU seconds that all processes of the browser have used."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return float(sum(process["cpuTime"] for process in processes))


def main_thread(session: Any) -> float:
    """Return the CPU seconds that the page's main thread has spent on tasks."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def measure(browser: Any, folder: Path, count: int) -> list[str]:
    """Return one row of the table for a run of ``count`` operations."""
    clients = 5 if count <= 1000 else 40
    run = write_fake_run(folder / str(count), count=count, clients=clients, invalid=True)
    began = time.perf_counter()
    report = write_report(run)
    write_s = time.perf_counter() - began
    ready: list[float] = []
    out: list[float] = []
    near: list[float] = []
    gaps: list[float] = []
    opening: list[float] = []
    each: list[float] = []
    heap = 0.0
    for _ in range(OPENINGS):
        page = browser.new_page(viewport={"width": 1400, "height": 950})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = cpu(browser)
        page.goto(report.as_uri())
        page.wait_for_selector("#charts[data-ready]", timeout=60_000)
        ready.append(float(page.get_attribute("#charts", "data-loaded")))
        opening.append(1000 * (cpu(browser) - before))
        for key, frames in zip(
            "+0+0++++", (None, out, None, out, None, None, near, near), strict=True
        ):
            script = main_thread(session)
            page.keyboard.press(key)
            page.evaluate("new Promise(d => requestAnimationFrame(() => setTimeout(d, 0)))")
            if frames is not None:
                frames.append(1000 * (main_thread(session) - script))
        page.keyboard.press("0")
        before = cpu(browser)
        gaps += page.evaluate(ZOOM, FRAMES)["gaps"]
        each.append(1000 * (cpu(browser) - before) / FRAMES)
        heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        page.close()

    def middle(values: list[float]) -> str:
        return f"{sorted(values)[len(values) // 2]:.0f}"

    size = report.stat().st_size
    return [
        f"{count:,}", str(clients), f"{size / 1e6:.2f}", f"{size / count:.1f}", f"{write_s:.2f}",
        middle(ready), middle(opening), middle(out), middle(near),
        f"{1000 / sorted(gaps)[len(gaps) // 2]:.0f}",
        middle(each), f"{heap:.0f}",
    ]  # fmt: skip


def main(counts: list[int]) -> None:
    """Measure and write the table."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        version = browser.version
        rows = [measure(browser, Path(folder), count) for count in counts]
        browser.close()
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    lines = [
        "# Reports: size and speed",
        "",
        "Made by `python -m bench.reports`: synthetic runs of the register workload over 60 s,",
        "five nodes, seven faults; headless Chromium with software drawing, opened as a file,",
        f"median of {OPENINGS} openings. *Ready*: navigation to all charts drawn, in the page's",
        "own clock. *Ready CPU*: what all processes of the browser used until then. *Frame*: a",
        "key pressed, all charts drawn once, CPU ms of the page's main thread: with the whole run",
        "in view, or an eighth of it and less. *Zoom*: the wheel turned once per frame, in and",
        "out again: frames per second as the browser showed them (median), and CPU ms per frame,",
        "of all processes of the browser together. On a shared machine only CPU times are",
        "comparable.",
        "",
        f"Python {platform.python_version()}, Chromium {version}, {os.cpu_count()} cores,",
        f"load average {load} (a shared machine).",
        "",
        "| operations | clients | file MB | B/op | write s | ready ms | ready CPU ms "
        "| frame, far | frame, near | zoom fps | zoom CPU ms | heap MB |",
        "|---:" * 12 + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1000, 10_000, 100_000, 1_000_000])
