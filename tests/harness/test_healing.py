"""Healing tries everything on every host, also after failures."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kraftwreck.harness.clusters import healing
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.remote.session import Remote, RemoteError

ANSWERS: dict[str, dict[str, Any]] = {
    "settled": {"alone": True},
    "heal": {"packets": 0, "dropped": {}},
    "heal_network": {"healed": ["links"]},
    "heal_services": {"resumed": ["n2", "n2/sentinel"], "released": {}, "mended": {}},
    "right_clock": {"wrong": True},
    "right_date": {"wrong": False},
}


class FakeAgent:
    """Remembers the requests to every host; ``failing`` holds (host, request)."""

    asked: ClassVar[list[tuple[str, str]]] = []
    failing: ClassVar[set[tuple[str, str]]] = set()

    def __init__(self, remote: Remote) -> None:
        self.name = remote.host.name

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        self.asked.append((self.name, do))
        if (self.name, do) in self.failing:
            raise RemoteError(self.name, f"{do}: it does not work")
        return ANSWERS[do]

    def close(self) -> None:
        self.asked.append((self.name, "close"))


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> type[FakeAgent]:
    FakeAgent.asked, FakeAgent.failing = [], set()
    monkeypatch.setattr(healing, "Agent", FakeAgent)
    return FakeAgent


HOSTS = [Host(f"n{i}", i, f"192.0.2.{i}", "ssh-ed25519 AAAA") for i in (1, 2)]


def test_undone_faults_are_reported(agents: type[FakeAgent]) -> None:
    told = healing.heal_hosts(HOSTS)
    assert told["n1"] == told["n2"]
    assert told["n1"] == {
        "packets": 0,
        "dropped": {},
        "network": ["links"],
        "resumed": ["n2", "n2/sentinel"],
        "clock": "right again",
    }


def test_one_failure_keeps_nothing_else_from_being_undone(agents: type[FakeAgent]) -> None:
    agents.failing = {("n1", "heal"), ("n1", "right_clock")}
    told = healing.heal_hosts(HOSTS)
    errors = "n1: heal: it does not work; n1: right_clock: it does not work"
    assert told["n1"] == {"error": errors}
    assert "error" not in told["n2"]
    asked = [do for name, do in agents.asked if name == "n1"]
    assert set(asked) == {*ANSWERS, "close"}


def test_a_host_that_does_not_answer_is_given_up_at_once(agents: type[FakeAgent]) -> None:
    agents.failing = {("n2", "settled")}
    assert healing.heal_hosts(HOSTS)["n2"] == {"error": "n2: settled: it does not work"}
    assert [do for name, do in agents.asked if name == "n2"] == ["settled", "close"]
