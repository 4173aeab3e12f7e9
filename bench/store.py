"""Measures how long the first page of a large store takes: cold, again, and after one more run.

Run: ``python -m bench.store [RUNS…]``; writes ``bench/results/store.md``. The stores are synthetic
(``tests.reports.made_store``); the browser is headless Chromium with software drawing, which is
measured too. Cold is a new server that has read nothing, with the files in the page cache of the
machine. The machine is shared, so its other load is part of every wall time; CPU times are of the
server.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from kraftwreck.reports.web import StoreServer
from tests.reports.conftest import ARGUMENTS, CHROMIUM
from tests.reports.made_store import FIRST_DAY, make_run, make_store

ABOUT = (
    "Written by `python -m bench.store`. Cold: a new server that has read nothing, the files in "
    "the page cache. CPU seconds are of the server; wall times include other load "
    "on the machine."
)
RESULTS = Path(__file__).parent / "results" / "store.md"


def asked(url: str) -> tuple[float, int]:
    """Return CPU seconds until the whole page was received, and its size."""
    began = time.process_time()
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - loopback
        size = len(answer.read())
    return time.process_time() - began, size


def opened(browser: Any, url: str) -> tuple[float, float]:
    """Return seconds until the page was drawn, and from a filter to the next drawing."""
    page = browser.new_page(viewport={"width": 1400, "height": 950})
    began = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("html[data-drawn]", timeout=60_000)
    drawn = time.perf_counter() - began
    filtered = page.evaluate(
        """() => new Promise(done => {
            const began = performance.now();
            const select = document.querySelector("#filters [name=fault]");
            select.value = "kill";
            select.dispatchEvent(new Event("input", { bubbles: true }));
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
        })"""
    )
    page.close()
    return drawn, filtered / 1000


def measure(browser: Any, folder: Path, count: int) -> list[str]:
    """Return one row of the table."""
    store = make_store(folder / str(count), count, nights=3)
    began, wall = time.process_time(), time.perf_counter()
    with StoreServer(store, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        _, size = asked(server.url)
        cold, waited = time.process_time() - began, time.perf_counter() - wall
        again = min(asked(server.url)[0] for _ in range(3))
        make_run(store, 99, 1, FIRST_DAY)
        one_more, _ = asked(server.url)
        drawn, filtered = opened(browser, server.url)
        night = sorted(path.name for path in (store / "nights").iterdir())[-1]
        night_s, _ = asked(f"{server.url}nights/{night}/")
        server.shutdown()
    return [
        f"{count:,}", f"{size / 1e6:.2f}", f"{cold:.2f}", f"{waited:.2f}",
        f"{again:.2f}", f"{one_more:.2f}", f"{drawn:.2f}", f"{filtered:.2f}", f"{night_s:.2f}",
    ]  # fmt: skip


def main(counts: list[int]) -> None:
    """Measure stores of ``counts`` runs and write the table."""
    from playwright.sync_api import sync_playwright

    head = ["runs", "page, MB", "cold, CPU s", "cold, wall s", "again, CPU s",
            "one run more, CPU s", "drawn, wall s",
            "filter, wall s", "a night, CPU s"]  # fmt: skip
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        rows = [measure(browser, Path(folder), count) for count in counts]
        browser.close()
    text = "\n".join(
        [
            "# The pages of a store", "", ABOUT, "",
            f"Python {platform.python_version()}, {os.cpu_count()} shared cores, load "
            f"{os.getloadavg()[0]:.1f}. Every store has three nights of 220 runs beside its runs.",
            "", "| " + " | ".join(head) + " |", "|" + "---:|" * len(head),
            *("| " + " | ".join(row) + " |" for row in rows), "",
        ]
    )  # fmt: skip
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100, 1000, 10_000])
