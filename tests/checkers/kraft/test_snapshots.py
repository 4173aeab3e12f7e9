"""Snapshots, logs that begin above 0 and changes of voters: each id on what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.recorded.disk_image import DiskImage
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.nodes.log.snapshots import data_batch, footer_batch, header_batch, snapshot_name
from kraftwreck.nodes.protocol.records import KRAFT_VERSION, KRAFT_VOTERS, encode_control
from tests.checkers.breaks import broken

DIRECTORIES = {node: f"{node:032x}" for node in (1, 2, 3, 4)}


def listed(run: RunData, invariant: str) -> dict[str, Any]:
    found: dict[str, Any] = check(run).stats["invariants"][invariant]
    return found


def snapshot(end: int, epoch: int, *records: bytes, voters: Any = None) -> tuple[str, bytes]:
    head = header_batch(epoch, 0, 0, None if voters is None else 1, voters)
    count = 1 if voters is None else 3
    data = data_batch(count, epoch, 0, records) if records else b""
    footer = footer_batch(count + len(records), epoch, 0)
    return snapshot_name(end, epoch), head + data + footer


def voter_records(*voters: int) -> list[dict[str, Any]]:
    return [
        {
            "voter_id": voter,
            "voter_directory_id": bytes.fromhex(DIRECTORIES[voter]),
            "endpoints": [],
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
        for voter in voters
    ]


@pytest.fixture
def topics(quorum: Any, records: Any) -> Any:
    """n1 leads epoch 1, and topics a and b exist from offset 4 on."""
    quorum.one_epoch()
    quorum.write(records.topic("a", b"a" * 16))
    quorum.write(records.topic("b", b"b" * 16))
    return quorum


def with_snapshot(quorum: Any, *files: tuple[str, bytes], start: int = 0) -> list[DiskImage]:
    """The disks at the end; n3's log begins at ``start`` and it has the snapshots."""
    images: list[DiskImage] = quorum.images()
    images[2].snapshots = files
    images[2].start_offset = start
    images[2].log = b"".join(quorum.logs["n3"][start:])
    return images


@pytest.fixture
def state(records: Any) -> tuple[bytes, ...]:
    """The records of a snapshot at offset 4."""
    k = records.record("ConfigRecord", resource_type=4, resource_name="", name="k", value="v")
    return records.topic("b", b"b" * 16), records.topic("a", b"a" * 16), k


def test_a_correct_snapshot_is_valid(topics: Any, state: Any, make_run: Callable[..., Any]) -> None:
    run = make_run(None, topics, images=with_snapshot(topics, snapshot(4, 1, *state), start=4))
    assert check(run).valid is True
    assert listed(run, "I19") == {"name": "SnapshotConsistency", "status": "checked", "facts": 1}
    assert listed(run, "I20")["status"] == listed(run, "I21")["status"] == "checked"


def test_without_snapshots_nothing_is_said_of_them(
    topics: Any, make_run: Callable[..., Any]
) -> None:
    run = make_run(None, topics)
    assert listed(run, "I19")["why"] == "no snapshots in this run"
    assert listed(run, "I21")["why"] == "every log begins at offset 0"


def test_a_log_without_its_beginning_continues_at_a_snapshot(
    topics: Any, state: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    topics.write(records.remove_topic(b"a" * 16))
    topics.write(records.topic("a", b"c" * 16))
    images = with_snapshot(topics, snapshot(4, 1, *state), start=4)
    for image in images:
        image.log, image.start_offset = images[2].log, 4
        image.snapshots = images[2].snapshots
    run = make_run(None, topics, images=images)
    assert check(run).valid is True
    assert listed(run, "I23")["facts"] == 2


def test_i19_a_snapshot_that_forgot_a_topic(
    topics: Any, state: Any, make_run: Callable[..., Any]
) -> None:
    images = with_snapshot(topics, snapshot(4, 1, *state[1:]))
    result = check(make_run(None, topics, images=images))
    assert {anomaly.type for anomaly in result.anomalies} == {"I19"}
    assert "says nothing of topic 'b'" in result.anomalies[0].explanation


def test_i19_two_nodes_report_different_states_of_one_snapshot(
    topics: Any, make_run: Callable[..., Any]
) -> None:
    for node, digest in (("n1", "aa"), ("n2", "bb")):
        topics.event(node, "snapshot", {"end": 4, "epoch": 1, "by": "created", "digest": digest})
    assert broken(make_run(None, topics)) == {"I19"}


def test_i20_a_snapshot_without_its_footer(
    topics: Any, state: Any, make_run: Callable[..., Any]
) -> None:
    name, content = snapshot(4, 1, *state)
    for torn in (b"", content[:-1], content[: len(content) - 70]):
        assert broken(make_run(None, topics, images=with_snapshot(topics, (name, torn)))) == {"I20"}


@pytest.mark.parametrize(("end", "epoch"), [(4, 2), (9, 1)], ids=["epoch", "not committed"])
def test_i20_a_name_that_is_wrong(
    topics: Any, state: Any, make_run: Callable[..., Any], end: int, epoch: int
) -> None:
    images = with_snapshot(topics, snapshot(end, epoch, *state))
    assert "I20" in broken(make_run(None, topics, images=images))


def test_i20_an_end_inside_a_batch(
    topics: Any, state: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    topics.write(records.topic("c", b"c" * 16), records.topic("d", b"d" * 16))
    images = with_snapshot(topics, snapshot(5, 1, *state, records.topic("c", b"c" * 16)))
    assert broken(make_run(None, topics, images=images)) == {"I20"}


def test_i20_a_snapshot_made_above_the_high_watermark(
    topics: Any, make_run: Callable[..., Any]
) -> None:
    topics.event("n1", "snapshot", {"end": 5, "epoch": 1, "by": "created"})
    assert broken(make_run(None, topics)) == {"I20"}


def test_i20_a_new_leader_keeps_its_known_high_watermark(
    topics: Any, make_run: Callable[..., Any]
) -> None:
    topics.elect("n2", 2, ("n3",))
    assert topics.at["n2"]["hw"] == -1
    topics.event("n2", "snapshot", {"end": 4, "epoch": 1, "by": "created"})
    assert broken(make_run(None, topics)) == set()
    topics.event("n2", "snapshot", {"end": 5, "epoch": 2, "by": "created"})
    assert broken(make_run(None, topics)) == {"I20"}


def test_i20_a_snapshot_that_forgot_the_voters(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.elect("n1", 1)
    quorum.copy("n1", "n2", "n3")
    quorum.commit("n1", "n2", "n3")
    voters = voter_records(1, 2, 3)
    quorum.write_control(
        encode_control(KRAFT_VERSION, {"version": 0, "kraft_version": 1}),
        encode_control(KRAFT_VOTERS, {"version": 0, "voters": voters}),
    )
    whole = with_snapshot(quorum, snapshot(3, 1, voters=voters))
    assert broken(make_run(None, quorum, images=whole)) == set()
    without = with_snapshot(quorum, snapshot(3, 1))
    assert broken(make_run(None, quorum, images=without)) == {"I20"}


@pytest.mark.parametrize("ids", [(1, 2, 3), (1, 2)], ids=["in force there", "of a later record"])
def test_i20_a_snapshot_that_is_gone_by_now_named_its_voters(
    quorum: Any, capture: Any, make_run: Callable[..., Any], ids: tuple[int, ...]
) -> None:
    quorum.elect("n1", 1)
    quorum.copy("n1", "n2", "n3")
    quorum.commit("n1", "n2", "n3")
    quorum.write_control(
        encode_control(KRAFT_VERSION, {"version": 0, "kraft_version": 1}),
        encode_control(KRAFT_VOTERS, {"version": 0, "voters": voter_records(1, 2, 3)}),
    )
    quorum.write_control(
        encode_control(KRAFT_VOTERS, {"version": 0, "voters": voter_records(1, 2)})
    )
    first = header_batch(1, 5, 7, 1, voter_records(*ids))
    capture.headers[3, 1, first] = 1
    wrong = "I20" in broken(make_run(None, quorum, capture=capture))
    assert wrong is (len(ids) == 2)


def test_i21_a_log_that_begins_after_all_snapshots(
    topics: Any, state: Any, make_run: Callable[..., Any]
) -> None:
    assert broken(make_run(None, topics, images=with_snapshot(topics, start=4))) == {"I21"}


def test_i22_a_leader_installs_a_snapshot(topics: Any, make_run: Callable[..., Any]) -> None:
    topics.event("n1", "install", {"end": 4, "epoch": 1})
    assert broken(make_run(None, topics)) == {"I22"}


def test_i23_two_images_at_one_offset(topics: Any, make_run: Callable[..., Any]) -> None:
    for node, digest in (("n1", "aa"), ("n2", "aa"), ("n3", "bb")):
        topics.event(node, "image", {"offset": 3, "epoch": 1, "digest": digest})
    assert broken(make_run(None, topics)) == {"I23"}


def test_i25_a_restart_continues_after_its_snapshot(
    topics: Any, state: Any, make_run: Callable[..., Any], records: Any
) -> None:
    """n3 restarts from the snapshot at 4: its first delivery is offset 4."""
    topics.start("n3")
    topics.event("n3", "load", {"end": 4, "epoch": 1})
    topics.append("n1", 1)
    topics.copy("n1", "n2", "n3")
    topics.commit("n1", "n2")
    late = {"base": 4, "last": 4, "epoch": 1, "crc": topics.events[-1].detail["crc"]}
    topics.event("n3", "hw", hw=5)
    topics.event("n3", "commit", late)
    images = with_snapshot(topics, snapshot(4, 1, *state), start=4)
    assert broken(make_run(None, topics, images=images)) == set()
    topics.events = [event for event in topics.events if event.kind != "load"]
    for number, event in enumerate(e for e in topics.events if e.incarnation == 2):
        event.seq = number
    assert broken(make_run(None, topics)) == {"I25"}


def test_d7_a_checkpoint_that_outlived_a_truncation(
    topics: Any, make_run: Callable[..., Any]
) -> None:
    images = topics.images()
    images[0].epochs = ((1, 0), (2, 9))
    assert broken(make_run(None, topics, images=images)) == set()
    assert listed(make_run(None, topics, images=images), "D7")["facts"] == 2
    images[0].epochs = ((1, 0), (2, 3))
    assert broken(make_run(None, topics, images=images)) == {"D7"}


def test_c12_a_snapshot_inside_a_transaction(
    topics: Any, state: Any, records: Any, make_run: Callable[..., Any]
) -> None:
    topics.write(records.record("BeginTransactionRecord"), records.topic("c", b"c" * 16))
    topics.write(records.record("EndTransactionRecord"))
    images = with_snapshot(topics, snapshot(6, 1, *state))
    assert broken(make_run(None, topics, images=images)) == {"C12"}


# --- who votes ------------------------------------------------------------------------------


def tell(quorum: Any, node: str, offset: int, *voters: int, directories: Any = None) -> None:
    known = {**DIRECTORIES, **(directories or {})}
    detail = {
        "voters": [[voter, known[voter]] for voter in voters],
        "offset": offset,
        "kraft_version": 1,
    }
    quorum.event(node, "voters", detail)


def test_one_voter_more_is_valid(topics: Any, make_run: Callable[..., Any]) -> None:
    tell(topics, "n1", 0, 1, 2)
    tell(topics, "n1", 3, 1, 2, 3)
    run = make_run(None, topics)
    assert (broken(run), listed(run, "I26")["facts"]) == (set(), 1)


def test_i26_two_voters_at_once(topics: Any, make_run: Callable[..., Any]) -> None:
    tell(topics, "n1", 0, 1)
    tell(topics, "n1", 3, 1, 2, 3)
    assert broken(make_run(None, topics)) == {"I26"}


def test_i26_a_change_while_one_is_open(topics: Any, make_run: Callable[..., Any]) -> None:
    tell(topics, "n1", 4, 1, 2)
    tell(topics, "n1", 5, 1, 2, 3)
    assert broken(make_run(None, topics)) - {"L6"} == {"I26"}


def test_i26_a_change_before_anything_of_the_epoch_is_committed(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.elect("n1", 1)
    tell(quorum, "n1", -1, 1, 2)
    tell(quorum, "n1", 1, 1, 2, 3)
    assert broken(make_run(None, quorum)) - {"L6"} == {"I26"}


def test_i26_records_that_change_two_voters(topics: Any, make_run: Callable[..., Any]) -> None:
    for voters in (voter_records(1, 2, 3), voter_records(1, 2, 4)):
        topics.write_control(encode_control(KRAFT_VOTERS, {"version": 0, "voters": voters}))
    assert broken(make_run(None, topics)) == {"I26"}


def test_i27_a_vote_of_no_voter(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.elect("n1", 1)
    elected = next(event for event in quorum.events if event.kind == "elected")
    elected.detail["voters"] = [1, 2]
    assert broken(make_run(None, quorum)) == {"I27"}


def test_i27_a_vote_of_another_disk(quorum: Any, make_run: Callable[..., Any]) -> None:
    """n2's disk was replaced; the voter is the old one."""
    for node in ("n1", "n2", "n3"):
        quorum.start(node)
        number = int(node[1])
        quorum.events[-1].detail["directory"] = DIRECTORIES[number]
    tell(quorum, "n1", 0, 1, 2)
    quorum.start("n2")
    quorum.events[-1].detail["directory"] = "f" * 32
    quorum.elect("n1", 1, ["n2"])
    assert "I27" in broken(make_run(None, quorum, images=[]))


def test_a_replaced_disk_may_vote_again(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.start("n2")
    quorum.events[-1].detail["directory"] = DIRECTORIES[2]
    quorum.grant("n2", "n1", 5)
    quorum.at["n2"].update(epoch=0, voted=-1)
    quorum.start("n2")
    quorum.events[-1].detail["directory"] = "f" * 32
    quorum.grant("n2", "n3", 5)
    assert broken(make_run(None, quorum, images=[])) == set()


def test_i11_a_majority_of_the_voters_in_force(quorum: Any, make_run: Callable[..., Any]) -> None:
    """n1 and n2 hold the batch; of the voters 1, 3 and 4 that is one."""
    quorum.elect("n1", 1)
    tell(quorum, "n1", -1, 1, 3, 4)
    quorum.copy("n1", "n2")
    quorum.commit("n1")
    assert broken(make_run(None, quorum, images=[])) == {"I11"}


@pytest.mark.parametrize(("copied", "expected"), [(True, set()), (False, {"I11"})])
def test_i11_a_disk_counts_that_was_replaced_later(
    quorum: Any, make_run: Callable[..., Any], copied: bool, expected: set[str]
) -> None:
    """n2 acknowledged the batch, and lost its disk before the leader reported the commit."""
    quorum.start("n2")
    quorum.events[-1].detail["directory"] = DIRECTORIES[2]
    quorum.elect("n1", 1)
    tell(quorum, "n1", -1, 1, 2, 3)
    if copied:
        quorum.copy("n1", "n2")
    quorum.at["n2"].update(epoch=0, voted=-1, leo=0)
    quorum.start("n2")
    quorum.events[-1].detail["directory"] = "f" * 32
    quorum.commit("n1")
    assert broken(make_run(None, quorum, images=[])) == expected


def test_l6_a_change_of_voters_that_never_ends(topics: Any, make_run: Callable[..., Any]) -> None:
    tell(topics, "n1", 0, 1, 2)
    topics.append("n1", 1)
    tell(topics, "n1", 4, 1, 2, 3)
    run = make_run(None, topics)
    assert (broken(run), listed(run, "L6")["status"]) == (set(), "not checked")
    topics.time += 40
    topics.event("n2", "hw")
    topics.event("n1", "hw")
    assert "L6" in broken(make_run(None, topics))


def test_i10_a_process_may_die_before_it_reports_its_fetch(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    """n1 has an uncommitted tail, and fetches a snapshot that replaces it."""
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.elect("n2", 2, voters=("n3",))
    quorum.append("n2", 2)
    quorum.copy("n2", "n3")
    quorum.commit("n2", "n3")
    quorum.event("n1", "state", {"from": "leader"}, state="follower", epoch=2, leader=2)
    quorum.start("n1", leo=4, state="follower", leader=2)
    quorum.event("n1", "load", {"end": 4, "epoch": 2})
    quorum.event("n1", "hw", hw=4)
    assert broken(make_run(None, quorum, images=[])) == set()
    quorum.events = [event for event in quorum.events if event.kind != "load"]
    quorum.events[-1].seq -= 1
    assert broken(make_run(None, quorum, images=[])) == {"I10"}
