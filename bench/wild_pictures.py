"""Pictures of the first screen of failing runs, for docs/wild.md.

    .venv/bin/python -m bench.wild_pictures RUN...

Each RUN is the folder of a run. Its picture is ``docs/pictures/wild-SYSTEM.png``; docs/wild.md
shows it if :data:`bench.wild.PICTURES` names the system.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.wild import TREE, picture
from tests.reports.conftest import ARGUMENTS, CHROMIUM

SCREEN = (1280, 800)
_WITHOUT_STORE = """
for (const shown of document.querySelectorAll("code, pre")) {
    if (!shown.children.length) shown.textContent = shown.textContent.replace(/ --store \\S+/, "");
}
"""
"""The folder of the store is that of one machine."""


def take(page: Page, run: Path) -> Path:
    """Take the picture of a run's report, and return its file."""
    test = json.loads((run / "test.json").read_bytes())
    page.goto((run / "report.html").resolve().as_uri())
    page.wait_for_load_state("networkidle")
    page.evaluate(_WITHOUT_STORE)
    file = TREE / "docs" / picture(str(test["system"]))
    page.screenshot(path=file)
    return file


def main() -> None:
    """Take all pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": SCREEN[0], "height": SCREEN[1]})
        for run in map(Path, sys.argv[1:]):
            print(take(page, run))
        browser.close()


if __name__ == "__main__":
    main()
