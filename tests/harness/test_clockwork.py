"""The library that gives a process clocks of its own, on a process of ours."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.on_host import clock as host_clock
from kraftwreck.harness.remote import preloads
from kraftwreck.harness.remote.preloads import ClockworkError, library

PYTHON = "/usr/bin/python3"
MILLION = 1_000_000
NS = 1_000_000_000

READ = "import json, time; print(json.dumps([time.time_ns(), time.monotonic_ns(), time.time()]))"
WAITS = """
import asyncio, json, queue, select, socket, threading, time
lock = threading.Lock()
lock.acquire()
one, _ = socket.socketpair()
one.settimeout(0.3)
def swallow(call):
    try:
        call()
    except (queue.Empty, TimeoutError):
        pass
ways = {
    "sleep": lambda: time.sleep(0.3),
    "event": lambda: threading.Event().wait(0.3),
    "lock": lambda: lock.acquire(timeout=0.3),
    "queue": lambda: swallow(lambda: queue.Queue().get(timeout=0.3)),
    "select": lambda: select.select([], [], [], 0.3),
    "poll": lambda: select.poll().poll(300),
    "epoll": lambda: select.epoll().poll(0.3),
    "asyncio": lambda: asyncio.run(asyncio.sleep(0.3)),
    "socket": lambda: swallow(lambda: one.recv(1)),
}
took = {}
for name, wait in ways.items():
    begun = time.monotonic()
    wait()
    took[name] = time.monotonic() - begun
print(json.dumps(took))
"""


class Clock:
    """A control file, and processes that use it as their clock."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "clock")
        self.library = folder / "clockwork.so"
        self.library.write_bytes(library())
        host_clock.create(self.path)

    @property
    def env(self) -> dict[str, str]:
        ours = {"LD_PRELOAD": str(self.library), "KRAFTWRECK_CLOCK": self.path}
        return {**os.environ, **ours}

    def run(self, program: str) -> Any:
        done = subprocess.run(
            [PYTHON, "-c", program], env=self.env, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    def ahead(self) -> tuple[float, float]:
        """Return how many seconds wall and monotonic clock are ahead, at the least."""
        wall, mono, _ = self.run(READ)
        return (wall - time.time_ns()) / NS, (mono - time.monotonic_ns()) / NS


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


def near(value: float, wanted: float) -> bool:
    """Whether a clock that was read some moments ago shows ``wanted``."""
    return wanted - 2.0 < value <= wanted + 0.05


def test_undisturbed_clocks_are_those_of_the_machine(clock: Clock) -> None:
    wall, mono = clock.ahead()
    assert near(wall, 0)
    assert near(mono, 0)


def test_without_a_control_file_clocks_are_those_of_the_machine(clock: Clock) -> None:
    Path(clock.path).unlink()
    wall, mono = clock.ahead()
    assert near(wall, 0)
    assert near(mono, 0)


@pytest.mark.parametrize("seconds", [100, -100, 86_400])
def test_a_jump_moves_the_wall_clock_only(clock: Clock, seconds: int) -> None:
    host_clock.change(clock.path, seconds * NS, 0, 0)
    wall, mono = clock.ahead()
    assert near(wall, seconds)
    assert near(mono, 0)
    host_clock.change(clock.path, 0, 0, 0)
    assert near(clock.ahead()[0], 0)


def test_a_strobe_is_wrong_in_every_other_period(clock: Clock) -> None:
    new, _ = host_clock.change(clock.path, 1000 * NS, NS // 20, 0)
    wrong = 0
    program = (
        "import json, time; seen = []\n"
        "for _ in range(400):\n"
        "    seen.append([time.monotonic_ns(), time.time_ns()]); time.sleep(0.001)\n"
        "print(json.dumps(seen))"
    )
    apart = time.time_ns() - time.monotonic_ns()
    for mono, wall in clock.run(program):
        into = (mono - new.since) % (NS // 10)
        if min(into % (NS // 20), NS // 20 - into % (NS // 20)) < NS // 200:
            continue  # too near to the change: two clocks are read one after the other
        ahead = (wall - mono - apart) / NS
        assert near(ahead, 1000 if into < NS // 20 else 0)
        wrong += into < NS // 20
    assert 50 < wrong < 350


@pytest.mark.wall_clock("a drift needs time to show")
@pytest.mark.parametrize("rate", [MILLION, -500_000, 50_000])
def test_a_drift_moves_both_clocks_and_leaves_the_monotonic_one_ahead(
    clock: Clock, rate: int
) -> None:
    begun, _ = host_clock.change(clock.path, 0, 0, rate)
    time.sleep(0.5)
    ended, _ = host_clock.change(clock.path, 0, 0, 0)
    gained = (ended.mono - begun.mono) - (ended.since - begun.since)
    assert gained == pytest.approx((ended.since - begun.since) * rate / MILLION, abs=2)
    wall, mono = clock.ahead()
    assert near(wall, 0)
    assert near(mono, gained / NS)


def test_the_monotonic_clock_never_goes_back_while_its_rate_changes(clock: Clock) -> None:
    program = (
        "import json, time\n"
        "worst, last, count = 0, 0, 0\n"
        "until = time.monotonic_ns() + 2_000_000_000\n"
        "while last < until:\n"
        "    now = time.monotonic_ns(); worst = min(worst, now - last); last = now; count += 1\n"
        "print(json.dumps([worst, count]))"
    )
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.wait(0.02):
            number += 1
            host_clock.change(clock.path, 0, 0, (MILLION, -900_000, 0)[number % 3])

    changer = threading.Thread(target=change)
    changer.start()
    try:
        worst, count = clock.run(program)
    finally:
        stop.set()
        changer.join()
    assert worst == 0
    assert count > 10_000


@pytest.mark.parametrize("rate", [0, MILLION, -500_000])
def test_waits_take_as_long_as_the_own_clock_says(clock: Clock, rate: int) -> None:
    host_clock.change(clock.path, 1000 * NS, NS // 100, rate)
    for way, took in clock.run(WAITS).items():
        assert 0.299 <= took < 0.8, way


def test_the_machine_itself_is_not_touched(clock: Clock) -> None:
    before = time.time_ns() - time.monotonic_ns()
    host_clock.change(clock.path, 5000 * NS, 0, MILLION)
    clock.run(READ)
    assert abs(time.time_ns() - time.monotonic_ns() - before) < NS // 2


def test_a_missing_compiler_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloads, "COMPILER", "no-such-compiler")
    with pytest.raises(ClockworkError, match="apt-get install gcc") as raised:
        library(tmp_path)
    assert "\n" not in str(raised.value)


def test_compiler_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clockwork.c").write_text("this is no C")
    monkeypatch.setattr(preloads, "SOURCES", tmp_path)
    with pytest.raises(ClockworkError, match=r"clockwork\.c") as raised:
        library(tmp_path)
    assert "\n" not in str(raised.value)


def test_the_library_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = library(tmp_path)
    monkeypatch.setattr(preloads, "COMPILER", "no-such-compiler")
    assert library(tmp_path) == first


@pytest.mark.parametrize(
    ("trace", "known"),
    [("", False), ('{"broken', False), ('{"incarnation":1,"seq":2,"mono":%d,"wall":%d}\n', True)],
)
def test_the_last_trace_line_shows_how_far_ahead_a_node_is(
    tmp_path: Path, trace: str, known: bool
) -> None:
    path = tmp_path / "trace.jsonl"
    mono, wall = time.monotonic_ns() // 1000, time.time_ns() // 1000
    values = (mono + 3_000_000, wall - 7_000_000)
    path.write_text(trace % values if "%" in trace else trace)
    told = host_clock.measured(str(path))
    assert ("unknown" in told) is not known
    if known:
        assert told["mono_ahead_us"] == pytest.approx(3_000_000, abs=500_000)
        assert told["wall_ahead_us"] == pytest.approx(-7_000_000, abs=500_000)
