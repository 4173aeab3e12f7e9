"""From disturbances to what each host does: links, rules of the relay, names."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.remote.packets import links, names
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.systems.kraft.remote.links import rules

IPS = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
PORTS = {"controller": 9093}
FETCH, VOTE = 1, 52


def from_n1(*receivers: str, **suffers: Any) -> Disturbance:
    return Disturbance(senders=("n1",), receivers=receivers or ("n2",), **suffers)


def does(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the effects of a link, without unused ones."""
    return {key: value for key, value in spec.items() if value}


def test_the_sender_disturbs_its_own_packets() -> None:
    wanted = [from_n1("n2", "n3", delay=5, jitter=2)]
    assert [does(link) for link in links(wanted, "n1", IPS, PORTS)] == [
        {"peer": "10.0.0.2", "delay": 5, "jitter": 2},
        {"peer": "10.0.0.3", "delay": 5, "jitter": 2},
    ]
    assert links(wanted, "n2", IPS, PORTS) == []


def test_packets_to_the_same_host_are_not_disturbed() -> None:
    everybody = Disturbance(senders=tuple(IPS), receivers=tuple(IPS), loss=10)
    for name in IPS:
        peers = {link["peer"] for link in links([everybody], name, IPS, PORTS)}
        assert peers == set(IPS.values()) - {IPS[name]}


def test_faults_add_up_on_a_link() -> None:
    wanted = [
        from_n1(delay=5, loss=50, reset=100),
        from_n1(delay=7, window=3, loss=50),
        from_n1(rate=900, twice=10),
        from_n1(rate=100),
    ]
    [link] = links(wanted, "n1", IPS, PORTS)
    assert does(link) == {
        "peer": "10.0.0.2",
        "delay": 12,
        "window": 3,
        "loss": 75.0,
        "reset": 50.0,
        "rate": 100,
        "twice": 10.0,
    }


def test_a_port_gets_general_effects_too_and_comes_first() -> None:
    wanted = [from_n1(delay=5), from_n1(drop=100, port="controller")]
    cut, slow = links(wanted, "n1", IPS, PORTS)
    assert does(cut) == {"peer": "10.0.0.2", "port": 9093, "delay": 5, "loss": 100.0}
    assert does(slow) == {"peer": "10.0.0.2", "delay": 5}


def test_a_port_that_no_node_has_is_left_alone() -> None:
    assert links([from_n1(drop=100, port="broker")], "n1", IPS, PORTS) == []


def test_requests_suffer_where_they_arrive_and_answers_where_they_are_given() -> None:
    wanted = [from_n1(apis=("Fetch",), drop=100)]
    [asked] = rules(wanted, "n2", IPS)
    [answered] = rules(wanted, "n1", IPS)
    assert (asked["peer"], asked["part"], asked["apis"]) == ("10.0.0.1", "request", [FETCH])
    assert (answered["peer"], answered["part"]) == ("10.0.0.2", "response")
    assert asked["drop"] == answered["drop"] == 100
    assert rules(wanted, "n3", IPS) == []
    assert links(wanted, "n1", IPS, PORTS) == []


@pytest.mark.parametrize(("part", "host"), [("request", "n2"), ("response", "n1")])
def test_a_part_suffers_alone(part: Any, host: str) -> None:
    wanted = [from_n1(apis=("Vote",), part=part, delay=9)]
    assert {name for name in IPS if rules(wanted, name, IPS)} == {host}


def test_only_requests_arrive_again() -> None:
    wanted = [from_n1(duplicate=100, again=5)]
    assert {name for name in IPS if rules(wanted, name, IPS)} == {"n2"}


def test_dns_fails_on_the_senders_and_silence_wins() -> None:
    refused = Disturbance(senders=("n1", "n2"), receivers=(), names="refused")
    silent = Disturbance(senders=("n1",), receivers=(), names="silent")
    assert [names([refused, silent], name) for name in IPS] == ["silent", "refused", ""]
    assert links([silent], "n1", IPS, PORTS) == rules([silent], "n1", IPS) == []
