"""Members are asked until they agree on a position, and at most for a while."""

from __future__ import annotations

import threading

import pytest

from kraftwreck.harness import inspection
from kraftwreck.harness.inspection import SETTLE_S, Inspection
from kraftwreck.histories.members import Member

Script = list[Member | Exception | object | None]


class Asked:
    """Members that answer by a script; the last answer is repeated. Time passes by sleeping."""

    def __init__(self, **scripts: Script) -> None:
        self.scripts = scripts
        self.rounds = dict.fromkeys(scripts, 0)
        self.now = 0.0

    def __call__(self, name: str) -> Member | None:
        script = self.scripts[name]
        answer = script[min(self.rounds[name], len(script) - 1)]
        self.rounds[name] += 1
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def result(self) -> dict[str, Member]:
        return Inspection(list(self.scripts), self, lambda: self.now, self.sleep).members()


def test_members_that_catch_up_are_asked_until_they_agree() -> None:
    asked = Asked(
        n1=[Member(7, {"a": 1})],
        n2=[Member(5, {}), Member(5, {}), Member(6, {}), Member(7, {"a": 1})],
    )
    assert asked.result() == {"n1": Member(7, {"a": 1}), "n2": Member(7, {"a": 1})}
    assert asked.rounds["n2"] == 5
    assert asked.now < SETTLE_S


def test_a_state_that_was_read_before_its_position_moved_does_not_count() -> None:
    old, new = Member(7, {"a": 1}), Member(7, {"a": 2})
    assert Asked(n1=[new], n2=[old, new]).result() == {"n1": new, "n2": new}


def test_members_that_stay_apart_are_shown_as_they_are() -> None:
    asked = Asked(n1=[Member(7, 1)], n2=[Member(5, 2)])
    assert asked.result() == {"n1": Member(7, 1), "n2": Member(5, 2)}
    assert asked.now >= SETTLE_S


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([OSError("no\nroute")], "OSError: no route"),
        ([Member(None, 1)], "it told no position"),
        (["what?"], "TypeError: str is no Member"),
        ([Member(1, object())], "TypeError: "),
        ([Member(place) for place in range(1000)], "it moved on from "),
        ([Member(1, place) for place in range(1000)], "its state has changed, but not its"),
    ],
)
def test_a_member_that_cannot_be_compared_says_why(script: Script, error: str) -> None:
    told = Asked(n1=[Member(7, 1)], n2=script).result()
    assert told["n1"] == Member(7, 1)
    assert told["n2"].error.startswith(error)


def test_systems_that_show_nothing_cost_no_time() -> None:
    asked = Asked(n1=[None], n2=[None])
    assert asked.result() == {}
    assert asked.now == 0.0


def test_a_member_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "ANSWER_S", 0.05)
    over = threading.Event()
    questions: list[str] = []

    def hanging(name: str) -> Member | None:
        questions.append(name)
        over.wait()
        return None

    now = iter(range(0, 9000, 30))
    asked = Inspection(["n1"], hanging, lambda: float(next(now)), lambda seconds: None)
    assert asked.members()["n1"].error == "no answer in 0.05 s"
    assert asked.members()["n1"].error == "no answer in 0.05 s"
    assert questions == ["n1"], "nobody else may use the client of a question that is open"
    over.set()
