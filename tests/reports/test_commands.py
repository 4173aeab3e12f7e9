"""``kraftwreck report`` and ``kraftwreck serve``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftwreck.report import cli as report
from kraftwreck.serve import cli as serve


def test_report_builds_both_files(run_copy: Path) -> None:
    result = CliRunner().invoke(report, [str(run_copy), "--json"])
    assert result.exit_code == 0, "a report of an invalid run is a success"
    written = json.loads(result.stdout)
    assert Path(written["report"]).read_text().startswith("<!doctype html>")
    assert Path(written["junit"]).exists()


def test_report_follows_latest(run_copy: Path) -> None:
    link = run_copy.parent / "latest"
    link.symlink_to(run_copy.name)
    result = CliRunner().invoke(report, [str(link)])
    assert result.exit_code == 0
    assert (run_copy / "report.html").exists()
    assert result.stdout == "", "what people read goes to stderr"


@pytest.mark.parametrize("make", [False, True])
def test_no_run_folder_is_one_line_and_254(tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "run"
    if make:
        folder.mkdir()
    result = CliRunner().invoke(report, [str(folder)])
    assert result.exit_code == 254
    assert result.stderr.count("\n") == 1
    assert str(folder) in result.stderr


def test_serve_refuses_a_missing_store_and_a_taken_port(tmp_path: Path) -> None:
    missing = CliRunner().invoke(serve, [str(tmp_path / "nothing")])
    assert missing.exit_code == 254
    assert missing.stderr.count("\n") == 1
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(serve, [str(tmp_path), "--port", str(port)])
    assert result.exit_code == 254
    assert "choose another --port" in result.stderr
    assert result.stderr.count("\n") == 1


def test_serve_serves_until_interrupted(run_copy: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kraftwreck.serve", str(run_copy.parent), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background ignores Ctrl-C, and so would the server.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["url"]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - loopback
            assert b"kraft-register" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
