"""``kraftwreck report`` and ``kraftwreck serve``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


def test_report_builds_both_files(kraftwreck: Command, run_copy: Path) -> None:
    result = kraftwreck("report", run_copy, "--json")
    assert result.code == 0, "a report of an invalid run is a success"
    written = json.loads(result.out)
    assert Path(written["report"]).read_text().startswith("<!doctype html>")
    assert Path(written["junit"]).exists()


def test_report_follows_latest(kraftwreck: Command, run_copy: Path) -> None:
    link = run_copy.parent / "latest"
    link.symlink_to(run_copy.name)
    result = kraftwreck("report", link)
    assert result.code == 0
    assert (run_copy / "report.html").exists()
    assert result.out == "", "what people read goes to stderr"


@pytest.mark.parametrize("make", [False, True])
def test_no_run_folder_is_one_line_and_254(kraftwreck: Command, tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "run"
    if make:
        folder.mkdir()
    result = kraftwreck("report", folder)
    assert result.code == 254
    assert result.err.count("\n") == 1
    assert str(folder) in result.err


def test_serve_refuses_a_missing_store_and_a_taken_port(
    kraftwreck: Command, tmp_path: Path
) -> None:
    missing = kraftwreck("serve", tmp_path / "nothing")
    assert missing.code == 254
    assert missing.err.count("\n") == 1
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kraftwreck("serve", tmp_path, "--port", port)
    assert result.code == 254
    assert "choose another --bind or --port" in result.err
    assert result.err.count("\n") == 1


def test_serve_serves_until_interrupted(run_copy: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kraftwreck",
            "serve",
            str(run_copy.parent),
            "--port",
            "0",
            "--json",
        ],
        stdout=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background ignores Ctrl-C, and so would the server.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["url"]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=300) as answer:  # noqa: S310 - loopback
            assert b"kraft-register" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
