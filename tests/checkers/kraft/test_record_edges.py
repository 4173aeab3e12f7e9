"""Rules for the records of the committed log and of snapshots, judged right at their edges."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraftwreck.checkers.kraft.controller_model.metadata_model import MetadataModel, Partition
from kraftwreck.checkers.kraft.controller_model.refusals import has_online_replica
from kraftwreck.checkers.kraft.invariants import (
    broker_life,
    snapshots,
    state_machine,
    timely_elections,
    unrequested,
    voter_sets,
)
from kraftwreck.checkers.kraft.invariants.eligible_rules import EligibleRules
from kraftwreck.checkers.kraft.invariants.partition_rules import PartitionRules
from kraftwreck.checkers.kraft.invariants.topic_rules import TopicRules
from kraftwreck.checkers.kraft.recorded.committed_log import voter_set
from tests.checkers.breaks import broken
from tests.checkers.kraft.stand_ins import breaks, evidence, heard, message, thing

pytestmark = pytest.mark.interpreted  # Stand-ins take the place of the evidence.

MS, SECOND = 1_000_000, 1_000_000_000

NAMED, LOST, ONLINE, OFFLINE = b"\x00" * 15 + b"\x01", b"\x00" * 15 + b"\x02", b"d" * 16, b"e" * 16
PARTITION = Partition(
    replicas=(1, 2, 3), isr=(1, 2, 3), removing=(), adding=(), leader=1, leader_epoch=5,
    partition_epoch=9, recovery=0, directories=(), elr=(), last_known_elr=(),
)  # fmt: skip
BATCH: Any = thing(base=5)


# --- partitions -----------------------------------------------------------------------------------


def rules(asked: int = 0) -> tuple[PartitionRules, Any]:
    """Rules for a run in which each move of a partition was requested ``asked`` times."""
    report = heard()
    found = PartitionRules(report, cast(Any, thing(capture=None, calls=[], test={})))
    found._asked = cast(Any, thing(times=lambda *_: asked))
    return found, report


@pytest.mark.parametrize(
    ("version", "isr", "bumped", "right"),
    [
        (11, (1, 2), True, True),
        (11, (1, 2), False, False),
        (12, (1, 2), False, True),
        (12, (1, 2), True, False),
        (None, (1, 2), False, True),
        (None, (1, 2), True, True),
        (11, (1, 2, 3), False, True),
        (11, (1, 2, 3), True, False),
    ],
)
def test_c5_a_smaller_isr_bumped_the_leader_epoch_before_3_6(
    version: int | None, isr: tuple[int, ...], bumped: bool, right: bool
) -> None:
    judge, report = rules()
    features = {} if version is None else {"metadata.version": version}
    step: Any = thing(
        name="PartitionChangeRecord", model=thing(features=features),
        fields={"leader": 1} if bumped else {},
    )  # fmt: skip
    judge._epochs(step, "t-0", PARTITION, PARTITION._replace(isr=isr))
    assert report.found == ["C5"] * (not right)


@pytest.mark.parametrize(
    ("isr", "leader", "asked", "right"),
    [
        ((1, 2, 4), 1, 0, True),
        ((4,), 4, 0, True),
        ((1, 2), 1, 0, False),
        ((1, 2), 1, 1, False),
        ((1, 2), 1, 2, True),
    ],
)
def test_c14_a_reassignment_ends_when_the_added_replicas_are_in_sync(
    isr: tuple[int, ...], leader: int, asked: int, right: bool
) -> None:
    """It was requested once, or again when the first had ended."""
    begun = PARTITION._replace(replicas=(1, 2, 4, 3), adding=(4,), removing=(3,), isr=(1, 2, 3))
    ended = PARTITION._replace(replicas=(1, 2, 4), isr=isr, leader=leader)
    judge, report = rules(asked)
    judge._reassignment("t-0", "t", begun, ended)
    assert report.found == ["C14"] * (not right)


@pytest.mark.parametrize(("leader", "right"), [(-1, False), (0, True), (1, False), (2, True)])
def test_c14_an_unclean_leader_may_leave_added_replicas_behind(leader: int, right: bool) -> None:
    """Its election is part of the record that ends the reassignment."""
    begun = PARTITION._replace(replicas=(0, 1, 2, 4), adding=(4,), isr=(1, 4))
    ended = PARTITION._replace(replicas=(0, 1, 2, 4), isr=(max(leader, 0),), leader=leader)
    judge, report = rules()
    judge._reassignment("t-0", "t", begun, ended)
    assert report.found == ["C14"] * (not right)


@pytest.mark.parametrize(
    ("adding", "removing", "isr", "wrong"),
    [
        ((3,), (4,), (1, 3, 4), True),
        ((3,), (4,), (1, 4), False),
        ((), (4,), (1, 4), False),
        ((), (4,), (1, 2, 3, 4), True),
        ((3,), (4, 5), (1, 3), False),
        ((3,), (4, 5), (1, 2, 3), True),
    ],
)
def test_c14_where_more_replicas_go_than_come_all_that_stay_must_be_in_sync(
    adding: tuple[int, ...], removing: tuple[int, ...], isr: tuple[int, ...], wrong: bool
) -> None:
    """Else a reassignment ends as soon as the added ones are."""
    now = PARTITION._replace(
        replicas=(1, 2, 3, *removing), adding=adding, removing=removing, isr=isr
    )
    judge, report = rules()
    judge._goes_on("t-0", now)
    assert report.found == ["C14"] * wrong


@pytest.mark.parametrize(("asked", "judged"), [(1, True), (2, False)])
def test_c14_a_move_that_was_requested_twice_may_end_in_one_step(asked: int, judged: bool) -> None:
    begun = PARTITION._replace(removing=(3,), isr=(1, 3))
    ended = PARTITION._replace(replicas=(1, 2), isr=(1,))
    judge, report = rules(asked)
    judge._made_up_for("t-0", "t", begun, ended)
    assert report.found == ["C14"] * judged


@pytest.mark.parametrize(("records", "judged"), [(8_999, True), (9_000, False)])
def test_c4_and_c7_leave_out_batches_that_may_continue(records: int, judged: bool) -> None:
    partitions, report = rules()
    partitions._touched = partitions._leaderless = {(b"", 0)}
    model = thing(
        brokers={1: thing(active=True, directories=())}, elr_enabled=lambda: True, label=str,
        config=lambda *_: None, partitions={(b"", 0): PARTITION._replace(leader=-1)},
    )  # fmt: skip
    partitions.batch_end(BATCH, records, cast(Any, model))
    eligible = EligibleRules(report)
    eligible._enabled = True
    eligible._batch.settings["t"] = 5
    eligible.batch_end(BATCH, records, cast(Any, model))
    assert report.found == (["C4", "C7"] if judged else [])


@pytest.mark.parametrize(
    ("directory", "online"),
    [(None, True), (NAMED, True), (LOST, False), (ONLINE, True), (OFFLINE, False)],
)
def test_a_replica_in_a_lost_or_unregistered_directory_cannot_lead(
    directory: bytes | None, online: bool
) -> None:
    held = () if directory is None else (directory, ONLINE, ONLINE)
    broker: Any = thing(directories=(ONLINE,))
    assert has_online_replica(PARTITION._replace(directories=held), 1, broker) is online


@pytest.mark.parametrize(("elr", "last", "epoch"), [((), (), 9), ((2,), (), 10), ((), (1,), 10)])
def test_clearing_eligible_replicas_changes_a_partition_that_has_some(
    elr: tuple[int, ...], last: tuple[int, ...], epoch: int
) -> None:
    model = MetadataModel()
    model.topics["t"] = b"id"
    model.partitions[b"id", 0] = PARTITION._replace(elr=elr, last_known_elr=last)
    model.apply("ClearElrRecord", {"topic_name": "t"})
    now = model.partitions[b"id", 0]
    assert (now.elr, now.last_known_elr, now.partition_epoch) == ((), (), epoch)


# --- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("following", "wrong"), [(999, True), (1000, True), (1001, False)])
def test_c11_producer_ids_go_on(following: int, wrong: bool) -> None:
    report = heard()
    judge = TopicRules(report)
    for new in (1000, following):
        change = thing(section="producer ids", new=new)
        owner = {"broker_id": 1, "broker_epoch": 7}
        step = thing(offset=5, change=change, fields=owner, model=MetadataModel())
        judge.step(cast(Any, step), cast(Any, change))
    assert report.found == ["C11"] * wrong


def test_c1_two_incarnations_in_one_batch_have_two_epochs(
    quorum: Any, records: Any, make_run: Any
) -> None:
    quorum.one_epoch()
    epoch = quorum._end("n1")
    quorum.write(
        records.register(1, epoch, incarnation=1), records.register(1, epoch + 1, incarnation=2)
    )
    assert broken(make_run(None, quorum)) == set()
    epoch = quorum._end("n1")
    quorum.write(
        records.register(2, epoch, incarnation=1), records.register(2, epoch, incarnation=2)
    )
    assert broken(make_run(None, quorum)) == {"C1"}


# --- settings -------------------------------------------------------------------------------------

WRITTEN, BLUR = 100, 4


@pytest.mark.parametrize(("sent", "in_time"), [(WRITTEN + BLUR, True), (WRITTEN + BLUR + 1, False)])
@pytest.mark.parametrize("api", ["IncrementalAlterConfigs", "AlterConfigs", "UpdateFeatures"])
def test_c21_a_change_was_requested_before_it_was_written(
    api: str, sent: int, in_time: bool
) -> None:
    """AlterConfigs resets what it does not name."""
    value = None if api == "AlterConfigs" else "2"
    named = [{"name": "a.b", "value": value, "config_operation": 0}] if value else []
    resource = {"resource_type": 2, "resource_name": "t", "configs": named}
    level = {"feature": "f", "max_version_level": 2}
    body = {"validate_only": False, "resources": [resource], "feature_updates": [level]}
    asked = message(api, sent, 999, request=body, response=None)
    setting = thing(changes=lambda: [(9, "1", value)])
    features = thing(since=lambda *_: [(9, 1, 2)])
    history = thing(
        whole=True, ends=[0], topics={"t": thing(at=lambda _: b"id")},
        configs={} if api == "UpdateFeatures" else {(2, "t", "a.b"): setting},
        features={"f": features} if api == "UpdateFeatures" else {},
    )  # fmt: skip
    derived = {
        "controller": thing(history=history),
        "commits": thing(written=lambda _: WRITTEN, blur=BLUR),
    }
    known = evidence([asked], derived=derived)
    assert breaks(unrequested.check_settings, known) == ["C21"] * (not in_time)


# --- voters, snapshots and deliveries -------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "right"),
    [((1, 2), True), ((1, 2, 3), True), ((1,), True), ((1, 2, 3, 4), False), ((1, 3), False)],
)
def test_i26_a_record_adds_or_removes_one_voter(now: tuple[int, ...], right: bool) -> None:
    replay = thing(voters=[(0, voters_of(1, 2)), (9, voters_of(*now))])
    known = evidence(derived={"controller": thing(replay=replay)}, log=thing(whole=True))
    assert breaks(voter_sets.check_records, known) == ["I26"] * (not right)


def voters_of(*ids: int) -> frozenset[tuple[int, str]]:
    return voter_set(header_of(1, *ids).voters)


def header_of(level: int, *voters: int) -> Any:
    told = [{"voter_id": i, "voter_directory_id": bytes([i])} for i in voters]
    return thing(kraft_version=level, voters=told)


@pytest.mark.parametrize(
    ("end", "voters", "right"),
    [(5, (1,), True), (6, (1,), False), (6, (1, 2), True), (5, (1, 2), False)],
)
def test_i20_a_snapshot_has_the_voters_of_the_records_before_its_end(
    end: int, voters: tuple[int, ...], right: bool
) -> None:
    """Of offset 5 on there are two."""
    sets = [(0, voters_of(1)), (5, voters_of(1, 2))]
    replayed: Any = thing(voters=sets, levels=[(0, 1)])
    report = heard()
    snapshots._voters(report, replayed, (end, 1), header_of(1, *voters), "")
    assert report.found == ["I20"] * (not right)


@pytest.mark.parametrize(("level", "right"), [(0, True), (1, False)])
def test_i20_a_snapshot_names_voters_from_kraft_version_1_on(level: int, right: bool) -> None:
    replayed: Any = thing(voters=[(0, voters_of(1, 2))], levels=[(0, level)])
    report = heard()
    snapshots._voters(report, replayed, (5, 1), header_of(level), "")
    assert report.found == ["I20"] * (not right)


@pytest.mark.parametrize(("end", "right"), [(5, False), (6, True)])
def test_i20_a_snapshot_has_the_kraft_version_of_the_records_before_its_end(
    end: int, right: bool
) -> None:
    replayed: Any = thing(voters=[], levels=[(5, 1)])
    report = heard()
    snapshots._voters(report, replayed, (end, 1), header_of(1, 1), "")
    assert report.found == ["I20"] * (not right)


@pytest.mark.parametrize(("mark", "end", "right"), [(-1, 9, True), (0, 1, False), (5, 5, True)])
def test_i20_a_snapshot_ends_at_or_below_the_highest_high_watermark(
    mark: int, end: int, right: bool
) -> None:
    file: Any = thing(id=(end, 1), where="", damage=None, header=None)
    log = thing(segments=[], whole=False)
    known = evidence(log=log, high_watermark=mark)
    replayed: Any = thing()
    assert breaks(snapshots._names, known, replayed, [file]) == ["I20"] * (not right)


@pytest.mark.parametrize(("end", "facts"), [(0, 0), (1, 1)])
def test_i20_leaves_out_the_first_snapshot_of_a_new_disk(
    monkeypatch: pytest.MonkeyPatch, end: int, facts: int
) -> None:
    """It has the voters with which the disk was formatted, and no record comes before it."""
    monkeypatch.setattr(snapshots, "read_header", lambda _: header_of(1, 1))
    monkeypatch.setattr(snapshots, "disk_logs", lambda _: [])
    file = thing(id=(end, 1), where="", damage=None, header=header_of(1, 1))
    replay = thing(voters=[], levels=[(7, 1)], compared=0, differences=[], unreadable=[], records=1)
    known = evidence(
        log=thing(segments=[], whole=True, snapshots=[file]),
        derived={"controller": thing(replay=replay)},
        run={"capture": thing(headers={(end, 1, b""): 1})},
    )
    report = heard()
    snapshots.check(known, report)
    assert report.found == ["I20", "I20"] * facts
    assert report.facts.get("I20", 0) == 2 * facts


@pytest.mark.parametrize(("end", "right"), [(5, True), (6, False), (8, False), (9, True)])
def test_c12_a_snapshot_ends_outside_of_transactions(end: int, right: bool) -> None:
    """One is of the offsets 5 to 8."""
    replay = thing(
        records=9, transactions=1, refusals=[], transaction_errors=[], open_ranges=[(5, 8)]
    )
    known = evidence(
        log=thing(snapshots=[thing(id=(end, 1), where="")]),
        derived={"controller": thing(replay=replay)},
    )
    assert breaks(state_machine._log, known) == ["C12"] * (not right)


@pytest.mark.parametrize(
    ("mark", "offset", "right"),
    [(-1, 0, True), (0, 0, False), (0, -1, True), (5, 4, True), (5, 5, False)],
)
def test_i24_a_reported_offset_is_below_the_highest_high_watermark(
    mark: int, offset: int, right: bool
) -> None:
    body = {"broker_id": 2, "broker_epoch": 5, "current_metadata_offset": offset}
    beat = message("BrokerHeartbeat", 0, 1, request=body)
    known = evidence([beat], high_watermark=mark)
    assert breaks(broker_life._offsets, known, thing(), {}) == ["I24"] * (not right)


@pytest.mark.parametrize(("extra", "wrong"), [(0, False), (1, True)])
def test_l12_an_election_takes_an_interval_and_what_a_commit_takes(
    monkeypatch: pytest.MonkeyPatch, extra: int, wrong: bool
) -> None:
    """With an interval of 2 s, no linger time and no disks to wait for, and half a second."""
    waits = 2 * SECOND + 100 * MS + 500 * MS + extra
    found = waiting(monkeypatch, "preferred", waits, {timely_elections.REBALANCE: 2})
    assert found == ["L12"] * wrong


@pytest.mark.parametrize(("interval_ms", "judged"), [(10_000, True), (10_001, False)])
def test_l12_leaves_out_unclean_elections_at_intervals_above_10_s(
    monkeypatch: pytest.MonkeyPatch, interval_ms: int, judged: bool
) -> None:
    settings = {timely_elections.UNCLEAN: interval_ms}
    assert waiting(monkeypatch, "unclean", 99 * SECOND, settings) == ["L12"] * judged


def waiting(
    monkeypatch: pytest.MonkeyPatch, kind: str, waits: int, settings: dict[str, int]
) -> list[str]:
    """A partition waits for its election under one controller."""
    monkeypatch.setattr(timely_elections, "_wanting", lambda _: [((b"", 0), 1, 2, kind)])
    monkeypatch.setattr(timely_elections, "reigns", lambda _: [thing(begun=0, last=1 << 62)])
    monkeypatch.setattr(timely_elections, "State", lambda *_: thing(name=lambda _: "t"))
    commits = thing(when=lambda _: SECOND, written=lambda _: SECOND + waits)
    derived = {"controller": thing(is_whole=lambda *_: True, history=thing()), "commits": commits}
    known = evidence(setting={"linger_ms": 0, **settings}.get, derived=derived)
    return breaks(timely_elections.check, known)
