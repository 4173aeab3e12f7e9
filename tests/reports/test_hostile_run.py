"""A run folder from somebody else, opened by the server in headless Chromium."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.reports.web import StoreServer
from tests.reports.made_store import write_json

pytestmark = pytest.mark.browser

HOSTILE = """<!doctype html><title>report</title><body><script>
const tried = {origin: self.origin};
function attempt(name, action) {
  try { tried[name] = "" + (action() ?? "nothing"); }
  catch (error) { tried[name] = error.name; }
}
attempt("window", () => window.open("/victim/run/test.json"));
attempt("storage", () => localStorage.setItem("a", "b") || "stored");
attempt("cookie", () => { document.cookie = "a=b"; return document.cookie || null; });
attempt("dialog", () => { alert("leave me"); return null; });
attempt("image", () => { new Image().src = "/victim/run/leak.png"; });
attempt("frame", () => {
  const frame = document.createElement("iframe");
  frame.src = "/victim/run/test.json";
  document.body.append(frame);
});
attempt("form", () => {
  const form = document.createElement("form");
  form.action = "/victim/run/form"; form.target = "_blank";
  document.body.append(form); form.submit();
});
attempt("download", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["#!/bin/sh"])); link.download = "run-me.sh";
  link.click();
});
fetch("/victim/run/test.json")
  .then(() => { tried.fetch = "read"; }, () => { tried.fetch = "refused"; })
  .finally(() => { document.body.dataset.tried = JSON.stringify(tried); });
</script>"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of a run with a hostile report and a run that it would like to read."""
    store = tmp_path / "store"
    for name in ("victim/run", "foreign/run"):
        (store / name).mkdir(parents=True)
        write_json(store / name / "test.json", {"name": name, "seed": 1})
    (store / "foreign/run/report.html").write_text(HOSTILE)
    return store


def test_a_hostile_report_reaches_nothing_outside_its_page(store: Path, browser: Any) -> None:
    with StoreServer(store, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            context = browser.new_context()
            page = context.new_page()
            asked: list[str] = []
            events: list[str] = []
            context.on("response", lambda response: asked.append(response.url))
            page.on("dialog", lambda dialog: events.append("dialog"))
            page.on("download", lambda download: events.append("download"))
            address = f"{server.url}foreign/run/report.html"
            page.goto(address)
            page.wait_for_selector("body[data-tried]", timeout=300_000)
            tried = json.loads(page.evaluate("document.body.dataset.tried"))
            pages = len(context.pages)
            context.close()
        finally:
            server.shutdown()
            thread.join()
    assert tried.pop("origin") == "null", "the page has an origin of its own"
    assert tried["storage"] == tried["cookie"] == "SecurityError"
    assert tried["window"] == "nothing"
    assert tried["fetch"] == "refused"
    assert asked == [address], "the server was asked for nothing else"
    assert (pages, events) == (1, [])
