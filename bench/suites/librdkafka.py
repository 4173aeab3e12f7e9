"""The tests of librdkafka that talk to a broker, in its quick mode, against one broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.suites.clusters import running
from bench.suites.outcomes import FAILED, PASSED, SKIPPED, Outcome, Sent, requests
from bench.suites.sources import LIBRDKAFKA, unpacked

IDS = range(100, 101)
PROPERTIES = {"auto.create.topics.enable": "true", "num.partitions": 4}
KAFKA_VERSION = "3.1.0"
"""The newest one that these tests know."""
BUILD_S = 1500.0
TEST_S = 90.0
_SUMMARY = re.compile(r"\|\s+(\d{4}\w*)\s+\|\s+(PASSED|FAILED|SKIPPED)\s+\|")
_OUTCOMES = {"PASSED": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MOST = 200


def built() -> Path:
    """Return the folder of the tests, built without optional libraries."""
    source = unpacked(LIBRDKAFKA)
    tests = source / "tests"
    if not (tests / "test-runner").exists():
        without = ("--disable-gssapi", "--disable-zstd")
        for command in (
            ["./configure", *without],
            ["make", "-j2", "libs"],
            ["make", "-j2", "-C", "tests", "build"],
        ):
            done = subprocess.run(
                command, cwd=source, capture_output=True, text=True, timeout=BUILD_S
            )
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    return tests


def run(
    kind: str, folder: Path, wanted: Sequence[str], limit_s: float
) -> tuple[list[Outcome], list[Sent]]:
    """Run the tests whose files contain one of ``wanted``, or all, one after another."""
    tests = built()
    names = sorted(path.stem for path in tests.glob("[08]*-*.c*"))
    if wanted:
        names = [name for name in names if any(part in name for part in wanted)]
    over = time.monotonic() + limit_s
    outcomes: list[Outcome] = []
    with running(kind, folder, IDS, PROPERTIES) as cluster:
        conf = folder / "test.conf"
        conf.write_text(f"bootstrap.servers={cluster.servers}\ntest.timeout.multiplier=3\n")
        for name in names:
            if time.monotonic() > over:
                break
            outcomes.append(_one(tests, conf, name))
        sent = sorted(requests(cluster.requests()), key=lambda each: each.at)
    return outcomes, sent


def _one(tests: Path, conf: Path, name: str) -> Outcome:
    """Run the tests of one file, which are known by its number: one that fails fails them all."""
    number = name[:4]
    environment = dict(
        os.environ,
        LD_LIBRARY_PATH=f"{tests.parent}/src:{tests.parent}/src-cpp",
        RDKAFKA_TEST_CONF=str(conf),
        TEST_KAFKA_VERSION=KAFKA_VERSION,
        TESTS=number,
    )
    output = conf.with_name("said")
    began = time.time()
    with output.open("wb") as out:
        process = subprocess.Popen(
            ["./test-runner", "-p1", "-Q", "-L"],
            cwd=tests, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(TEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = _COLOURS.sub("", output.read_text(errors="replace"))
    found = {_OUTCOMES[each[1]] for each in _SUMMARY.findall(said) if each[0].startswith(number)}
    outcome = next((each for each in (FAILED, PASSED, SKIPPED) if each in found), FAILED)
    return Outcome(name, outcome, began, time.time(), _why(said) if outcome == FAILED else "")


def _why(said: str) -> str:
    """Return the first complaint of a test."""
    lines = [line for line in said.splitlines() if "Test failed" in line or "test.c" in line]
    failures = [line for line in said.splitlines() if "FAIL" in line]
    last = said.strip().splitlines()[-1:]
    return (lines or failures or last or [""])[0].strip()[:_MOST]
