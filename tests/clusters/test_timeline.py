"""When faults strike and end, as measured by others, is when the timeline says that they do."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import paramiko
import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.remote.session import Remote
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

MS = 1_000_000
TIMES = 5
"""How often each is measured: a machine that has much else to do is late at times."""
MOST_NS = 50 * MS
LASTS_S = 0.25
SLACK = 60 * MS


@dataclass(frozen=True)
class Moment:
    """When something happened: after ``after`` and before ``before`` (CLOCK_MONOTONIC, ns)."""

    after: int
    before: int

    def fits(self, event: FaultEvent) -> bool:
        """Whether it can have happened while the event says that it was brought about."""
        return self.after <= event.done and event.time <= self.before

    def error(self, shown: int) -> int:
        """Return by how much what a timeline shows is wrong, at least: nanoseconds."""
        return max(self.after - shown, shown - self.before, 0)


@pytest.mark.wall_clock("compares the timeline with the kernel's times")
class Faults:
    """The injector of a run whose clock is the machine's."""

    def __init__(self, environment: RemoteEnvironment) -> None:
        self._injector = Injector(environment.offered(), time.monotonic_ns)
        self._remotes = environment.deployment.remotes
        self._number = 0
        self._commands: list[int] = []

    @property
    def most_ns(self) -> int:
        """By how much a timeline may be wrong: 50 ms, or as long as a command on each host takes
        on this machine now."""
        return max(MOST_NS, len(self._remotes) * round(median(self._commands)))

    def inflict(
        self, kind: str, shape: str, *targets: str, until: Callable[[], bool] | None = None
    ) -> tuple[FaultEvent, FaultEvent]:
        """Let a fault last a moment, and ``until`` something; return its start and its end."""
        self._number += 1
        begun = time.monotonic_ns()
        self._remotes[targets[0]].run(["true"])
        self._commands.append(time.monotonic_ns() - begun)
        fault = Fault(at=0, kind=kind, shape=shape, duration=0, draw=0, targets=targets)
        started = self._injector.start(self._number, fault)
        time.sleep(LASTS_S)
        if until is not None:
            wait_until(until, f"{kind} is seen")
        ended = self._injector.stop(self._number)
        assert started.error is ended.error is None
        return started, ended


@pytest.fixture
def faults(environment: RemoteEnvironment) -> Faults:
    """Carries out faults on the service of the five hosts."""
    return Faults(environment)


def pid_seen_from_here(environment: RemoteEnvironment, host: str) -> int:
    """Return the pid that the node of a namespace host has on this machine."""
    there = int(environment.deployment.status(host)["pid"])
    namespace = environment.deployment.remotes[host].run(["readlink", f"/proc/{there}/ns/pid"]).text
    for entry in Path("/proc").iterdir():
        try:
            lines = (entry / "status").read_text().splitlines()
            numbers = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
            if int(numbers[-1]) == there and str((entry / "ns/pid").readlink()) == namespace:
                return int(entry.name)
        except (OSError, StopIteration):
            continue
    raise AssertionError(f"{host} has no process {there}")


@contextmanager
def watching(look: Callable[[], object]) -> Iterator[list[tuple[int, int, object]]]:
    """Look every millisecond; yield what is seen: before and after looking (ns), and what."""
    seen: list[tuple[int, int, object]] = []
    end = threading.Event()

    def once() -> None:
        before = time.monotonic_ns()
        what = look()
        seen.append((before, time.monotonic_ns(), what))

    def work() -> None:
        while not end.wait(0.001):
            once()

    once()  # A busy machine may let the thread begin late, after the first change.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        end.set()
        thread.join()


def found(seen: list[tuple[int, int, object]], what: object) -> bool:
    """Return whether the last look found ``what``."""
    return bool(seen) and seen[-1][2] == what


def change(seen: list[tuple[int, int, object]], to: object) -> Moment:
    """Return when what was seen became ``to``."""
    for (before, _, what), (_, after, then) in pairwise(seen):
        if what != to and then == to:
            return Moment(before, after)
    raise AssertionError(f"never seen: {to}")


def assert_shown(moments: list[tuple[Moment, FaultEvent]], most_ns: int) -> None:
    """Each happened while it is said to have, and one time in the timeline is right."""
    assert all(moment.fits(event) for moment, event in moments)
    shown = [event.time if event.phase == "start" else event.done for _, event in moments]
    errors = [moment.error(at) for (moment, _), at in zip(moments, shown, strict=True)]
    assert min(errors) <= most_ns, errors


@pytest.mark.wall_clock("compares the timeline with the kernel's times")
def test_pauses_match_the_kernels_process_state(
    environment: RemoteEnvironment, faults: Faults
) -> None:
    pid = pid_seen_from_here(environment, "n3")
    stat = Path(f"/proc/{pid}/stat")

    def stopped() -> bool:
        return stat.read_text().rpartition(")")[2].split()[0] == "T"

    starts, ends = [], []
    for _ in range(TIMES):
        with watching(stopped) as seen:
            started, ended = faults.inflict("pause", "one", "n3", until=partial(found, seen, True))
            wait_until(partial(found, seen, False), "it runs again")
        starts.append((change(seen, True), started))
        ends.append((change(seen, False), ended))
    assert_shown(starts, faults.most_ns)
    assert_shown(ends, faults.most_ns)


def test_kills_match_the_kernels_process_state(
    environment: RemoteEnvironment, faults: Faults, five: list[Host]
) -> None:
    """Dead is a process whose handle is readable; it is back when its port is open."""
    kills = []
    for _ in range(TIMES):
        pid = pid_seen_from_here(environment, "n2")
        handle = os.pidfd_open(pid)
        try:
            with watching(lambda fd=handle: bool(select.select([fd], [], [], 0)[0])) as seen:  # type: ignore[misc]
                died = partial(found, seen, True)
                started, ended = faults.inflict("kill", "one", "n2", until=died)
        finally:
            os.close(handle)
        kills.append((change(seen, True), started))
        assert ended.evidence["n2"]["started"] is True
    assert_shown(kills, faults.most_ns)


_SEND = """
import json, select, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sent = []
while not select.select([sys.stdin], [], [], 0)[0]:
    sent.append(time.monotonic_ns())
    s.sendto(str(sent[-1]).encode(), (sys.argv[1], 7007))
    time.sleep(0.001)
s.sendto(b"end", (sys.argv[1], 7007))
sys.stdout.write(json.dumps(sent))
"""
_RECEIVE = """
import json, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7007))
s.settimeout(20)
got = []
while (text := s.recv(100)) != b"end":
    got.append(int(text))
sys.stdout.write(json.dumps(got))
"""


@pytest.mark.wall_clock("compares the timeline with the kernel's times")
def test_cuts_as_datagrams_arrive(
    faults: Faults, remotes: dict[str, Remote], five: list[Host]
) -> None:
    """Every datagram says when it was sent; all hosts share this machine's monotonic clock."""
    ip, python = five[1].ip, "/usr/bin/python3"
    cuts = []
    with (
        remotes["n2"].channel([python, "-c", _RECEIVE, ip]) as receiver,
        remotes["n1"].channel([python, "-c", _SEND, ip]) as sender,
    ):
        time.sleep(0.5)
        for _ in range(TIMES):
            cuts.append(faults.inflict("partition", "one", "n1"))
            time.sleep(0.1)
        sender.shutdown_write()  # its input ends, and with it what it sends
        sent, got = everything(sender), everything(receiver)
    lost = [at for at in sent if at not in set(got)]
    starts, ends = [], []
    for started, ended in cuts:
        here = [at for at in lost if started.time - SLACK <= at <= ended.done + SLACK]
        first, last = here[0], here[-1]
        starts.append((Moment(max(at for at in got if at < first), first + MS), started))
        ends.append((Moment(last, min(at for at in got if at > last) + MS), ended))
    assert_shown(starts, faults.most_ns)
    assert_shown(ends, faults.most_ns)


def everything(channel: paramiko.Channel) -> list[int]:
    """Return the numbers that a program prints."""
    channel.settimeout(30.0)
    text = b""
    while chunk := channel.recv(1 << 16):
        text += chunk
    return [int(number) for number in json.loads(text)]
