"""Messages on disturbed links: late, lost, repeated, overtaken; the others as always."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.nodes.consensus.kraft.messages import EndQuorumEpochRequest
from kraftwreck.simulation.disturbed import LATEST, RETRANSMISSION, Disturbances, Fate
from kraftwreck.simulation.network import Network, Rpc
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import KraftBinding
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign
from kraftwreck.systems.kraft.simulated.knobs import Knobs

MS = 1_000
SECOND = 1_000_000
IDS = {"n1": 1, "n2": 2, "n3": 3}
MakeToys = Callable[..., Any]


def rpc(message: Any = None, source: int = 1, destination: int = 2) -> Rpc:
    asked = message or EndQuorumEpochRequest(None, 1, 1, ())
    return Rpc(source, 1, destination, 1, destination, 7, asked, 0)


def link(sender: str = "n1", receiver: str = "n2", **suffers: Any) -> Disturbance:
    return Disturbance(senders=(sender,), receivers=(receiver,), **suffers)


def fates(*wanted: Disturbance, count: int = 200, **about: Any) -> list[Fate]:
    """Return the fates of ``count`` requests of n1 to n2, one each 100 ms, times from sending."""
    network = Network(5, Knobs())
    disturbances = Disturbances(network, KraftBinding())
    disturbances.set(wanted, IDS)
    kind = about.pop("kind", "request")
    found = []
    for number in range(count):
        now = number * 100 * MS
        fate = disturbances.fate(now, kind, rpc(**about), 1, 2)
        found.append(Fate(*(at - now if at >= 0 else at for at in fate)))
    return found


def test_an_untouched_link_is_as_quick_as_ever() -> None:
    assert fates(link("n2", "n1", drop=100)) == fates()
    assert {fate.arrival <= Knobs().latency_max for fate in fates()} == {True}


def test_a_slow_link_adds_its_delay_and_some_of_its_jitter() -> None:
    late = [fate.arrival for fate in fates(link(delay=300 * MS, jitter=30 * MS))]
    assert min(late) >= 300 * MS
    assert max(late) <= 330 * MS + Knobs().latency_max
    assert max(late) - min(late) > 20 * MS


def test_a_lost_message_is_late_by_doubling_time_outs_and_some_never_arrive() -> None:
    found = [fate.arrival for fate in fates(link(loss=50), count=600)]
    steps = {(at // RETRANSMISSION) for at in found if at >= 0}
    assert steps == {0, 1, 3, 7}, "0, 200, 600 and 1400 ms"
    assert found.count(-1) / 600 == pytest.approx(1 / 16, abs=0.04)
    assert sum(0 <= at < RETRANSMISSION for at in found) / 600 == pytest.approx(0.5, abs=0.06)


def test_a_reset_loses_the_message_and_informs_the_sender() -> None:
    found = fates(link(loss=100, reset=100))
    assert all(fate.arrival == -1 and fate.reset >= 0 for fate in found)


def test_a_copy_of_a_quorum_request_arrives_later_and_of_nothing_else() -> None:
    found = fates(link(duplicate=100, again=50 * MS))
    assert all(fate.arrival < fate.copy <= fate.arrival + 50 * MS + 1 for fate in found)
    api = ApiMessage("BrokerHeartbeat", 0, {})
    assert {fate.copy for fate in fates(link(duplicate=100), message=api)} == {-1}
    assert {fate.copy for fate in fates(link(duplicate=100), kind="response")} == {-1}


def test_messages_overtake_each_other_within_the_window_only() -> None:
    network = Network(5, Knobs())
    disturbances = Disturbances(network, KraftBinding())
    disturbances.set([link(window=50 * MS)], IDS)
    at = [disturbances.fate(n * MS, "request", rpc(), 1, 2).arrival for n in range(100)]
    assert at != sorted(at)
    assert all(n * MS < when <= n * MS + 50 * MS + Knobs().latency_max for n, when in enumerate(at))


def test_only_the_named_rpc_and_its_part_suffer_and_others_overtake_it() -> None:
    assert fates(link(apis=("Vote",), drop=100)) == fates()
    only: dict[str, Any] = {"apis": ("EndQuorumEpoch",), "drop": 100}
    assert {fate.arrival for fate in fates(link(**only))} == {-1}
    assert {fate.arrival for fate in fates(link(part="request", **only))} == {-1}
    assert fates(link(part="response", **only)) == fates()
    network = Network(5, Knobs())
    disturbances = Disturbances(network, KraftBinding())
    disturbances.set([link(apis=("EndQuorumEpoch",), delay=SECOND)], IDS)
    late = disturbances.fate(0, "request", rpc(), 1, 2).arrival
    quick = disturbances.fate(1, "request", rpc(ApiMessage("Envelope", 0, {})), 1, 2).arrival
    assert quick < SECOND < late
    assert KraftBinding().name(rpc().message) == "EndQuorumEpoch"


def test_however_many_faults_there_are_nothing_is_later_than_the_bound() -> None:
    wanted = [
        link(delay=800 * MS, jitter=800 * MS),
        link(loss=60, duplicate=100, again=2 * SECOND),
        link(window=SECOND),
    ]
    for fate in fates(*wanted):
        assert max(fate.arrival, fate.copy) <= LATEST + Knobs().latency_max + 1


def test_disturbed_messages_are_counted_until_the_next_setting() -> None:
    network = Network(5, Knobs())
    disturbances = Disturbances(network, KraftBinding())
    disturbances.set([link(drop=100)], IDS)
    for _ in range(3):
        disturbances.fate(0, "request", rpc(), 1, 2)
    assert disturbances.set([], IDS) == {"dropped": 3}
    assert disturbances.rules == {}


# --- in a world ---------------------------------------------------------------------------


def test_a_swallowed_answer_lets_the_request_time_out(toys: MakeToys) -> None:
    made = toys(count=2, knobs=Knobs(request_timeout=500 * MS))
    made.world.disturb([link("n2", "n1", drop=100, part="response")])
    made.world.run(2 * SECOND)
    kinds = made.kinds("n1")
    assert "heard" not in kinds
    assert kinds.count("failed") > 10
    assert "heard" in made.kinds("n2"), "the other way nothing is wrong"
    assert made.world.disturb([])["dropped"] > 10
    made.world.run(3 * SECOND)
    assert "heard" in made.kinds("n1", since=2 * SECOND)


def test_a_request_that_arrives_twice_is_handled_twice_and_answered_once(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.disturb([link(duplicate=100, again=10 * MS)])
    made.world.run(1_050 * MS)
    handled = [e for _, e in made.node(2).seen if type(e).__name__ == "RequestReceived"]
    asked, heard = made.kinds("n1").count("asked"), made.kinds("n1").count("heard")
    assert len(handled) == 2 * asked
    assert heard == asked


def test_a_reset_fails_the_request_at_once(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.disturb([link(loss=100, reset=100)])
    made.world.run(150 * MS)
    assert made.kinds("n1") == ["start", "asked", "failed"]


def test_clients_are_never_disturbed(toys: MakeToys) -> None:
    made = toys(count=2)
    everybody = ("n1", "n2")
    made.world.disturb([Disturbance(senders=everybody, receivers=everybody, drop=100)])
    got = made.ask("n2")
    made.world.run(10 * MS)
    assert got == [("ok", {"from": 2}, None)]


# --- whole runs ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [3, 6, 8])
def test_a_cluster_survives_disturbed_networks_and_clocks_and_repeats_itself(seed: int) -> None:
    campaign = Campaign(faults=("network", "clock", "kill"), time_limit_s=12)
    tested = run_seed(campaign, seed, keep=False)
    assert (tested.found, tested.unknown) == ([], [])
    assert run_seed(campaign, seed, keep=False).digest == tested.digest
