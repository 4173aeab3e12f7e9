"""Faults that strike on hosts when a node makes a transition, as in its live trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.follow import TraceFollowers
from kraftwreck.harness.remote.session import Remote
from kraftwreck.harness.triggers import DELAYS_US
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.reading import read_faults
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.draw import draw_below
from tests.clusters.whole_run import carry_out
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

SECOND = 1_000_000_000
LINE = (
    '{"node":"n1","incarnation":1,"seq":%d,"mono":%d,"wall":0,"kind":"hw","state":"leader",'
    '"epoch":1,"leader":1,"voted":1,"leo":1,"hw":1,"detail":{}}'
)


class Seen:
    """The events that were handed out, with their arrival times here."""

    def __init__(self) -> None:
        self.events: list[tuple[TraceEvent, int]] = []
        self.came = threading.Condition()

    def __call__(self, event: TraceEvent, host_us: int) -> None:
        with self.came:
            self.events.append((event, time.monotonic_ns() // 1000))
            self.came.notify_all()

    def wait_for(self, count: int, timeout_s: float = 60.0) -> list[int]:
        with self.came:
            assert self.came.wait_for(lambda: len(self.events) >= count, timeout_s), (
                f"{len(self.events)} of {count} events after {timeout_s:g} s"
            )
            return [event.seq for event, _ in self.events]


@pytest.fixture
def following(five: list[Host], remotes: dict[str, Remote]) -> Iterator[Callable[..., Any]]:
    made: list[TraceFollowers] = []

    def follow(path: str) -> tuple[Seen, TraceFollowers]:
        seen = Seen()
        followers = TraceFollowers({"n1": remotes["n1"]}, path, seen)
        made.append(followers)
        followers.start()
        return seen, followers

    yield follow
    for followers in made:
        followers.close()


def append(remote: Remote, path: str, text: str) -> None:
    remote.run(
        ["python3", "-c", "import sys; open(sys.argv[1], 'a').write(sys.argv[2])", path, text]
    )


def test_lines_are_handed_out_within_milliseconds_of_being_written(
    following: Callable[..., Any], remotes: dict[str, Remote]
) -> None:
    path = "/tmp/latency.jsonl"
    remotes["n1"].put(b"", path)
    seen, _ = following(path)
    # The writer is on the same machine: its monotonic clock is ours.
    script = (
        "import sys, time\n"
        "for n in range(20):\n"
        "    time.sleep(0.02)\n"
        "    with open(sys.argv[1], 'a') as f:\n"
        "        f.write(sys.argv[2] % (n, time.monotonic_ns() // 1000) + '\\n')\n"
    )
    remotes["n1"].run(["python3", "-c", script, path, LINE])
    assert seen.wait_for(20) == list(range(20))
    late = sorted(arrived - event.mono for event, arrived in seen.events)
    # Most of them, on a machine with time for it; what is busy otherwise shows some that were.
    assert late[2] < 50_000, f"{late} us"


def test_a_file_that_is_not_there_yet_is_followed_from_its_beginning(
    following: Callable[..., Any], remotes: dict[str, Remote]
) -> None:
    path = "/tmp/later.jsonl"
    seen, _ = following(path)
    append(remotes["n1"], path, LINE % (0, 0) + "\n")
    assert seen.wait_for(1) == [0]


def test_old_lines_and_torn_lines_are_not_handed_out(
    following: Callable[..., Any], remotes: dict[str, Remote]
) -> None:
    path = "/tmp/torn.jsonl"
    remotes["n1"].put((LINE % (0, 0) + "\n").encode(), path)
    seen, _ = following(path)
    whole = LINE % (1, 0)
    append(remotes["n1"], path, whole[:40])
    append(remotes["n1"], path, "\n" + (LINE % (2, 0))[:50])
    append(remotes["n1"], path, (LINE % (2, 0))[50:] + "\n")
    assert seen.wait_for(1) == [2]


def test_a_host_whose_follower_dies_is_followed_again(
    following: Callable[..., Any], remotes: dict[str, Remote]
) -> None:
    path = "/tmp/again.jsonl"
    remotes["n1"].put(b"", path)
    seen, followers = following(path)
    # The newest of the host's processes that were started to run sent modules.
    pid = remotes["n1"].run(["pgrep", "-n", "-f", "types.[M]oduleType"]).text
    remotes["n1"].run(["kill", "-9", pid])

    def appended() -> bool:
        append(remotes["n1"], path, LINE % (5, 0) + "\n")
        return bool(seen.events)

    wait_until(appended)
    assert seen.wait_for(1)[0] == 5
    assert followers.again >= 1


def test_after_closing_nothing_is_handed_out_and_no_thread_is_left(
    following: Callable[..., Any], remotes: dict[str, Remote]
) -> None:
    path = "/tmp/closed.jsonl"
    remotes["n1"].put(b"", path)
    seen, followers = following(path)
    followers.close()
    append(remotes["n1"], path, LINE % (0, 0) + "\n")
    assert not [t.name for t in threading.enumerate() if t.name.startswith("trace n")]
    assert not seen.events


def planned(at_s: float, kind: str, shape: str, trigger: str | None, *targets: str) -> Fault:
    return Fault(
        at=int(at_s * SECOND),
        kind=kind,
        shape=shape,
        duration=SECOND // 2,
        draw=next(n for n in range(100) if draw_below(len(DELAYS_US), n, "delay") == 0),
        targets=targets,
        trigger=trigger,
    )


def run(tmp_path: Path, schedule: Sequence[Fault], seconds: float) -> list[FaultEvent]:
    options = RunOptions(
        nodes=3, seed=8, time_limit_s=seconds, faults=("partition", "kill"), store=tmp_path
    )
    return read_faults(carry_out(options, schedule))


@pytest.mark.whole_run
def test_faults_strike_at_elections_commits_and_claims(
    netns_possible: None, tmp_path: Path
) -> None:
    schedule = [
        planned(0.5, "kill", "leader", None),
        planned(0.5, "pause", "one", "elected", "@"),
        planned(0.6, "partition", "one", "claim", "@"),
        planned(0.6, "partition", "one-way", "append#2", "@leader", "@"),
        planned(60.0, "kill", "one", "hw", "@"),  # never armed: the test is over before
    ]
    events = read_starts(run(tmp_path, schedule, 12.0))
    shots = {event.detail["trigger"]: event for event in events if "trigger" in event.detail}
    assert set(shots) == {"elected", "claim", "append#2"}
    for event in shots.values():
        told = event.evidence["trigger"]
        assert event.error is None
        assert told["seen_after_us"] < 5_000_000
        assert 0 < told["begun_after_us"] <= told["done_after_us"]
    elected = shots["elected"]
    assert elected.targets == [elected.evidence["trigger"]["transition"][0]]


def read_starts(events: Sequence[FaultEvent]) -> list[FaultEvent]:
    return [event for event in events if event.phase == "start"]
