"""Rules for answers and for requests of brokers, judged right at their edges."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraftwreck.checkers.kraft.controller_model.state import StateHistory
from kraftwreck.checkers.kraft.invariants import (
    answers,
    fetches,
    liveness,
    membership_answers,
    quorum_answers,
    requests,
    voter_sets,
    votes,
)
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.refused_upgrades import refused_in_vain
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.standing import (
    Position,
    Standing,
    _Node,
)
from kraftwreck.checkers.kraft.quorum_model.fetching import is_plain
from kraftwreck.checkers.kraft.quorum_model.log_chain import START
from kraftwreck.checkers.kraft.quorum_model.transitions import FOLLOWER, LEADER
from kraftwreck.histories.message import Message
from kraftwreck.nodes.protocol import errors
from tests.checkers.kraft.stand_ins import breaks, event, evidence, message, thing

pytestmark = pytest.mark.interpreted  # Stand-ins take the place of the evidence.

STEP = 1_000_000

DISK = "d1" * 16


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sent", "begun", "known"), [(-1, 7, False), (0, 0, True), (5, 5, True)])
def test_a_message_is_an_exchange_if_it_is_known_when_the_request_was_sent(
    sent: int, begun: int, known: bool
) -> None:
    exchange = message("Fetch", sent, 7)
    assert (exchange.begun, exchange.is_exchange) == (begun, known)


@pytest.mark.parametrize(
    ("diverging", "snapshot", "plain"), [(-1, -1, True), (0, -1, False), (-1, 0, False)]
)
def test_a_fetch_is_answered_plainly_without_divergence_and_snapshot(
    diverging: int, snapshot: int, plain: bool
) -> None:
    """Epoch 0 and offset 0 are those of an empty log."""
    assert is_plain(thing(diverging_epoch=diverging, snapshot_end=snapshot)) is plain


@pytest.mark.parametrize(
    ("sent", "time", "seen"),
    [(0, 9, True), (0, 8, True), (1, 8, True), (-1, 99, True), (0, 10, False)],
)
def test_only_answers_within_a_trace_are_evidence_beside_input_logs(
    sent: int, time: int, seen: bool, make_run: Any, quorum: Any, capture: Any
) -> None:
    """The trace of n1 is from 0 to 9 µs."""
    capture.own_inputs = True
    capture.exchange(time * 1000, 2, 1, thing(), thing(), sent * 1000 if sent >= 0 else -1)
    first, last = (quorum.events[0], quorum.events[1])
    first.mono, last.mono, last.node = 0, 9, "n1"
    last.incarnation = first.incarnation
    quorum.events = [first, last]
    [known] = Evidence(make_run(None, quorum, capture=capture)).sequence
    assert (known.response is not None) is seen


@pytest.mark.parametrize(("node", "is_broker"), [(2, False), (3, True)])
def test_the_nodes_after_the_controllers_are_brokers(
    node: int, is_broker: bool, make_run: Any, quorum: Any
) -> None:
    known = Evidence(make_run(None, quorum, controllers=["n1", "n2"]))
    assert known.is_broker(message("Metadata", 0, 1, replier=node)) is is_broker


# --- fetches --------------------------------------------------------------------------------------

CHAIN = thing(
    batches={
        (0, 1): thing(before=START, last=4),
        (5, 2): thing(before=(0, 1), last=8),
    }
)


@pytest.mark.parametrize(
    ("told", "asked", "wrong"),
    [
        ((1, 4), (5, 2), False),
        ((2, 4), (5, 2), False),
        ((2, 5), (5, 2), True),
        ((3, 4), (5, 2), True),
        ((1, 4), (5, 1), True),  # Its own log has epoch 1 before offset 5.
        ((1, 3), (4, 1), False),  # No batch of its log ends at 4.
    ],
)
def test_i28_a_divergence_is_before_the_asked_position(
    told: tuple[int, int], asked: tuple[int, int], wrong: bool
) -> None:
    """``told`` are epoch and end, ``asked`` are offset and epoch; the leader has two batches."""
    answer = thing(diverging_epoch=told[0], diverging_end=told[1])
    found = fetches._divergence(answer, cast(Any, CHAIN), (5, 2), *asked, "")
    assert (found is not None) is wrong


@pytest.mark.parametrize(
    ("records", "diverging", "snapshot", "wrong"),
    [
        (None, -1, 0, False),
        ((5, 2, 9), -1, -1, False),
        ((5, 2, 9), -1, 0, True),
        ((5, 2, 9), 0, -1, True),
        ((0, 1, 6), -1, -1, False),
        ((0, 1, 5), -1, -1, True),
        ((6, 2, 9), -1, -1, True),
    ],
)
def test_i28_records_contain_the_asked_offset(
    records: tuple[int, int, int] | None, diverging: int, snapshot: int, wrong: bool
) -> None:
    asked = thing(fetch_offset=5, last_fetched_epoch=1)
    answer = thing(diverging_epoch=diverging, diverging_end=0, snapshot_end=snapshot)
    told = message("Fetch", 0, 1, request=asked, records=records)
    assert (fetches._kind(told, answer, cast(Any, CHAIN), (5, 2)) is not None) is wrong


# --- votes and positions --------------------------------------------------------------------------


@pytest.mark.parametrize(("leo", "tip"), [(5, (2, 5)), (9, (3, 9)), (7, (None, 7)), (0, (0, 0))])
def test_the_last_epoch_of_a_cut_log_is_known_where_a_batch_ends(
    leo: int, tip: tuple[int | None, int]
) -> None:
    node = _Node()
    node.logged(event(0, "append", leo=5, detail={"epoch": 2}), 0)
    node.logged(event(0, "append", leo=9, detail={"epoch": 3}), 0)
    node.logged(event(0, "truncate", leo=leo), 0)
    assert node.tips.values[-1] == tip


def judge_of(at: Position, end: tuple[int, int] = (1, 5)) -> Any:
    standing = thing(positions=lambda _: [at], tips=lambda _: [end], resigned=set())
    known = evidence(derived={"standing": standing})
    return quorum_answers._Judge(known, Report())


@pytest.mark.parametrize(
    ("asked", "state", "voted", "leader", "due"),
    [
        (2, "unattached", -1, -1, set()),
        (3, "unattached", -1, -1, {True}),
        (3, "unattached", 2, -1, {False}),
        (3, "unattached", 3, -1, {True, False}),
        (3, "unattached", -1, 1, {False}),
        (3, FOLLOWER, -1, 1, {False}),
        (4, FOLLOWER, -1, 1, {True}),
        (4, "unattached", 2, -1, {True}),
        (4, LEADER, -1, 1, {True}),
    ],
)
def test_i33_a_vote_of_a_newer_epoch_forgets_the_older_one(
    asked: int, state: str, voted: int, leader: int, due: set[bool]
) -> None:
    """Node 3, whose log is as long, asks a node of epoch 3."""
    at = Position(state, 3, leader, voted, None)
    request = thing(epoch=asked, candidate_id=3, last_epoch=1, last_offset=5, pre_vote=False)
    assert judge_of(at)._due(message("Vote", 0, 1, request=request), at) == due


@pytest.mark.parametrize(
    ("epoch", "code", "right"),
    [
        (2, errors.FENCED_LEADER_EPOCH, True),
        (2, errors.NONE, False),
        (3, errors.NONE, True),
        (3, errors.FENCED_LEADER_EPOCH, False),
    ],
)
def test_i33_requests_of_older_epochs_are_refused(epoch: int, code: int, right: bool) -> None:
    judge = judge_of(Position(FOLLOWER, 3, 1, -1, None))
    answer = thing(error=code, partition_error=0, leader_epoch=3, leader_id=1)
    judge.of_anybody(
        message("BeginQuorumEpoch", 0, 1, request=thing(leader_epoch=epoch), response=answer)
    )
    assert ("I33" in judge._report.findings.counts) is not right


@pytest.mark.parametrize(("epoch", "wrong"), [(3, False), (4, True)])
def test_i16_pre_votes_are_of_an_epoch_that_the_asker_has_seen(epoch: int, wrong: bool) -> None:
    asked = message("Vote", 0, 1, request=thing(pre_vote=True, epoch=epoch))
    known = evidence([asked], trace={"by_id": {2: thing(gap=False, epoch_seen=3)}})
    assert breaks(votes._granted, known) == ["I16"] * wrong


# --- changes of the quorum ------------------------------------------------------------------------


def standing(
    voters: dict[int, str], *, end: int = 9, level: int = 1, state: str = LEADER
) -> Standing:
    """Node 1 all the time in one position of epoch 3."""
    return cast(
        Standing,
        thing(
            positions=lambda _: [Position(state, 3, 1, -1, None)],
            voters=lambda _: [(frozenset(voters.items()), level)],
            tips=lambda _: [] if end < 0 else [(3, end)],
        ),
    )


@pytest.mark.parametrize(("voter", "right"), [(-1, True), (0, False), (4, False)])
def test_c22_an_id_below_0_is_invalid(voter: int, right: bool) -> None:
    request = {
        "cluster_id": None, "voter_id": voter, "voter_directory_id": bytes(15) + b"\x01",
        "listeners": ["there"],
    }  # fmt: skip
    answer = {"error_code": errors.INVALID_REQUEST}
    told = message("AddRaftVoter", 0, 1, request=request, response=answer)
    assert (membership_answers._changed(told, standing({1: DISK}), "c") is None) is right


def part(mark: int, *ends: int) -> dict[str, Any]:
    voters = [{"replica_id": i, "log_end_offset": end} for i, end in enumerate(ends, start=1)]
    return {
        "error_code": 0, "leader_epoch": 3, "leader_id": 1, "high_watermark": mark,
        "current_voters": voters,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("end", "mark", "ends", "right"),
    [
        (9, 9, (9, 9, 9), True),
        (9, 10, (9, 9, 9), False),
        (9, 9, (9, 9, 10), False),
        (0, 0, (0, 0, 0), True),
        (0, 1, (0, 0, 0), False),
        (-1, 1, (0, 0, 0), True),  # Its log is not known.
    ],
)
def test_c22_a_leader_describes_nothing_beyond_its_log(
    end: int, mark: int, ends: tuple[int, ...], right: bool
) -> None:
    answer = {"error_code": 0, "topics": [{"partitions": [part(mark, *ends)]}]}
    told = message("DescribeQuorum", 0, 1, response=answer)
    place = standing(dict.fromkeys((1, 2, 3), DISK), end=end)
    found = membership_answers._described(told, place, evidence(), settled=False)
    assert (found is None) is right


@pytest.mark.parametrize(
    ("mark", "ends", "fetched", "reached"),
    [
        (-1, (-1, -1, -1), [], True),
        (0, (0, -1, -1), [], False),
        (0, (0, 0, -1), [], True),
        (0, (0, -1, -1), [(0, 0)], True),
        (5, (5, 5, 0), [], True),
        (5, (5, 4, 0), [], False),
        (5, (5, 4, 0), [(5, 9)], True),
        (5, (5, 4, 0), [(5, 10)], False),
        (5, (5, 4, 0), [(4, 9)], False),
        (5, (5, 5, 0, 0), [], False),
    ],
)
def test_c22_a_majority_has_or_had_all_below_the_high_watermark(
    mark: int, ends: tuple[int, ...], fetched: list[tuple[int, int]], reached: bool
) -> None:
    """The quorum was described at 9; ``fetched`` are (offset, time) of fetches of node 2."""
    asked = [
        message("Fetch", sent, 99, request=thing(current_leader_epoch=3, fetch_offset=offset))
        for offset, sent in fetched
    ]
    told = message("DescribeQuorum", 0, 9)
    assert membership_answers._reached(part(mark, *ends), told, evidence(asked)) is reached


ASKED = 10 * STEP


def update(time: int, low: int, high: int) -> Message:
    request = thing(
        voter_id=2, current_leader_epoch=3, directory=b"d", min_kraft_version=low,
        max_kraft_version=high,
    )  # fmt: skip
    answer = thing(error=errors.NONE)
    return message("UpdateRaftVoter", 0, time, request=request, response=answer)


@pytest.mark.parametrize(
    ("time", "low", "high", "committed", "in_vain"),
    [
        (ASKED - STEP - 1, 0, 1, 0, True),
        (ASKED - STEP, 0, 1, 0, False),
        (0, 1, 1, 0, True),
        (0, 1, 2, 0, True),
        (0, 0, 0, 0, False),
        (0, 2, 2, 0, False),
        (0, 0, 1, ASKED - STEP - 1, True),
        (0, 0, 1, ASKED - STEP, False),
    ],
)
def test_c22_an_upgrade_waits_for_the_disks_of_all_voters_and_a_commit(
    time: int, low: int, high: int, committed: int, in_vain: bool
) -> None:
    """Node 2 sent its disk and versions at ``time``; n1 first committed at ``committed``."""
    marks = [event(committed, "hw", state=LEADER, epoch=3)]
    known = evidence([update(time, low, high)], marks)
    told = message("UpdateFeatures", ASKED, ASKED)
    place = standing({1: DISK, 2: DISK}, level=0)
    assert (refused_in_vain(known, place, told) is not None) is in_vain


@pytest.mark.parametrize(
    ("brokers", "virtual", "factor"), [(1, True, 1), (3, True, 3), (4, True, 3), (4, False, 1)]
)
def test_new_topics_have_three_replicas_at_most_in_the_simulator(
    brokers: int, virtual: bool, factor: int
) -> None:
    """Nodes of hosts have one, as by Kafka's default."""
    test = {"simulated": virtual, "brokers": [f"b{number}" for number in range(brokers)]}
    known = evidence(test=test, controllers=2, derived={"commits": thing(blur=4)})
    judge = answers._Judge(known, Report(), StateHistory())
    assert judge._defaults == {"count": 1, "factor": factor}
    assert judge._nodes == (1, 2)


# --- voter sets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "wrong"), [(4, False), (5, True), (6, True)])
def test_i31_voters_at_or_after_a_cut_are_gone(offset: int, wrong: bool) -> None:
    node = voter_sets._Node(due=voter_sets._Due(event(0), 5, None))
    told = event(0, "voters", detail={"offset": offset, "voters": []})
    assert breaks(lambda e, r: voter_sets._told(r, node, told), None) == ["I31"] * wrong


def fetched(sent: int, time: int, **answer: Any) -> Message:
    told = {"error": 0, "partition_error": 0, "diverging_epoch": -1, "snapshot_end": -1, **answer}
    request = thing(current_leader_epoch=1, replica_id=2, directory=bytes.fromhex(DISK))
    return message("Fetch", sent, time, request=request, response=thing(**told))


@pytest.mark.parametrize(
    ("fetch", "right"),
    [
        (fetched(20, 99 * STEP), True),
        (fetched(0, 99 * STEP), True),
        (fetched(20 + STEP, 99 * STEP), True),
        (fetched(21 + STEP, 99 * STEP), False),
        (fetched(0, 1, diverging_epoch=0), False),
        (fetched(0, 1, snapshot_end=0), False),
    ],
)
def test_i32_a_voter_is_added_after_it_has_fetched(fetch: Message, right: bool) -> None:
    """n1 makes node 2 a voter at 20; a fetch may be parked and answered later."""
    assert added(5, fetch) == ["I32"] * (not right)


@pytest.mark.parametrize(
    ("offset", "level", "judged"), [(4, 1, False), (5, 1, True), (5, 0, False)]
)
def test_i32_voters_are_added_by_a_new_record_of_kraft_version_1(
    offset: int, level: int, judged: bool
) -> None:
    assert added(offset, level=level) == ["I32"] * judged


def added(offset: int, *messages: Message, level: int = 1) -> list[str]:
    def told(at: int, offset: int, *voters: tuple[int, str]) -> Any:
        detail = {"offset": offset, "kraft_version": level, "voters": list(voters)}
        return event(at, "voters", state=LEADER, detail=detail)

    events = [told(0, 4, (1, DISK)), told(20, offset, (1, DISK), (2, DISK))]
    return breaks(voter_sets._caught_up, evidence(messages, events))


@pytest.mark.parametrize(
    ("offset", "low", "high", "wrong"),
    [(4, 5, 5, False), (5, 5, 5, True), (5, 5, 6, False), (6, 5, 6, True)],
)
def test_c17_an_added_voter_is_in_the_committed_log(
    offset: int, low: int, high: int, wrong: bool
) -> None:
    """The committed log ends between ``low`` and ``high``; the record is at ``offset``."""
    voter = {"voter_id": 2, "voter_directory_id": bytes.fromhex(DISK)}
    answer = {"error_code": errors.NONE}
    exchange = thing(low=low, high=high, answer=answer, request=voter, where="")
    derived = {
        "controller": thing(
            is_whole=lambda *_: True,
            replay=thing(voters=[(0, frozenset()), (offset, frozenset({(2, DISK)}))]),
        ),
        "commits": thing(exchange=lambda _: exchange),
    }
    known = evidence([message("AddRaftVoter", 0, 1)], derived=derived)
    assert breaks(voter_sets._acknowledged, known) == ["C17"] * wrong


# --- requests of brokers --------------------------------------------------------------------------

SESSION = 9_000_000_000


@pytest.mark.parametrize(
    ("before", "beat", "asked", "answered", "wrong"),
    [
        (5, (0, 1), 2, SESSION - 1, True),
        (5, (0, 1), 2, SESSION, False),
        (7, (0, 1), 2, 3, False),
        (6, (0, 1), 2, 3, True),
        (5, (0, 2), 2, 3, True),
        (5, (0, 3), 2, 3, False),
    ],
)
def test_c1_a_broker_id_stays_with_its_incarnation_for_a_session(
    before: int, beat: tuple[int, int], asked: int, answered: int, wrong: bool
) -> None:
    """A heartbeat of epoch ``before``, and then a registration with epoch 7, both by n1."""
    assert twins(before, beat, asked, answered, by=1, claimed=[]) == ["C1"] * wrong


@pytest.mark.parametrize(("claimed", "wrong"), [([], False), ([1], False), ([2], True)])
def test_c1_a_session_begins_again_with_a_claim(claimed: list[int], wrong: bool) -> None:
    """n2 has answered the heartbeat at 1."""
    assert twins(5, (0, 1), 3, 4, by=2, claimed=claimed) == ["C1"] * wrong


def twins(
    before: int, beat: tuple[int, int], asked: int, answered: int, *, by: int, claimed: list[int]
) -> list[str]:
    body = {"broker_id": 3, "broker_epoch": before}
    beats = message("BrokerHeartbeat", *beat, replier=by, request=body, response={"error_code": 0})
    answer = {"error_code": 0, "broker_epoch": 7}
    registers = message(
        "BrokerRegistration", asked, answered, request={"broker_id": 3}, response=answer
    )
    commits = thing(exchange=lambda _: thing(low=1, high=1))
    known = evidence(
        [beats, registers],
        trace={"claims": [event(at) for at in claimed]},
        derived={"commits": commits},
    )
    owner = thing(among=lambda *_: iter([thing()]))
    controller = thing(whole=True, history=thing(brokers={3: owner}))
    return breaks(requests._twins, known, controller)


@pytest.mark.parametrize(("sent", "wrong"), [(0, False), (104, False), (105, True)])
def test_i24_a_broker_is_unfenced_once_it_has_told_that_it_caught_up(
    sent: int, wrong: bool
) -> None:
    """The record was written at 100, by clocks of a resolution of 4."""
    body = {"broker_id": 3, "broker_epoch": 5, "current_metadata_offset": 5}
    beat = message("BrokerHeartbeat", sent, 999, request=body)
    commits = thing(written=lambda _: 100, blur=4)
    known = evidence([beat], derived={"commits": commits})
    change = (9, thing(epoch=5, fenced=True), thing(epoch=5, fenced=False))
    history = thing(brokers={3: thing(changes=lambda: [change])})
    assert breaks(requests._unfenced, known, thing(history=history)) == ["I24"] * wrong


@pytest.mark.parametrize(("start", "wrong"), [(999, True), (1000, False)])
def test_c11_a_block_of_producer_ids_begins_where_the_last_one_ends(
    start: int, wrong: bool
) -> None:
    blocks = [
        message(
            "AllocateProducerIds", 0, 1, request={"broker_id": 1},
            response={"error_code": 0, "producer_id_start": begin, "producer_id_len": 1000},
        )
        for begin in (0, start)
    ]  # fmt: skip
    assert breaks(requests._blocks, evidence(blocks)) == ["C11"] * wrong


@pytest.mark.parametrize(
    ("second", "wrong"), [(999_999_999, True), (1_000_000_000, False), (1_999_999_999, False)]
)
def test_l8_counts_the_requests_of_each_second(
    monkeypatch: pytest.MonkeyPatch, second: int, wrong: bool
) -> None:
    """The first one arrives at 0, and one in a second is allowed."""
    monkeypatch.setattr(liveness, "MOST_REQUESTS", 1)
    asked = [message("Fetch", 0, time) for time in (0, second)]
    assert breaks(liveness._requests, evidence(asked)) == ["L8"] * wrong


def test_l8_counts_the_requests_of_nodes() -> None:
    """Clients have no id."""
    asked = [message("Metadata", 0, 1, asker=asker) for asker in (-1, 1, 1)]
    report = Report()
    liveness._requests(evidence(asked), report)
    assert report.facts["L8"] == 1
