"""Time, the network, processes and disks in the simulated world."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    FlushLog,
    Tick,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.simulation.disk import Disk, DiskError
from kraftwreck.simulation.fence import FenceError, fence
from kraftwreck.simulation.timeline import Timeline, WorldError
from kraftwreck.systems.kraft.simulated.binding import disk_of, left_epoch
from kraftwreck.systems.kraft.simulated.knobs import OLD_LEVELS, Knobs, draw_knobs
from tests.simulation.watched import Watched

ROOT = Path(__file__).resolve().parents[2]
MS = 1_000
SECOND = 1_000_000

Toys = Any
MakeToys = Callable[..., Toys]


def batch(base: int) -> bytes:
    return encode_batch(base, 1, 0, [(b"\0\0\0\2", b"x")], control=True)


# --- time ---------------------------------------------------------------------------------


def test_events_happen_in_the_order_of_time_then_class_then_sequence() -> None:
    line, seen = Timeline(), list[str]()
    line.at(20, lambda: seen.append("late"), "late")
    line.at(10, lambda: seen.append("act 1"), "a")
    line.at(10, lambda: seen.append("act 2"), "b")
    line.at(10, lambda: seen.append("fault"), "c", fault=True)
    line.run(15)
    assert seen == ["fault", "act 1", "act 2"]
    assert line.now == 15
    line.run(30)
    assert seen[-1] == "late"


def test_what_must_wait_for_the_end_of_an_event_comes_before_the_next() -> None:
    line, seen = Timeline(), list[str]()

    def event() -> None:
        line.afterwards(lambda: seen.append("after"))
        line.afterwards(lambda: line.afterwards(lambda: seen.append("last")))
        seen.append("event")

    line.at(10, event, "a")
    line.at(10, lambda: seen.append("next"), "b")
    line.run(15, stop=lambda: "last" in seen)
    assert seen == ["event", "after", "last"]
    line.run(15)
    line.afterwards(lambda: seen.append("outside of any event"))
    line.run(15)
    assert seen[3:] == ["next", "outside of any event"]


def test_an_unknown_kind_of_event_raises() -> None:
    with pytest.raises(WorldError, match="unknown event kind 'tea'"):
        Timeline().schedule(5, "tea")


def test_nothing_happens_in_the_past() -> None:
    line = Timeline()
    line.run(100)
    with pytest.raises(WorldError, match="past"):
        line.schedule(99, "act")


def test_the_traces_of_a_world_are_in_order_of_time(toys: MakeToys) -> None:
    world = toys(seed=3).world
    world.run(2 * SECOND)
    offsets = {host.name: host.clock.mono_offset for host in world.hosts}
    times = [event.mono - offsets[event.node] for event in world.events]
    assert times == sorted(times)
    assert len(times) > 100


def test_every_node_has_clocks_of_its_own(toys: MakeToys) -> None:
    world = toys(seed=5).world
    assert len({host.clock.mono_offset for host in world.hosts}) == 3
    assert len({host.clock.wall_offset for host in world.hosts}) == 3


# --- determinism --------------------------------------------------------------------------


def test_the_same_seed_is_the_same_run_and_another_seed_is_another(toys: MakeToys) -> None:
    def digest(seed: int) -> str:
        made = toys(seed=seed)
        made.world.at(300 * MS, lambda: made.world.kill("n2"), "kill", fault=True)
        made.world.at(600 * MS, lambda: made.world.start("n2"), "start", fault=True)
        made.world.run(2 * SECOND)
        return str(made.world.digest)

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_the_digest_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests/simulation');"
        "from conftest import Toys; t = Toys(5, 7);"
        "t.world.cut({f'n{i}': {'n1', 'n2'} - {f'n{i}'} for i in range(1, 6)});"
        "t.world.run(1_000_000); t.world.heal(); t.world.run(2_000_000); print(t.world.digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(digests) == 1


@pytest.mark.wall_clock("the simulator refuses each of these calls")
@pytest.mark.parametrize(
    "escape",
    [
        lambda: time.time(),
        lambda: time.monotonic(),
        lambda: random.random(),
        lambda: random.randint(1, 2),
        lambda: os.urandom(4),
        lambda: socket.socket(),
        lambda: threading.Thread(target=print).start(),
    ],
    ids=["time", "monotonic", "random", "randint", "urandom", "socket", "thread"],
)
def test_the_fence_refuses_the_real_world(escape: Callable[[], object]) -> None:
    with fence(), pytest.raises(FenceError, match="inside the simulation"):
        escape()


def test_the_fence_is_gone_afterwards_even_after_an_error() -> None:
    with pytest.raises(ValueError, match="boom"), fence():
        raise ValueError("boom")
    assert time.time() > 0
    assert len(os.urandom(2)) == 2


def test_a_world_runs_inside_the_fence(toys: MakeToys) -> None:
    world = toys().world
    with fence():
        world.run(SECOND)
    assert world.processed > 50


# --- network ------------------------------------------------------------------------------


def test_messages_take_time_and_keep_their_order_on_a_link(toys: MakeToys) -> None:
    network = toys().world.wires.network
    arrivals = [network.arrival(1000, 1, 2) for _ in range(200)]
    assert arrivals == sorted(set(arrivals))
    assert min(arrivals) >= 1000 + Knobs().latency_min


def test_a_cut_is_made_by_the_receiver_and_may_be_one_way(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.cut({"n1": {"n2"}})
    made.world.run(SECOND)
    assert "heard" not in made.kinds("n1")
    assert "heard" not in made.kinds("n2")
    # n2 hears n1's requests and answers them; only the answers are dropped.
    assert any(type(event).__name__ == "RequestReceived" for _, event in made.node(2).seen)
    assert not any(type(event).__name__ == "RequestReceived" for _, event in made.node(1).seen)
    dropped = made.world.heal()
    assert dropped["n1"] > 0
    assert dropped["n2"] == 0


def test_a_request_on_a_cut_link_fails_after_the_request_timeout(toys: MakeToys) -> None:
    made = toys(count=2, knobs=Knobs(request_timeout=500 * MS, retransmit=0))
    made.world.cut({"n2": {"n1"}, "n1": {"n2"}})
    made.world.run(590 * MS)
    assert "failed" not in made.kinds("n1")
    made.world.run(610 * MS)
    assert made.kinds("n1").count("failed") == 1
    made.world.heal()
    made.world.run(2 * SECOND)
    assert "heard" in made.kinds("n1")


def test_a_message_held_by_a_cut_may_arrive_after_the_heal(toys: MakeToys) -> None:
    made = toys(count=2, knobs=Knobs(retransmit=100, retransmit_max=50 * MS))
    made.world.cut({"n2": {"n1"}})
    made.world.run(150 * MS)
    assert not any(type(event).__name__ == "RequestReceived" for _, event in made.node(2).seen)
    made.world.heal()
    made.world.run(199 * MS)
    assert any(type(event).__name__ == "RequestReceived" for _, event in made.node(2).seen)


def test_a_request_to_a_dead_node_fails_fast(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.kill("n2")
    made.world.run(110 * MS)
    assert made.kinds("n1") == ["start", "asked", "failed"]


def test_an_unreachable_dead_node_is_silent(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.cut({"n1": {"n2"}, "n2": {"n1"}})
    made.world.kill("n2")
    made.world.run(300 * MS)
    assert "failed" not in made.kinds("n1")


# --- processes ----------------------------------------------------------------------------


def test_a_paused_node_does_nothing_and_finds_everything_on_resume(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.run(50 * MS)
    made.world.pause("n2")
    got = made.ask("n2", timeout=10 * SECOND)
    made.world.run(1 * SECOND)
    assert made.node(2).seen == []
    assert got == []
    made.world.resume("n2")
    made.world.run(1_001 * MS)
    events = [type(event).__name__ for _, event in made.node(2).seen]
    assert "RequestReceived" in events
    assert "Tick" in events
    first = made.node(2).seen[0][0] - made.world.host("n2").clock.mono_offset
    assert first == 1 * SECOND
    assert got == [("ok", {"from": 2}, None)]


def test_a_tick_for_a_failed_request_waits_for_a_paused_node(toys: MakeToys) -> None:
    # Seed 1300038: a request to a broker that does not exist failed while its sender was paused.
    made = toys(count=2)
    made.world.run(50 * MS)
    made.world.pause("n2")
    made.world.deliver(made.world.host("n2"), Tick())
    made.ask("n2", timeout=10 * SECOND)
    made.world.run(1 * SECOND)
    assert made.world.resume("n2")
    events = [type(event).__name__ for _, event in made.node(2).seen]
    assert {"Tick", "RequestReceived"} <= set(events)


def test_a_call_to_a_paused_node_is_lost_after_its_timeout_but_handled_later(
    toys: MakeToys,
) -> None:
    made = toys(count=2)
    made.world.pause("n1")
    got = made.ask("n1", "Append", timeout=200 * MS, flush=True)
    made.world.run(300 * MS)
    assert got == [("lost", None, "timed out")]
    made.world.resume("n1")
    made.world.run(400 * MS)
    assert len(disk_of(made.world.host("n1")).content().batches) == 1
    assert len(got) == 1


def test_a_killed_node_loses_its_memory_and_resets_its_connections(toys: MakeToys) -> None:
    made = toys(count=2)
    made.ask("n2", "Append", flush=True)
    made.world.run(50 * MS)
    made.world.pause("n2")
    got = made.ask("n2")
    made.world.run(150 * MS)
    made.world.kill("n2")
    made.world.run(152 * MS)
    assert got == [("lost", None, "connection reset")]
    assert "failed" in made.kinds("n1")
    assert made.ask("n2") == []
    refused = made.ask("n2")
    made.world.run(160 * MS)
    assert refused == [("refused", None, "connection refused")]
    made.world.start("n2")
    assert made.node(2).incarnation == 2
    assert len(made.node(2).log) == 1
    assert made.node(2).seen == []


def test_a_node_that_dies_of_itself_says_why(toys: MakeToys) -> None:
    made = toys(count=2)
    got = made.ask("n1", "Die")
    made.world.run(10 * MS)
    last = made.world.events[-1]
    assert (last.kind, last.detail["reason"]) == ("fatal", "asked to")
    assert made.world.host("n1").node is None
    assert got == [("lost", None, "connection reset")]


def test_a_node_that_wants_tick_after_tick_and_writes_nothing_is_in_a_busy_loop(
    toys: MakeToys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftwreck.simulation.world._BUSY_LOOP", 50)
    made = toys(count=3)
    made.node(2).restless = []
    made.node(3).restless = [WriteQuorumState(7, -1, 3, bytes(16), (1, 2, 3))]
    made.world.run(SECOND)
    assert made.world.host("n1").node is not None
    assert made.world.host("n2").node is None
    assert made.world.host("n3").node is not None
    last = [event for event in made.world.events if event.node == "n2"][-1]
    assert last.detail["reason"] == "50 ticks, each at once: a busy loop"
    writes = len([tick for tick in made.node(3).seen if isinstance(tick[1], Tick)])
    assert writes > 50, "as often as there is work"


def test_an_unknown_host_is_refused(toys: MakeToys) -> None:
    with pytest.raises(WorldError, match="no host 'n9'"):
        toys().world.kill("n9")


# --- disks --------------------------------------------------------------------------------


def test_answers_leave_only_after_the_disk_work_of_their_step(toys: MakeToys) -> None:
    made = toys(count=2, knobs=Knobs(fsync_min=40 * MS, fsync_max=40 * MS))
    got = made.ask("n1", "Append", flush=True)
    made.world.run(39 * MS)
    assert got == []
    assert disk_of(made.world.host("n1")).content().batches == ()
    made.world.run(50 * MS)
    assert got == [("ok", {"offset": 0}, None)]


def test_a_kill_amid_disk_work_loses_the_answer(toys: MakeToys) -> None:
    made = toys(count=2, knobs=Knobs(fsync_min=40 * MS, fsync_max=40 * MS))
    got = made.ask("n1", "Append", flush=True)
    made.world.run(20 * MS)
    made.world.kill("n1")
    made.world.start("n1")
    made.world.run(SECOND)
    assert got == [("lost", None, "connection reset")]
    # The write into the page cache was complete, its flush was not.
    assert len(made.node(1).log) == 1


def test_a_kill_keeps_written_data_and_a_power_loss_flushed_data(
    toys: MakeToys,
) -> None:
    survived = set()
    for seed in range(12):
        made = toys(count=2, seed=seed)
        for flush in (True, True, False, False, False):
            made.ask("n1", "Append", flush=flush)
            made.world.run(made.world.now + 50 * MS)
        made.world.kill("n1", lose_power=seed >= 2)
        survived.add(len(disk_of(made.world.host("n1")).content().batches))
        assert seed >= 2 or len(disk_of(made.world.host("n1")).content().batches) == 5
    assert min(survived) >= 2
    assert len(survived) > 1, "which prefix of the unflushed tail survives is a matter of chance"


def test_a_process_that_shuts_down_leaves_a_stop_event_and_its_epoch(toys: MakeToys) -> None:
    world = toys(count=2).world
    assert world.stop("n1", SECOND)
    assert not world.stop("n1", SECOND), "it was asked"
    world.run(10 * MS)
    host = world.host("n1")
    assert (host.node, host.stopping, left_epoch(host)) == (None, False, 7)
    assert [e.kind for e in world.events if e.node == "n1"][-1] == "stop"
    assert not world.stop("n1", SECOND), "it is gone"
    world.start("n1")
    world.kill("n1")
    assert left_epoch(host) == -1, "what an orderly end left counts for one start"


def test_a_process_that_cannot_end_is_ended(toys: MakeToys) -> None:
    made = toys(count=2)
    world, host = made.world, made.world.host("n1")
    made.node(1).stubborn = True
    world.stop("n1", SECOND)
    world.pause("n1")
    world.run(2 * SECOND)
    assert host.node is not None, "a stopped process ends when it goes on"
    world.resume("n1")
    world.run(3 * SECOND)
    assert (host.node, left_epoch(host)) == (None, -1)
    world.start("n1")
    world.run(9 * SECOND)
    assert host.node is not None, "the next process was not asked"


def test_a_signal_is_read_among_queued_messages(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.pause("n1")
    made.world.stop("n1", SECOND)
    made.ask("n1", "Append")
    made.world.run(50 * MS)
    made.world.resume("n1")
    made.world.run(60 * MS)
    assert made.world.host("n1").node is None


def test_a_process_flushes_recovered_data(toys: MakeToys) -> None:
    made = toys(count=2)
    made.ask("n1", "Append", flush=False)
    made.world.run(50 * MS)
    made.world.kill("n1")
    made.world.start("n1")
    made.world.kill("n1", lose_power=True)
    assert len(disk_of(made.world.host("n1")).content().batches) == 1


def test_quorum_state_survives_a_power_loss(toys: MakeToys) -> None:
    made = toys(count=2)
    made.ask("n1", "Vote")
    made.world.run(50 * MS)
    made.world.kill("n1", lose_power=True)
    state = json.loads(disk_of(made.world.host("n1")).content().quorum_state or b"")
    assert (state["leaderEpoch"], state["votedId"]) == (7, 3)


def test_a_disk_cuts_and_flushes_at_batch_boundaries_only() -> None:
    disk = Disk()
    for base in range(4):
        disk.apply(AppendLog(batch(base)))
    disk.apply(TruncateLog(3))
    assert (disk.end_offset, disk.flushed) == (3, 3)
    disk.apply(AppendLog(batch(3)))
    disk.apply(FlushLog())
    disk.apply(WriteQuorumState(1, -1, -1, bytes(16), ()))
    with pytest.raises(DiskError, match="batch starts at 9"):
        disk.apply(AppendLog(batch(9)))
    with pytest.raises(DiskError, match="cannot truncate to 7"):
        disk.apply(TruncateLog(7))


@pytest.mark.parametrize(("deadline", "next_step"), [(0, 10_000), (1_500, 1_500), (500, 1_000)])
def test_each_step_of_long_work_takes_its_time(deadline: int, next_step: int) -> None:
    """A tick is never sooner than a millisecond after the last one."""
    run = Watched(Knobs(step_time=10_000))
    host = run.host(1)
    core: Any = SimpleNamespace(deadline=host.clock.mono(run.world.now) + deadline)
    host.node = core
    run.world._arm(host, ticked=True)
    assert host.timer == run.world.now + next_step


def test_knobs_come_from_the_seed_and_leave_many_runs_with_defaults() -> None:
    assert draw_knobs(4, 5) == draw_knobs(4, 5)
    drawn = [draw_knobs(seed, 5) for seed in range(200)]
    sizes = {knobs.node["fetch_max_bytes"] for knobs in drawn}
    assert {1, 1 << 20} <= sizes
    assert 60 < sum(knobs.node["linger_ms"] == 25 for knobs in drawn) < 140


def test_kinds_of_clusters_come_from_the_seed_unless_they_are_given() -> None:
    mixed = [
        draw_knobs(seed, 5, quorum="mixed", brokers=None, snapshots=True) for seed in range(200)
    ]
    assert 60 < sum(knobs.dynamic for knobs in mixed) < 140
    assert {knobs.brokers for knobs in mixed} == {0, 1, 2, 3}
    asked = [knobs for knobs in mixed if knobs.through_brokers]
    assert 20 < len(asked) < sum(knobs.brokers > 0 for knobs in mixed)
    assert all(knobs.brokers for knobs in asked)
    sessions = {knobs.node["session_timeout_ms"] for knobs in mixed}
    assert sessions == {1_000, 3_000, 6_000}
    assert {knobs.first_voters for knobs in mixed} == {3, 5}
    assert 0 < sum(knobs.auto_join for knobs in mixed) < 60
    assert not any(knobs.auto_join or knobs.moved for knobs in mixed if not knobs.dynamic)
    assert 30 < sum(knobs.moved for knobs in mixed) < 80
    assert {knobs.changing_ports for knobs in mixed if knobs.brokers} == {False, True}
    assert not any(knobs.changing_ports for knobs in mixed if not knobs.brokers)
    assert {knobs.step_time for knobs in mixed} == {1_000, 10_000}
    old = {knobs.metadata_version for knobs in mixed} - {None}
    assert old == set(OLD_LEVELS)
    assert 30 < sum(knobs.metadata_version is not None for knobs in mixed) < 70
    assert 100 < sum("snapshot_bytes" in knobs.node for knobs in mixed) < 190
    plain = [draw_knobs(seed, 5) for seed in range(50)]
    assert not any(knobs.dynamic or knobs.brokers for knobs in plain)
    assert not any("snapshot_bytes" in knobs.node for knobs in plain)
    # What else is drawn does not depend on them.
    assert [k.latency_max for k in plain] == [k.latency_max for k in mixed[:50]]
