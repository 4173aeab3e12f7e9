"""The rule that leaders remove slow followers from their ISRs in time (L13), at its edges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.replication.events import Assignment, Settings
from kraftwreck.nodes.replication.in_sync import Remote
from kraftwreck.nodes.replication.quorum_commit import Pace
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated.pace_rehearsal import wrong_lags, wrong_paces
from kraftwreck.systems.kraft.simulated.pace_watch import PaceWatch, _majority_end
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

LATE_US = 50_000
LAG_US = 2_000_000


class Leading:
    """Broker 4, whose log ends at 10, and its followers 5 and 6, all in the ISR."""

    def __init__(self, *, quorum: bool) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0, on_emit=[], on_trace=[], afterwards=lambda judge: None)
        self.world, self.rule = world, PaceWatch(world, self.failures)
        self.host: Any = SimpleNamespace(
            id=4, name="b4", waited=lambda since, now, slack: now - since - slack
        )
        self.remotes = {5: Remote(0, 10), 6: Remote(0, 10)}
        self.leader: Any = SimpleNamespace(
            key=KEY,
            leading=True,
            log=SimpleNamespace(end=10),
            vouched=10,
            in_sync=SimpleNamespace(isr=(4, 5, 6), pending=None, remotes=self.remotes),
            assignment=Assignment((4, 5, 6), (4, 5, 6), 4, 1, 0),
            settings=Settings(quorum=quorum),
            with_=SimpleNamespace(lag_us=LAG_US, now=0),
        )

    def look(self, now: int, *, end: int) -> list[str]:
        """Judge the leader while follower 6 ends at ``end``; return the rules that it broke."""
        self.world.now, self.remotes[6].end = now, end
        judge = self.rule._judge if self.leader.settings.quorum else self.rule._judge_lag
        judge(self.host, self.leader)
        return [failure.type for failure in self.failures.items]


@pytest.mark.parametrize(("late_us", "broken"), [(0, []), (1, ["L13"])])
def test_a_quorum_goes_on_without_a_slow_follower_in_time(late_us: int, broken: list[str]) -> None:
    leader = Leading(quorum=True)
    leader.look(0, end=9)
    assert leader.look(STEPS_US + LATE_US + late_us, end=9) == broken


@pytest.mark.parametrize("quorum", [True, False])
def test_a_follower_that_reaches_what_a_majority_had_is_in_time(quorum: bool) -> None:
    """It has what there was when it fell behind, and gets as long for what came since."""
    leader = Leading(quorum=quorum)
    leader.look(0, end=9)
    leader.leader.vouched = leader.leader.log.end = leader.remotes[5].end = 12
    assert leader.look(10 * LAG_US, end=10) == []
    assert leader.look(10 * LAG_US + STEPS_US, end=10) == []
    assert leader.look(20 * LAG_US, end=11) == ["L13"]


@pytest.mark.parametrize("quorum", [True, False])
def test_a_follower_with_all_that_there_is_is_not_behind(quorum: bool) -> None:
    leader = Leading(quorum=quorum)
    for now in (0, 10 * LAG_US, 20 * LAG_US):
        assert leader.look(now, end=10) == []
    leader.look(20 * LAG_US, end=9)
    leader.look(20 * LAG_US, end=10)
    leader.look(30 * LAG_US, end=9)
    assert leader.look(30 * LAG_US, end=9) == []


@pytest.mark.parametrize(("late_us", "broken"), [(0, []), (1, ["L13"])])
def test_a_follower_may_lag_for_one_and_a_half_times_its_time(
    late_us: int, broken: list[str]
) -> None:
    """The leader looks at its followers twice in ``replica.lag.time.max.ms``."""
    leader = Leading(quorum=False)
    leader.look(0, end=9)
    assert leader.look(STEPS_US + LAG_US + LAG_US // 2 + late_us, end=9) == broken


@pytest.mark.parametrize(
    ("isr", "ends", "vouched", "reached"),
    [
        ((4, 5, 6), (8, 6), 10, 8),  # The leader and the faster one are two of three.
        ((4, 5, 6), (8, 6), 7, 7),
        ((4, 5), (8, 6), 10, 8),
        ((4,), (8, 6), 10, None),  # No other member can be behind.
    ],
)
def test_a_majority_of_three_has_what_one_follower_has(
    isr: tuple[int, ...], ends: tuple[int, int], vouched: int, reached: int | None
) -> None:
    leader = Leading(quorum=True)
    leader.remotes[5].end, leader.remotes[6].end = ends
    leader.leader.in_sync.isr, leader.leader.vouched = isr, vouched
    assert _majority_end(leader.leader) == reached


def test_a_single_replica_is_a_majority_by_itself() -> None:
    leader = Leading(quorum=True)
    leader.leader.assignment = Assignment((4,), (4,), 4, 1, 0)
    leader.remotes.clear()
    assert _majority_end(leader.leader) is None


class Returning(Leading):
    """Broker 4 leads; follower 6 was removed from the ISR, and is then proposed again."""

    def __init__(self) -> None:
        super().__init__(quorum=True)
        self.leader.in_sync.isr = (4, 5)

    def after(self, now: int, *, end: int, proposed: bool = False) -> list[str]:
        """Judge the leader by its clock ``now`` while follower 6 ends at ``end``."""
        self.leader.with_.now, self.remotes[6].end = now, end
        maximal = frozenset((4, 5, 6))
        self.leader.in_sync.pending = SimpleNamespace(maximal=maximal) if proposed else None
        self.rule._judge_return(self.host, self.leader)
        return [failure.type for failure in self.failures.items]


@pytest.mark.parametrize(("early_us", "broken"), [(0, ["D15"]), (-1, [])])
def test_a_follower_that_was_late_returns_once_it_was_in_time_for_a_while(
    early_us: int, broken: list[str]
) -> None:
    leader = Returning()
    leader.after(0, end=9)
    leader.after(LATE_US + 1, end=9)
    leader.after(LATE_US + 2, end=10)
    assert leader.after(LATE_US + 1 + 5_000_000 - early_us, end=10, proposed=True) == broken


def test_a_follower_that_has_lost_records_is_late_only_after_a_while() -> None:
    """Before that the leader knows nothing of the loss."""
    leader = Returning()
    leader.after(0, end=10)
    leader.after(LATE_US + 1, end=0)
    leader.after(LATE_US + 2, end=0)
    assert leader.after(LATE_US + 3, end=10, proposed=True) == []


def test_a_follower_that_was_in_time_may_be_proposed_at_once() -> None:
    leader = Returning()
    leader.after(0, end=9)
    leader.after(LATE_US, end=9)
    assert leader.after(LATE_US + 1, end=10, proposed=True) == []


@pytest.mark.parametrize(("end", "isr"), [(11, (4, 5)), (10, (4,))])
def test_a_late_follower_returns_at_once_where_it_is_needed(end: int, isr: tuple[int, ...]) -> None:
    """It is ahead of the other one, or the ISR has no majority."""
    leader = Returning()
    leader.after(0, end=9)
    leader.after(LATE_US + 1, end=9)
    leader.leader.in_sync.isr = isr
    leader.after(LATE_US + 2, end=9)
    assert leader.after(LATE_US + 3, end=end, proposed=True) == []


@pytest.mark.parametrize(("epoch", "leading"), [(2, True), (1, False)])
def test_a_new_lead_knows_of_no_late_follower(epoch: int, leading: bool) -> None:
    leader = Returning()
    leader.after(0, end=9)
    leader.after(LATE_US + 1, end=9)
    leader.leader.leading = leading
    leader.leader.assignment = Assignment((4, 5, 6), (4, 5), 4, epoch, 0)
    leader.after(LATE_US + 2, end=10)
    leader.leader.leading = True
    assert leader.after(LATE_US + 3, end=10, proposed=True) == []


def test_a_follower_that_is_always_a_little_behind_keeps_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(wrong_paces()) == []
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "is_late", lambda self, now: False)
        assert "would keep a follower" in next(wrong_paces())
    observe = Pace.observe

    def planted(self: Pace, end: int, reached: int, now: int) -> None:
        since, target = self.since, self.target
        observe(self, end, reached, now)
        if since is not None and end < reached:
            self.since, self.target = since, target

    monkeypatch.setattr(Pace, "observe", planted)
    assert "would remove a follower" in next(wrong_paces())


def test_a_follower_may_lack_what_came_after_its_last_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(wrong_lags(LAG_US)) == []
    with monkeypatch.context() as patch:
        patch.setattr(Remote, "is_caught_up", lambda *_: True)
        assert "would keep a follower" in next(wrong_lags(LAG_US))
    fetched = Remote.fetched

    def planted(self: Remote, *given: Any) -> None:
        fetched(self, *given)
        self.fetched_at = 0

    monkeypatch.setattr(Remote, "fetched", planted)
    assert "would remove a follower" in next(wrong_lags(LAG_US))
