"""How large a report is, how long it takes to write, to open and to zoom.

Run: ``python -m bench.reports [COUNT…]``; writes ``bench/results/reports.md``. The runs are
made up (``tests.reports.fake_run``); the browser is headless Chromium with software drawing.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from reports.run_report import write_report
from tests.reports.conftest import ARGUMENTS, CHROMIUM
from tests.reports.fake_run import write_fake_run

RESULTS = Path(__file__).parent / "results" / "reports.md"
OPENINGS = 5


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
    heap = 0.0
    for _ in range(OPENINGS):
        page = browser.new_page(viewport={"width": 1400, "height": 950})
        page.goto(report.as_uri())
        page.wait_for_selector("#charts[data-ready]", timeout=60_000)
        ready.append(float(page.get_attribute("#charts", "data-loaded")))
        for key, frames in zip(
            "+0+0++++", (None, out, None, out, None, None, near, near), strict=True
        ):
            page.keyboard.press(key)
            page.evaluate("new Promise(d => requestAnimationFrame(() => setTimeout(d, 0)))")
            if frames is not None:
                frames.append(float(page.get_attribute("#charts", "data-frame")))
        heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        page.close()

    def middle(values: list[float]) -> str:
        return f"{sorted(values)[len(values) // 2]:.0f}"

    size = report.stat().st_size
    return [
        f"{count:,}", str(clients), f"{size / 1e6:.2f}", f"{size / count:.1f}", f"{write_s:.2f}",
        middle(ready), middle(out), middle(near), f"{heap:.0f}",
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
        "Made by `python -m bench.reports`: made-up runs of the register workload over 60 s, five",
        "nodes, seven faults; headless Chromium with software drawing, opened as a file, median of",
        f"{OPENINGS} openings. *Ready*: navigation to all charts drawn, in the page's own clock.",
        "*Frame*: drawing all five charts once, in ms: with the whole run in view, or an eighth",
        "of it and less.",
        "",
        f"Python {platform.python_version()}, Chromium {version}, {os.cpu_count()} cores,",
        f"load average {load} (a shared machine).",
        "",
        "| operations | clients | file MB | B/op | write s | ready ms | frame, far | frame, near "
        "| heap MB |",
        "|---:" * 9 + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1000, 10_000, 100_000])
