"""Quorum RPCs through the wire and back, and bytes that are damaged on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.plan import plan_faults
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumResponse,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.log.batch import (
    CRC_START,
    HEADER_SIZE,
    encode_batch,
    split_batches,
    verify_crc,
)
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign
from kraftwreck.systems.kraft.simulated.damage import damaged
from kraftwreck.systems.kraft.simulated.encoding import (
    Encoding,
    carried_answer,
    carried_request,
)
from kraftwreck.systems.kraft.simulated.knobs import Knobs, draw_knobs

HERE = Endpoint("n2", 9093)
NAMED = (("CONTROLLER", HERE),)
DISK, OTHER = b"d" * 16, b"o" * 16
VOTE = VoteRequest("c", 2, 5, 1, DISK, OTHER, 4, 17, True)
FETCH = FetchRequest("c", 1, DISK, 500, 1 << 20, 5, 17, 4, 12)
PIECE = FetchSnapshotRequest("c", 1, DISK, 200, 5, 30, 4, 400)
ADD = AddRaftVoterRequest("c", 9, 1, DISK, NAMED, False)
UPDATE = UpdateRaftVoterRequest("c", 5, 1, DISK, NAMED, 0, 1)
RECORDS = b"".join(
    encode_batch(17 + i, 5, 1_000, [(None, b"record %d" % i), (b"k", b"v" * 40)], False)
    for i in (0, 2, 4)
)
FETCHED = FetchResponse(0, 0, 2, 5, 19, 0, -1, -1, -1, -1, RECORDS, HERE)

REQUESTS: list[Request] = [
    VOTE,
    BeginQuorumEpochRequest("c", 2, OTHER, 1, 5, HERE),
    EndQuorumEpochRequest("c", 1, 5, ((2, DISK), (3, OTHER)), HERE),
    FETCH,
    PIECE,
    ADD,
    RemoveRaftVoterRequest("c", 1, DISK),
    UPDATE,
]
ANSWERS: list[tuple[Request, QuorumResponse]] = [
    (VOTE, VoteResponse(0, 0, 2, 5, True, HERE)),
    (VOTE, VoteResponse(0, 74, -1, 5, False)),
    (REQUESTS[1], BeginQuorumEpochResponse(0, 0, 1, 5, HERE)),
    (REQUESTS[2], EndQuorumEpochResponse(0, 0, 1, 5, HERE)),
    (FETCH, FETCHED),
    (FETCH, FetchResponse(0, 0, 2, 5, 19, 10, 4, 12, 30, 4, b"", HERE)),
    (PIECE, FetchSnapshotResponse(0, 0, 2, 5, 30, 4, 900, 400, b"x" * 200, HERE)),
    (ADD, VoterChangeResponse(7, text="later")),
    (UPDATE, VoterChangeResponse(0, 0, 2, 5, HERE)),
]


@pytest.mark.parametrize("message", REQUESTS, ids=lambda m: type(m).__name__)
def test_a_request_says_the_same_at_the_other_end(message: Request) -> None:
    assert carried_request(1, 1 << 40, message) == message


@pytest.mark.parametrize(("asked", "answer"), ANSWERS)
def test_an_answer_says_the_same_at_the_other_end(asked: Request, answer: QuorumResponse) -> None:
    assert carried_answer(asked, 3, answer) == answer


def test_a_message_that_cannot_be_written_is_fatal() -> None:
    with pytest.raises(FatalError, match="cannot be read, Vote"):
        carried_request(1, 1, VoteRequest("c", 2, 1 << 40, 1, DISK, OTHER, 4, 17, True))
    with pytest.raises(FatalError, match="an answer that cannot be read, Fetch"):
        carried_answer(FETCH, 1, FetchResponse(0, 0, 2, 5, 1 << 70, 0, -1, -1, -1, -1, b""))


@pytest.mark.interpreted
def test_a_message_that_arrives_as_another_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    message = FetchSnapshotRequest("a", 1, b"d" * 16, 10, 3, 7, 2, 0)
    assert carried_request(1, 1, message) == message
    monkeypatch.setattr(
        "kraftwreck.systems.kraft.simulated.encoding.request_from_body",
        lambda *_: replace(message, directory=bytes(16)),
    )
    with pytest.raises(FatalError, match=r"directory b'dd+' arrives as b'\\\\x00"):
        carried_request(1, 1, message)


@pytest.mark.parametrize("message", REQUESTS, ids=lambda m: type(m).__name__)
def test_an_equal_request_is_another_object_with_the_same_content(message: Request) -> None:
    encoding = Encoding()
    first, second = (encoding.request(1, number, message) for number in (1, 2))
    assert first == second == message
    assert first is not second


@pytest.mark.parametrize(("asked", "answer"), ANSWERS)
def test_an_equal_answer_is_another_object_with_the_same_content(
    asked: Request, answer: QuorumResponse
) -> None:
    encoding = Encoding()
    first, second = (encoding.answer(asked, number, answer) for number in (1, 2))
    assert first == second == answer
    assert first is not second


def test_a_change_of_a_message_does_not_change_a_later_one() -> None:
    encoding = Encoding()
    first = encoding.request(1, 1, FETCH)
    assert isinstance(first, FetchRequest)
    first.fetch_offset = 99
    assert encoding.request(1, 2, FETCH) == FETCH
    other = replace(FETCH, fetch_offset=18)
    assert encoding.request(1, 3, other) == other


def test_the_same_answer_to_different_requests_is_read_by_the_request() -> None:
    encoding, answer = Encoding(), VoterChangeResponse(0, 0, 2, 5, HERE, "now")
    for _ in range(2):
        assert encoding.answer(UPDATE, 1, answer) == carried_answer(UPDATE, 1, answer)
        assert encoding.answer(ADD, 1, answer) == carried_answer(ADD, 1, answer)
    assert carried_answer(ADD, 1, answer) != carried_answer(UPDATE, 1, answer)


def test_few_messages_are_remembered() -> None:
    encoding = Encoding()
    for offset in range(1000):
        encoding.request(1, offset, replace(FETCH, fetch_offset=offset))
    assert len(encoding._read) <= 256


# --- damage -------------------------------------------------------------------------------


def difference(before: bytes, after: bytes) -> list[int]:
    assert len(before) == len(after)
    return [place for place, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1]


@pytest.mark.parametrize("number", range(40))
def test_one_bit_of_the_records_is_wrong_and_a_checksum_shows_it(number: int) -> None:
    got = damaged(FETCHED, number)
    assert isinstance(got, FetchResponse)
    [place] = difference(RECORDS, got.records)
    size = len(RECORDS) // 3
    assert CRC_START - 4 <= place % size < CRC_START or place % size >= HEADER_SIZE
    assert [verify_crc(batch) for batch in split_batches(got.records)].count(False) == 1
    assert FETCHED.records == RECORDS, "what the leader holds is whole"


@pytest.mark.parametrize("number", range(40))
def test_a_piece_of_a_snapshot_is_damaged_where_checksums_protect_it(number: int) -> None:
    begin, end = 30, 150
    piece = FetchSnapshotResponse(0, 0, 2, 5, 30, 4, len(RECORDS), begin, RECORDS[begin:end])
    got = damaged(piece, number, RECORDS)
    assert isinstance(got, FetchSnapshotResponse)
    [place] = difference(piece.data, got.data)
    whole = RECORDS[:begin] + got.data + RECORDS[end:]
    assert [verify_crc(batch) for batch in split_batches(whole)].count(False) == 1
    assert begin + place >= HEADER_SIZE


def test_unprotected_bytes_are_left_alone() -> None:
    empty = FetchResponse(0, 0, 2, 5, 19, 0, -1, -1, -1, -1, b"")
    assert damaged(empty, 1) is empty
    head = FetchSnapshotResponse(0, 0, 2, 5, 30, 4, len(RECORDS), 0, RECORDS[:16])
    assert damaged(head, 1, RECORDS) is head
    assert damaged(ANSWERS[0][1], 1) is ANSWERS[0][1]


# --- whole runs ---------------------------------------------------------------------------


def run(**knobs: Any) -> Any:
    from kraftwreck.systems.kraft.simulated.run import simulate
    from kraftwreck.workloads.registry import find

    campaign = Campaign(workload="metadata", faults=("kill",), time_limit_s=15, rate=20)
    options = campaign.options(3)
    plain = draw_knobs(3, options.nodes, snapshots=True)
    settings = msgspec.structs.replace(plain, power_loss=0, **knobs)
    schedule = plan_faults(options, 0)
    return simulate(options, find("metadata"), schedule, Injector, knobs=settings)


def test_followers_refuse_damaged_records_and_go_on() -> None:
    result = run(flip=300, wire=True)
    assert not result.failures
    assert result.digest == run(flip=300, wire=True).digest
    assert result.digest != run(flip=0, wire=True).digest


def test_the_wire_changes_nothing() -> None:
    assert run(wire=True).digest == run(wire=False).digest


@pytest.mark.parametrize("wire", [False, True])
def test_voter_changes_of_clients_pass_the_wire_too(wire: bool) -> None:
    from kraftwreck.systems.kraft.simulated.run import simulate
    from kraftwreck.workloads.registry import find

    fault = Fault(
        at=3 * 10**9, kind="membership", shape="one", duration=2 * 10**9, draw=1, targets=("n1",)
    )
    options = RunOptions(seed=1, time_limit_s=8, rate=10, cluster="sim", nodes=3)
    knobs = Knobs(dynamic=True, first_voters=3, wire=wire)
    result = simulate(options, find("metadata"), [fault], Injector, knobs=knobs)
    assert not result.failures
    sets = [
        [i for i, _ in event.detail["voters"]]
        for event in result.events
        if event.kind == "voters" and event.node == "n2" and event.detail["offset"] >= 0
    ]
    assert sets == [[1, 2, 3], [2, 3], [1, 2, 3]]


def test_some_runs_use_the_wire_and_some_damage_bytes() -> None:
    drawn = [draw_knobs(seed, 3) for seed in range(300)]
    assert sum(k.wire for k in drawn) / 300 == pytest.approx(1 / 6, abs=0.06)
    assert {k.flip for k in drawn} == {0, 5, 30, 100}
