"""Probes with requests in the name of brokers and controllers that do not exist.

:mod:`systems.kraft.workloads.probe_requests` lists them with all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.phantoms import NO_EPOCH, registration

Body = dict[str, Any]
Choose = Callable[..., int]
Request = tuple[str, int, Body]


def stranger(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    """Send a request of an unknown broker, or with an outdated epoch."""
    ids = [*client.memory.get("brokers", ()), 888]
    broker = {"broker_id": ids[choose(len(ids), "id")], "broker_epoch": choose(2, "epoch")}
    match choose(4, "stranger"):
        case 0:
            return "AllocateProducerIds", 0, broker
        case 1:
            # Also of live brokers, as if by an operator's mistake; they register again by
            # themselves.
            living = [len(client.nodes) + 1 + each for each in range(2)]
            known = (888, 888, *living)
            return "UnregisterBroker", 0, {"broker_id": known[choose(len(known), "living")]}
        case 2:
            return "AlterPartition", 3, broker | {"topics": []}
    heartbeat = {"current_metadata_offset": 0, "want_fence": False, "want_shut_down": False}
    return "BrokerHeartbeat", 1, broker | heartbeat | {"offline_log_dirs": []}


def again(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request | None:
    """Repeat the registration of a registered phantom, which must change nothing."""
    cluster_id = client.memory.get("cluster_id")
    registered = [p for p in client.memory.get("phantoms", ()) if p.epoch != NO_EPOCH]
    if cluster_id is None or not registered:
        return None
    phantom = registered[choose(len(registered), "phantom")]
    body = registration(client, phantom, phantom.incarnation, phantom.previous, cluster_id)
    return "BrokerRegistration", 4, body


def newcomer(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request | None:
    """Register a broker with an invalid field."""
    cluster_id = client.memory.get("cluster_id")
    if cluster_id is None:
        return None
    features = [{"name": "metadata.version", "min_supported_version": 7,
                 "max_supported_version": 27}]  # fmt: skip
    body: Body = {
        "broker_id": 888,
        "cluster_id": cluster_id,
        "incarnation_id": bytes(range(1, 17)),
        "listeners": [
            {"name": "PLAINTEXT", "host": "probe", "port": 20_888, "security_protocol": 0}
        ],
        "features": features,
        "rack": None,
        "is_migrating_zk_broker": False,
        "log_dirs": [bytes([16] * 16)],
        "previous_broker_epoch": -1,
    }
    wrong: tuple[Body, ...] = (
        {"cluster_id": "another"},
        {"log_dirs": []},
        {"log_dirs": [bytes(15) + b"\x01"]},
        {"log_dirs": [bytes([16] * 16)] * 2},
        {"features": []},
        {"features": [features[0] | {"max_supported_version": 24}]},
        {"features": [features[0] | {"min_supported_version": 26}]},
        {"is_migrating_zk_broker": True},
    )
    directories = client.memory.get("phantoms")
    if directories:
        wrong = (*wrong, {"log_dirs": [directories[0].directory]})
    return "BrokerRegistration", 4, body | wrong[choose(len(wrong), "wrong")]


def voters(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    """Request an impossible change of the voters.

    It names a voter's id with an unknown directory, the only voter, or another cluster. The cluster
    may be left out.
    """
    cluster_id = client.memory.get("cluster_id")
    ids = [*client.ids, 555]
    voter = {
        "cluster_id": (cluster_id, None, cluster_id, "another")[choose(4, "cluster")],
        "voter_id": ids[choose(len(ids), "voter")],
        "voter_directory_id": bytes([0x55] * 16),
    }
    known = client.memory.get("voters", {})
    if len(client.nodes) == 1 and len(known) == 1 and choose(2, "known"):
        ((voter["voter_id"], voter["voter_directory_id"]),) = known.items()
    if choose(2, "remove"):
        return "RemoveRaftVoter", 0, voter
    host = client.nodes[choose(len(client.nodes), "host")]
    listener = {"name": "CONTROLLER", "host": host, "port": 9093}
    more = {"timeout_ms": timeout_ms, "listeners": [listener], "ack_when_committed": True}
    return "AddRaftVoter", 1, voter | more
