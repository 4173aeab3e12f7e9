"""Made-up runs, a browser, and the pages opened in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.reports.run_report import write_report
from tests.reports.fake_run import write_fake_run

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Opened:
    """A report in the browser, with all it complained of and all it asked the network for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def range(self) -> tuple[int, int]:
        """The time range the charts show, in microseconds."""
        data = self.page.evaluate("({...document.getElementById('charts').dataset})")
        return int(data["from"]), int(data["to"])

    def settle(self) -> None:
        """Wait until the frame that was asked for is drawn."""
        self.page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )


@pytest.fixture(scope="session")
def invalid_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with anomalies and hostile names; only for reading."""
    return write_fake_run(tmp_path_factory.mktemp("invalid") / "run", invalid=True)


@pytest.fixture
def run_copy(invalid_run: Path, tmp_path: Path) -> Path:
    """A copy of the invalid run that a test may change."""
    return Path(shutil.copytree(invalid_run, tmp_path / "run"))


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of an invalid run."""
    folder = tmp_path_factory.mktemp("report") / "run"
    return write_report(write_fake_run(folder, invalid=True))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, for one module: its driver keeps an event loop running meanwhile."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file in a new page and wait until its charts, where it has any, are drawn."""
    contexts = []

    def open_page(path: Path, address: str = "", **options: Any) -> Opened:
        context = browser.new_context(viewport={"width": 1300, "height": 900}, **options)
        contexts.append(context)
        result = Opened(context.new_page())
        result.page.on(
            "console",
            lambda message: (
                result.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        result.page.on("pageerror", lambda error: result.complaints.append(str(error)))
        result.page.on("request", lambda request: result.requests.append(request.url))
        result.page.goto(path.as_uri() + address)
        if options.get("java_script_enabled", True):
            result.page.wait_for_selector(
                "#charts[data-ready], main:not(:has(#charts))", timeout=300_000
            )
            result.settle()
        return result

    yield open_page
    for context in contexts:
        context.close()
