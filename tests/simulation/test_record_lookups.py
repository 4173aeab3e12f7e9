"""Rules on brokers' answers about their logs: each is broken by a planted bug in whole runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.log.partition import times
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived, ListOffsetsReceived
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.partition import EARLIEST, LATEST, Appended, Partition
from kraftwreck.nodes.replication.sessions import Session, Sessions
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import record_lookups, replica_positions
from tests.simulation.test_record_rules import Patch, fail_unless_broken


def acknowledges_the_next_offset(patch: Patch) -> None:
    append = Partition.append

    def planted(self: Partition, batch: Batch, acks: int) -> Appended:
        done = append(self, batch, acks)
        return done if done.error else done._replace(base_offset=done.base_offset + 1)

    patch.setattr(Partition, "append", planted)


def finds_the_record_after(patch: Patch) -> None:
    def planted(*given: Any) -> tuple[int, int, int] | None:
        found = times.offset_at(*given)
        return None if found is None else (found[0] + 1, *found[1:])

    patch.setattr("kraftwreck.nodes.server.partition_files.offset_at", planted)


def ends_each_epoch_with_the_log(patch: Patch) -> None:
    def planted(self: Partition, current: int, epoch: int) -> Any:
        error = self.fault(current)
        if error != NONE or self.log is None:
            return self.key, error, -1, -1
        return self.key, NONE, epoch, self.log.end

    patch.setattr(Partition, "epoch_end", planted)


def deletes_at_the_leader_only(patch: Patch) -> None:
    patch.setattr(
        Partition, "low_watermark", property(lambda self: self.log.start if self.log else -1)
    )


def says_nothing_new_in_a_session(patch: Patch) -> None:
    patch.setattr(Session, "news", lambda self, parts, *, full: parts if full else ())


def keeps_what_a_session_gives_up(patch: Patch) -> None:
    resolve = Sessions.resolve

    def planted(self: Sessions, event: FetchReceived) -> Any:
        return resolve(self, replace(event, forgotten=()))

    patch.setattr(Sessions, "resolve", planted)


def tells_followers_no_log_start(patch: Patch) -> None:
    delete = Partition.delete_up_to

    def planted(self: Partition, offset: int) -> None:
        if self.leading:
            delete(self, offset)

    patch.setattr(Partition, "delete_up_to", planted)


def looks_times_up_to_the_end(patch: Patch) -> None:
    offset_at = Partition.offset_at

    def planted(self: Partition, *given: Any) -> out.OffsetPart:
        found = offset_at(self, *given)
        if found.lookup is None or self.log is None:
            return found
        return replace(found, lookup=replace(found.lookup, end_offset=self.log.end))

    patch.setattr(Partition, "offset_at", planted)


@pytest.mark.many_runs
@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (acknowledges_the_next_offset, "D2"),
        (finds_the_record_after, "D13"),
        (ends_each_epoch_with_the_log, "D7"),
        (deletes_at_the_leader_only, "D11"),
        (says_nothing_new_in_a_session, "L13"),
        (keeps_what_a_session_gives_up, "D5"),
        (tells_followers_no_log_start, "L13"),
        (looks_times_up_to_the_end, "D13"),
    ],
)
def test_a_planted_bug_breaks_its_rule(
    plant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    fail_unless_broken(rule)


KEY = (bytes(16), 0)


class Judged:
    """The rules on the answers of one leader, whose log ends at 20."""

    def __init__(self, monkeypatch: Patch) -> None:
        self.failures = Failures()
        self.disk, self.log = (SimpleNamespace(start=2, end=20) for _ in range(2))
        epoch = SimpleNamespace(leader_epoch=0)
        self.leader = SimpleNamespace(
            key=KEY, hw=10, leading=True, log=self.log, assignment=epoch, epoch_start=0,
            in_sync=SimpleNamespace(isr=(4,), pending=None),
        )  # fmt: skip
        data = SimpleNamespace(core=SimpleNamespace(partitions={KEY: self.leader}))
        image = SimpleNamespace(stable=SimpleNamespace(topics={}))
        node = SimpleNamespace(broker=SimpleNamespace(data=data), image=image)
        self.host: Any = SimpleNamespace(id=4, name="b1", life=1, node=node)
        self.stepped: list[Any] = []
        world: Any = SimpleNamespace(now=0, hosts=[self.host], on_emit=self.stepped)
        watch: Any = SimpleNamespace(logs=SimpleNamespace(of=lambda host, key: self.disk))
        full = SimpleNamespace(logs=SimpleNamespace(full=()))
        outlets = SimpleNamespace(on_answer=[])
        monkeypatch.setattr(record_lookups, "record_traffic", lambda world: outlets)
        monkeypatch.setattr(replica_positions, "replicas_on", lambda host: {KEY: self.leader})
        monkeypatch.setattr(record_lookups, "disk_of_records", lambda host: full)
        monkeypatch.setattr(record_lookups, "_end_of", lambda *of: (0, 20))
        steps: Any = SimpleNamespace(states=lambda host, key, log: iter((log,)))
        positions = replica_positions.ReplicaPositions(world)
        self.lookups = record_lookups.RecordLookups(world, self.failures, watch, steps, positions)
        self.stepped[0](self.host)

    def step(self, hw: int, start: int) -> None:
        self.leader.hw, self.log.start, self.disk.start = hw, start, start
        self.stepped[0](self.host)

    def broken_by(self, event: Any, effect: Any, body: Any = None) -> list[str]:
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event))
        self.lookups.answered(self.host, message, effect, body or {"responses": [], "topics": []})
        return [failure.type for failure in self.failures.items]


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("told", "broken"),
    [
        ({"hw": 10}, []),
        ({"hw": 12}, []),
        ({"hw": 9}, ["D5"]),
        ({"hw": 13}, ["D5"]),
        ({"latest": 10}, []),
        ({"latest": 9}, ["D13"]),
        ({"earliest": 2}, []),
        ({"earliest": 4}, []),
        ({"earliest": 1}, ["D13"]),
    ],
)
def test_an_answer_may_precede_the_rest_of_its_step(
    told: dict[str, int], broken: list[str], monkeypatch: Patch
) -> None:
    """A broker that was busy answers a request, and then does what is due in the same step: a
    silent replica no longer holds the high watermark back, or old records go."""
    one = Judged(monkeypatch)
    one.step(hw=12, start=4)
    event: Any = FetchReceived(1, (FetchPart(KEY, 15, 1),))
    effect: Any = out.ReplyFetch(1, NONE, 0, 1, (out.ReadPart(KEY, NONE, told.get("hw", -1), 2),))
    body: dict[str, Any] = {"responses": [], "topics": []}
    if "hw" not in told:
        ((name, offset),) = told.items()
        event = ListOffsetsReceived(1, ((KEY, LATEST if name == "latest" else EARLIEST, -1),))
        effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE, offset),))
    assert one.broken_by(event, effect, body) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("offsets", "broken"),
    [((12, 2), []), ((12, 4), ["D11"]), ((13, 2), ["D5"]), ((11, 2), [])],
)
def test_a_session_leaves_out_only_what_it_has_said(
    offsets: tuple[int, int], broken: list[str], monkeypatch: Patch
) -> None:
    one = Judged(monkeypatch)
    one.step(hw=12, start=2)
    first: Any = FetchReceived(1, (FetchPart(KEY, 15, 1),), replica_id=5, session_epoch=0)
    said = out.ReplyFetch(1, NONE, 7, 1, (out.ReadPart(KEY, NONE, 12, 2),))
    assert one.broken_by(first, said) == []
    # A step may do what is due after its answer, so only what was before it counts.
    one.step(*offsets)
    later = replace(first, parts=(), session_id=7, session_epoch=1)
    silent = replace(said, parts=())
    assert one.broken_by(later, silent) == []
    one.step(*offsets)
    assert one.broken_by(replace(later, session_epoch=2), silent) == broken


@pytest.mark.interpreted
@pytest.mark.parametrize(("begins", "broken"), [(10, []), (11, ["D13"])])
def test_an_end_is_not_told_before_a_commit_of_the_epoch(
    begins: int, broken: list[str], monkeypatch: Patch
) -> None:
    one = Judged(monkeypatch)
    one.leader.epoch_start = begins
    event = ListOffsetsReceived(1, ((KEY, LATEST, -1),))
    effect = out.ReplyListOffsets(1, (out.OffsetPart(KEY, NONE, 10, 0),))
    assert one.broken_by(event, effect) == broken
