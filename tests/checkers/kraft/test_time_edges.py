"""Rules over a whole run that compare times, judged right at their edges."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import (
    active_controller,
    broker_life,
    commit_delay,
    leadership,
    liveness,
    resignations,
    retention,
    sessions,
    votes,
)
from kraftwreck.checkers.kraft.invariants.standing import Position
from kraftwreck.checkers.kraft.quorum_model.transitions import LEADER
from kraftwreck.checkers.kraft.recorded.timeline import Timeline
from kraftwreck.histories.message import Message
from kraftwreck.nodes.protocol import errors
from tests.checkers.kraft.stand_ins import breaks, chain, event, evidence, message, thing

pytestmark = pytest.mark.interpreted  # Stand-ins take the place of the evidence.

MS, SECOND = 1_000_000, 1_000_000_000
STEP = MS
APPLIED = SECOND
BACKLOG = 400 * MS
CLOCKS = 100 * MS
UNFENCED_AGAIN = 3 * SECOND
RECOVERED = 30 * SECOND
SETTLED = 10 * SECOND

SESSION = 9 * SECOND


def fetch(sent: int, time: int, *, api: str = "Fetch", asker: int = 2, **answer: Any) -> Message:
    """A fetch of epoch 1 from node 1 and its answer, plain unless ``answer`` says more."""
    told = {"error": 0, "partition_error": 0, "diverging_epoch": -1, "snapshot_end": -1, **answer}
    request = thing(current_leader_epoch=1, fetch_offset=7, replica_id=asker)
    return message(api, sent, time, asker=asker, request=request, response=thing(**told))


# --- active controllers and sessions --------------------------------------------------------------


@pytest.mark.parametrize(("after", "wrong"), [(STEP, False), (STEP + 1, True)])
def test_c18_a_controller_is_active_one_step_after_its_claim(after: int, wrong: bool) -> None:
    standing = thing(positions=lambda _: [Position(LEADER, 1, 1, -1, None)])
    refusal = message("X", after, SECOND, response={"error_code": errors.NOT_CONTROLLER})
    known = evidence([refusal], trace={"claims": [event(0)]}, derived={"standing": standing})
    assert breaks(active_controller.check, known) == ["C18"] * wrong


@pytest.mark.parametrize(
    ("heard", "free"),
    [
        ([], True),
        ([19 * SECOND], False),
        ([19 * SECOND + 1], True),
        ([20 * SECOND - SESSION * 5 // 4 - APPLIED // 2], False),
        ([20 * SECOND - SESSION * 5 // 4 - APPLIED // 2 - 1], True),
    ],
)
def test_c18_a_broker_id_is_free_a_session_after_the_last_contact(
    heard: list[int], free: bool
) -> None:
    """A registration of 20 s was refused at 19 s, by clocks that differ."""
    answer = {"error_code": errors.DUPLICATE_BROKER_REGISTRATION}
    body = {"broker_id": 3}
    refused = message("BrokerRegistration", 20 * SECOND, 19 * SECOND, request=body, response=answer)
    beats = [beat(at, at) for at in heard]
    derived = {"controller": thing(is_whole=lambda _: True)}
    known = evidence([refused, *beats], derived=derived)
    assert breaks(sessions.check_ids, known) == ["C18"] * free


@pytest.mark.parametrize(("wait", "wrong"), [(UNFENCED_AGAIN, False), (UNFENCED_AGAIN + 1, True)])
def test_c23_a_fenced_broker_that_is_unfenced_again_ends_its_shutdown(
    wait: int, wrong: bool
) -> None:
    """The clocks of two hosts may differ, which counts as time that has passed."""
    broker = {"epoch": 5, "stopping": True}
    told = [(7, None, thing(fenced=True, **broker)), (8, None, thing(fenced=False, **broker))]
    history: Any = thing(brokers={3: thing(since=lambda *_: told)})
    commits: Any = thing(committed=lambda _: 8, when=lambda _: SECOND)
    stopped = event(0, detail={"state": "stopped", "broker_epoch": 5})
    at = SECOND + wait - CLOCKS
    assert (broker_life._life(stopped, 3, at, commits, history)[0] is not None) is wrong


@pytest.mark.parametrize(
    ("offset", "end", "wrong"), [(-1, 0, False), (0, 0, True), (4, 5, False), (5, 5, True)]
)
def test_i24_a_broker_reports_an_offset_below_the_end_of_what_it_has_applied(
    offset: int, end: int, wrong: bool
) -> None:
    """Also in a heartbeat that it sends when the test begins."""
    body = {"broker_id": 2, "broker_epoch": 5, "current_metadata_offset": offset}
    beat = message("BrokerHeartbeat", 0, 1, request=body)
    commits = thing(taken=lambda _, time, life=None: (end if life else 0, 1), blur=0)
    known = evidence([beat])
    assert breaks(broker_life._offsets, known, commits, {("n2", 5): 1}) == ["I24"] * wrong


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "last", "wrong"), [(13, 13, True), (12, 99, False), (99, 12, False)]
)
def test_c16_a_silent_broker_is_fenced_by_its_deadline(end: int, last: int, wrong: bool) -> None:
    """The last contact was at 2, the deadline is 10 later."""
    reign = sessions._Reign("n1", 0, last, event(0))
    judged = breaks(sessions._judge, evidence(), (3, 7), [1, 2], (0, end), [reign], 10)
    assert judged == ["C16"] * wrong


@pytest.mark.parametrize(
    ("api", "epoch", "wrong"),
    [("BrokerHeartbeat", 7, False), ("BrokerHeartbeat", 6, True), ("BrokerRegistration", 6, False)],
)
def test_c16_heartbeats_of_a_replaced_process_are_no_contact(
    api: str, epoch: int, wrong: bool
) -> None:
    """A broker of epoch 7 is unfenced at once and never fenced."""
    body: dict[str, Any] = {"broker_id": 3}
    if api == "BrokerHeartbeat":
        body |= {"broker_epoch": epoch}
    requests = [message(api, at * SECOND, at * SECOND, request=body) for at in range(1, 60)]
    claim, unfenced, last = event(0), event(SECOND), event(59 * SECOND)
    batches = {(0, 1): thing(event=unfenced), (9, 1): thing(event=last)}
    committed = {0: thing(id=(0, 1), event=unfenced), 9: thing(id=(9, 1), event=last)}
    known = evidence(
        requests,
        trace={"chain": chain(committed, batches), "claims": [claim]},
        derived={"controller": thing(brokers=thing(states=[(0, 3, 7, True)], fenced=[]))},
    )
    assert breaks(sessions.check, known) == ["C16"] * wrong


def test_the_last_write_of_an_epoch_is_that_of_its_last_batch() -> None:
    first, second = event(1), event(2)
    batches = {(0, 1): thing(event=first), (5, 1): thing(event=second)}
    written = chain({0: thing(id=(0, 1)), 5: thing(id=(5, 1))}, batches)
    assert sessions._last_written(evidence(trace={"chain": written})) == {1: second}


@pytest.mark.parametrize(
    ("stopped", "decided"),
    [
        ([], 90),
        ([(101, 110)], 90),
        ([(100, 110)], 90),
        ([(95, 100)], 85),
        ([(80, 90)], 70),
        ([(80, 89)], 90),
        ([(70, 71), (80, 90)], 60),
    ],
)
def test_a_decision_is_delayed_by_stops_of_its_process(
    stopped: list[tuple[int, int]], decided: int
) -> None:
    """It was reported at 100, and takes up to 10."""
    assert sessions.decided_at(stopped, 100, 10) == decided


@pytest.mark.parametrize(
    ("disk", "slow", "ms"), [(None, 0, 125), (0, 0, 125), (1000, 1, 129), (1000, 3, 137)]
)
def test_an_append_takes_the_linger_time_four_flushes_and_100_ms(
    disk: int | None, slow: int, ms: int
) -> None:
    """The linger time is 25 ms, and ``disk`` the longest flush in microseconds."""
    knobs = None if disk is None else {"fsync_max": disk, "slow_factor": slow}
    assert sessions.append_ns(evidence(test={"knobs": knobs})) == ms * MS


SPAN = SESSION * 3 // 4
FENCED = 100 * SECOND


def early(*beats: Message, claimed: int = 0) -> list[str]:
    """n1 fences broker 3 (epoch 5) at ``FENCED``; an append takes no time."""
    claim, append = event(claimed, epoch=1), event(FENCED)
    written = chain({9: thing(id=(9, 1))}, {(9, 1): thing(event=append)})
    derived = {"controller": thing(brokers=thing(fenced=[(9, 3, 5)]))}
    known = evidence(
        beats,
        trace={"claims": [claim], "chain": written},
        derived=derived,
        setting=lambda name, default, *_: 0 if name == "linger_ms" else default,
    )
    return breaks(sessions._early, known)


def beat(sent: int, time: int, **more: Any) -> Message:
    body = {"broker_id": 3, "broker_epoch": 5, **more}
    answer = {"error_code": errors.NONE}
    return message("BrokerHeartbeat", sent, time, request=body, response=answer)


DELAY = 100 * MS


@pytest.mark.parametrize(("before", "wrong"), [(SPAN, False), (SPAN - 1, True)])
def test_c16_a_session_lasts_three_quarters_of_its_time_at_least(before: int, wrong: bool) -> None:
    assert early(beat(FENCED - before, FENCED - DELAY)) == ["C16"] * wrong


@pytest.mark.parametrize(
    ("answered", "counts"), [(FENCED - DELAY, True), (FENCED - DELAY + 1, False)]
)
def test_c16_a_contact_counts_if_it_was_answered_before_the_decision(
    answered: int, counts: bool
) -> None:
    assert early(beat(answered - MS, answered)) == ["C16"] * counts


@pytest.mark.parametrize(
    ("sent", "answered", "may"),
    [
        (FENCED, FENCED, True),
        (FENCED + 1, FENCED + 2, False),
        (FENCED - 9 * SPAN, FENCED - 2 * SPAN, True),
        (FENCED - 9 * SPAN, FENCED - 2 * SPAN - 1, False),
    ],
)
def test_c16_a_broker_that_wants_to_be_fenced_may_be(sent: int, answered: int, may: bool) -> None:
    wish = beat(sent, answered, want_fence=True)
    assert early(beat(FENCED - SECOND, FENCED - DELAY), wish) == ["C16"] * (not may)


# --- quiet times ----------------------------------------------------------------------------------


def fault(begin: int, end: int | None) -> list[Any]:
    stop = [] if end is None else [thing(id=1, phase="stop", kind="clock", time=end, done=end)]
    return [thing(id=1, phase="start", kind="clock", time=begin, done=begin), *stop]


@pytest.mark.parametrize(
    ("begin", "end", "quiet"),
    [
        (-1, 5, False),
        (0, 5, True),
        (0, 9, True),
        (0, 10, False),
        (20, 30, False),
        (21, 30, True),
        (45, 46, False),
    ],
)
def test_l9_faults_disturb_from_their_begin_to_their_end(begin: int, end: int, quiet: bool) -> None:
    disturbed = evidence(run={"faults": [*fault(10, 20), *fault(40, 50)]})
    assert commit_delay._Calm(disturbed).undisturbed(begin, end) is quiet


@pytest.mark.parametrize(
    ("begin", "end", "quiet"), [(0, 9, True), (0, 10, False), (10, 15, False), (11, 15, True)]
)
def test_l9_an_election_disturbs_at_its_time(begin: int, end: int, quiet: bool) -> None:
    moved = evidence(events=[event(10, "state")])
    assert commit_delay._Calm(moved).around(begin, end) is quiet


@pytest.mark.parametrize(("latency", "bound"), [(104_442, 333_330_000), (104_443, None)])
def test_l9_is_judged_if_a_waiting_fetch_is_slower(latency: int, bound: int | None) -> None:
    """Three latencies, four flushes and 20 ms are less than two thirds of 500 ms."""
    knobs = {"fsync_max": 1, "slow_factor": 1, "latency_max": latency}
    test = {"simulated": True, "knobs": knobs, "controllers": [1, 2, 3]}
    assert commit_delay._bound(test) == bound


BOUND = 10


@pytest.mark.parametrize(("late", "wrong"), [(0, False), (2, False), (3, True)])
@pytest.mark.parametrize("kind", [{"diverging_epoch": 0}, {"snapshot_end": 0}])
def test_l9_most_fetches_without_records_are_answered_at_once(
    late: int, wrong: bool, kind: dict[str, Any]
) -> None:
    plain = [fetch(0, 99) for _ in range(9)]
    fetches = [fetch(0, BOUND + (number < late), **kind) for number in range(4)]
    quiet = thing(undisturbed=lambda *_: True)
    known = evidence([*fetches, *plain])
    assert breaks(commit_delay._elsewhere, known, quiet, BOUND) == ["L9"] * wrong


def follower(
    news: list[int], *, hw: int = 0, leo: int = 9, mark: int = 5, most: int = 1 << 20, old: int = 0
) -> list[str]:
    """n2 has reported the high watermark ``hw`` at time 0, and reports ``mark`` so long after each
    of the commits of ``mark``. Others, ``old`` in number, are of ``hw``."""
    first = event(0, "hw", "n2", state="follower", hw=hw, leo=leo)
    told: Timeline[Any] = Timeline()
    told.note(0, first)
    quiet = []
    for number, after in enumerate(news, start=1):
        at = 1000 * number
        commit = event(at, "hw", "n1", state=LEADER, hw=mark, leo=leo)
        quiet.append((at, "n1", commit))
        told.note(at + after, event(0, "hw", "n2", state="follower", hw=mark, leo=leo))
        told.note(at + 500, first)
    at = 1000 * (len(news) + 1)
    quiet += [(at, "n1", event(at, "hw", "n1", state=LEADER, hw=hw, leo=leo))] * old
    known = evidence(test={"simulated": True, "knobs": {"node": {"fetch_max_bytes": most}}})
    return breaks(commit_delay._follower, known, "n2", told, quiet, BOUND)


IN_TIME, LATE = BOUND, BOUND + 1


@pytest.mark.parametrize(("late", "wrong"), [(4, False), (5, True)])
def test_l9_a_follower_learns_of_half_the_commits_in_time(late: int, wrong: bool) -> None:
    assert follower([LATE] * late + [IN_TIME] * (8 - late)) == ["L9"] * wrong


def test_l9_commits_that_a_follower_knows_already_do_not_count() -> None:
    assert follower([LATE] * 8, old=8) == ["L9"]


@pytest.mark.parametrize(
    ("where", "waits"),
    [
        ({"hw": -1}, False),
        ({"hw": 0}, True),
        ({"hw": 5}, False),
        ({"leo": 4}, True),
        ({"leo": 4, "most": (1 << 20) - 1}, False),
        ({"leo": 5, "most": (1 << 20) - 1}, True),
    ],
)
def test_l9_a_follower_waits_for_a_high_watermark_that_it_can_have(
    where: dict[str, int], waits: bool
) -> None:
    """One that fetches little at a time may lack the records."""
    assert follower([LATE] * 8, **where) == ["L9"] * waits


# --- leaders --------------------------------------------------------------------------------------

TIMEOUT = 3 * SECOND
"""One and a half fetch timeouts of a run that names none."""


def reign(*fetches: tuple[int, int], voters: int = 3, until: int = 10 * SECOND) -> list[str]:
    """n1 leads epoch 1 from time 0 on and takes a step each 0.1 s; (asker, time) of fetches."""
    won = event(0, "elected", detail={"voters": list(range(1, voters + 1))})
    election: Any = thing(node="n1", epoch=1, event=won)
    heard = {(1, 1): [fetch(at, at, asker=asker) for asker, at in fetches]}
    known = evidence(
        steps={1: list(range(0, 20 * SECOND, SECOND // 10))},
        trace={"last_led": {("n1", 1): event(until)}},
    )
    return breaks(leadership._reign, known, election, heard, [])


@pytest.mark.parametrize(
    ("voters", "fetches", "wrong"),
    [
        (1, [], False),
        (2, [], True),
        (5, [(2, 0), (3, 2 * SECOND)], False),
        (5, [(2, -1), (3, 2 * SECOND)], True),
    ],
)
def test_i18_counts_fetches_since_the_election(
    voters: int, fetches: list[tuple[int, int]], wrong: bool
) -> None:
    """A leader of 4 s needs a majority that fetched once; its timeout is 3 s."""
    assert reign(*fetches, voters=voters, until=4 * SECOND) == ["I18"] * wrong


def resigned(*heard: Message, voters: int = 3) -> list[str]:
    leaves = event(10 * SECOND, "resign")
    known = evidence(heard)
    return breaks(resignations._heard, known, leaves, set(range(1, voters + 1)))


@pytest.mark.parametrize(
    ("sent", "answered", "recent"),
    [
        (10 * SECOND - TIMEOUT // 2, 10 * SECOND, True),
        (10 * SECOND - TIMEOUT // 2 - 1, 10 * SECOND, False),
        (10 * SECOND, 10 * SECOND + 1, False),
    ],
)
def test_l10_a_fetch_is_recent_for_half_the_leaders_timeout(
    sent: int, answered: int, recent: bool
) -> None:
    assert resigned(fetch(sent, answered)) == ["L10"] * recent


@pytest.mark.parametrize(
    ("answer", "counts"),
    [({}, True), ({"diverging_epoch": 0}, False), ({"snapshot_end": 0}, False)],
)
def test_l10_answers_without_records_prove_no_live_follower(
    answer: dict[str, Any], counts: bool
) -> None:
    assert resigned(fetch(9 * SECOND, 9 * SECOND, **answer)) == ["L10"] * counts


@pytest.mark.parametrize(
    ("grant", "wrong"),
    [(TIMEOUT * 2 // 3 - 1, True), (TIMEOUT * 2 // 3, False)],
)
def test_i17_a_follower_is_bound_for_a_fetch_timeout(grant: int, wrong: bool) -> None:
    """Its last answer was at 20 s."""
    assert loyal([20 * SECOND - 1, 20 * SECOND], 20 * SECOND + grant) == ["I17"] * wrong


BEGUN = 2500 * MS
"""A request timeout and a quarter after a state began, answers are to requests of that state."""


@pytest.mark.parametrize(
    ("answers", "stop", "bind"),
    [
        ([BEGUN, BEGUN + 1], None, False),
        ([BEGUN + 1, BEGUN + 2], None, True),
        ([BEGUN + 1, BEGUN + 8], None, False),
        ([BEGUN + 1, BEGUN + 2], (BEGUN + 2, BEGUN + 3), False),
        ([BEGUN + 1, BEGUN + 2], (BEGUN + 3, BEGUN + 4), True),
        ([BEGUN + 1, BEGUN + 2], (0, BEGUN + 2 - BACKLOG), False),
        ([BEGUN + 1, BEGUN + 2], (0, BEGUN + 1 - BACKLOG), True),
    ],
)
def test_i17_only_answers_that_the_follower_has_certainly_taken_count(
    answers: list[int], stop: tuple[int, int] | None, bind: bool
) -> None:
    """It has followed since 0 and grants at 8 ns after the end of its first requests."""
    assert loyal(answers, BEGUN + 8, stop) == ["I17"] * bind


def loyal(answers: list[int], at: int, stop: tuple[int, int] | None = None) -> list[str]:
    told = thing(error=0, partition_error=0, leader_epoch=1)
    given = [message("Fetch", -1, time, request=None, response=told) for time in answers]
    granted = event(at, "grant", "n2", detail={"candidate": 3})
    stopped = {"n2": [stop]} if stop else {}
    known = evidence(given, trace={"follower_grants": [(0, granted)]}, pauses=stopped)
    return breaks(votes._stickiness, known)


# --- liveness -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("watched", "enough"), [(RECOVERED - 1, False), (RECOVERED, True)])
def test_30_s_are_long_enough_for_a_recovery(watched: int, enough: bool) -> None:
    assert liveness._Watch(SECOND, SECOND + watched).long_enough is enough


def elected(times: list[int], watched: int) -> list[str]:
    elections = thing(elections=[thing(event=event(at)) for at in times])
    return breaks(
        liveness._elections, evidence(trace={"chain": elections}), liveness._Watch(0, watched)
    )


@pytest.mark.parametrize(
    ("last", "watched", "wrong"),
    [
        (SETTLED, RECOVERED + SETTLED, True),
        (SETTLED, 100 * SECOND, True),
        (SETTLED, RECOVERED + SETTLED - 1, False),
        (SETTLED + 1, 100 * SECOND, False),
        (-1, 100 * SECOND, False),
    ],
)
def test_l7_four_elections_in_10_s_are_too_many(last: int, watched: int, wrong: bool) -> None:
    """Three are 30 s after the last fault, from when on they count, one is ``last`` later, and one
    at 99 s."""
    times = [RECOVERED] * 3 + [RECOVERED + last, 99 * SECOND]
    assert elected(times, watched) == ["L7"] * wrong


@pytest.mark.parametrize(
    ("invoked", "until", "wrong"),
    [(5, 5 + 2 * RECOVERED, False), (5, 6 + 2 * RECOVERED, True), (4, 1 << 60, False)],
)
def test_l5_an_operation_after_the_last_fault_ends_within_60_s(
    invoked: int, until: int, wrong: bool
) -> None:
    call = thing(invoked=invoked, completed=None, f="read", indices=[])
    known = evidence(run={"calls": [call]})
    assert breaks(liveness._operations, known, liveness._Watch(5, until)) == ["L5"] * wrong


@pytest.mark.parametrize(
    ("moved", "hw", "wrong"), [(-1, 6, True), (0, 6, False), (-1, 7, False), (None, 6, True)]
)
def test_l3_an_observer_that_stays_behind_for_30_s(moved: int | None, hw: int, wrong: bool) -> None:
    last = None if moved is None else event(moved)
    broker = thing(id=9, name="n9", hw=hw, moved=last, last=event(0))
    leader = thing(id=1, hw=7, voters={1: ""}, last=event(0))
    watch = liveness._Watch(0, RECOVERED)
    found = breaks(liveness._observers, evidence(), watch, [leader, broker], leader)
    assert found == ["L3"] * wrong


# --- retention ------------------------------------------------------------------------------------

KEPT = 60_000 * MS + 2000 * MS + 3 * SECOND
"""A cleaning interval, a fetch timeout and the allowance."""


@pytest.mark.parametrize(
    ("kept", "fetched", "wrong"),
    [
        (KEPT, None, False),
        (KEPT + 1, None, True),
        (KEPT + 1, 1, False),
        (KEPT + 1, 0, True),
        (KEPT + 1, KEPT + 1, False),
        (KEPT + 1, KEPT + 2, True),
    ],
)
def test_l11_two_snapshots_stay_only_while_one_is_fetched(
    kept: int, fetched: int | None, wrong: bool
) -> None:
    """The second was made at 0."""
    made = [event(at, "snapshot", detail={"end": at}) for at in (-9, 0)]
    events = [event(-99, "start"), *made, event(kept, "hw")]
    served = [] if fetched is None else [message("FetchSnapshot", fetched, fetched)]
    assert breaks(retention._old, evidence(served, events)) == ["L11"] * wrong


@pytest.mark.parametrize(("after", "wrong"), [(500 * MS - 1, True), (500 * MS, False)])
def test_l11_a_served_snapshot_stays_for_a_quarter_of_a_fetch_timeout(
    after: int, wrong: bool
) -> None:
    """Also one that was served when the test began."""
    wanted = thing(snapshot_end=5, snapshot_epoch=1)

    def piece(at: int, code: int) -> Message:
        answer = thing(error=0, partition_error=code, leader_epoch=1)
        return message("FetchSnapshot", at, at, request=wanted, response=answer)

    pieces = [piece(0, errors.NONE), piece(after, errors.SNAPSHOT_NOT_FOUND)]
    assert breaks(retention._fetched, evidence(pieces)) == ["L11"] * wrong
