"""Phantom brokers: broker lifecycles that a client plays (KIP-631).

A phantom registers, sends heartbeats, is fenced, stops, dies silently and comes back as a new
process, all by the requests of a real broker; there is no process behind it. So the rules for
brokers are tested wherever there is a controller, as often as needed. A phantom reports as its
metadata offset the leader's high watermark, which is committed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.metadata.features import SUPPORTED_FEATURES
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, kafka_call
from kraftwreck.systems.kraft.workloads.controller import (
    METADATA_VERSION,
    ask_controller,
    error_name,
    metadata_request,
)

FIRST_ID: Final = 1000
"""Real nodes have ids below this."""

PER_THREAD: Final = 3
THREADS: Final = 4
"""The first threads, which play phantoms."""

REGISTRATION_VERSION: Final = 4
HEARTBEAT_VERSION: Final = 1
DESCRIBE_QUORUM_VERSION: Final = 2
TIMEOUT_MS: Final = 1500
NO_EPOCH: Final = -1

_QUORUM: Final = {
    "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
}
_REPLACED: Final = frozenset({errors.STALE_BROKER_EPOCH, errors.BROKER_ID_NOT_REGISTERED})

Report = dict[str, Any]
Said = Generator[Call, Answer, tuple[str, Report]]
"""A generator of requests that returns the outcome (``ok``, ``fail``, ``info``) and a report."""


@dataclass(slots=True)
class Phantom:
    """One broker id.

    ``epoch`` is that of the registration in force as far as its process knows, ``old_epochs`` those
    of the processes before. ``previous`` is the epoch at which the process before stopped cleanly.
    ``offset`` is its metadata offset. A ``stopping`` process never changes its mind. ``quiet`` is
    the number of heartbeats that it still skips. The process of the epoch ``haunted``, which does
    not know that it was replaced, sends them instead. With ``delayed`` a heartbeat that the process
    sent before it was stopping arrives after them.
    """

    id: int
    directory: bytes
    incarnation: bytes
    epoch: int = NO_EPOCH
    previous: int = NO_EPOCH
    offset: int = -1
    lives: int = 1
    stopping: bool = False
    stopped: bool = False
    quiet: int = 0
    delayed: bool = False
    haunted: int = NO_EPOCH
    old_epochs: list[int] = field(default_factory=list)

    def replace(self, incarnation: bytes, previous: int = NO_EPOCH) -> None:
        """Replace this process by another one."""
        if self.epoch != NO_EPOCH:
            self.old_epochs.append(self.epoch)
        self.incarnation = incarnation
        self.previous = previous
        self.epoch, self.offset = NO_EPOCH, -1
        self.stopping = self.stopped = self.delayed = False
        self.lives += 1


def phantom(client: ClientState, number: int, life: int = 1) -> Phantom:
    """Return the broker with this id as its ``life``-th process, which is not registered yet."""
    return Phantom(number, _uuid(client, "directory", number), incarnation(client, number, life))


def phantoms_of(client: ClientState) -> list[Phantom]:
    """Return the phantoms that this client plays; none for most clients."""
    if client.thread >= THREADS:
        return []
    known: list[Phantom] | None = client.memory.get("phantoms")
    if known is None:
        first = FIRST_ID + client.thread * PER_THREAD
        known = [phantom(client, number) for number in range(first, first + PER_THREAD)]
        client.memory["phantoms"] = known
    return known


def incarnation(client: ClientState, number: int, life: int) -> bytes:
    """Return the id of the ``life``-th process of a phantom."""
    return _uuid(client, "incarnation", number, life)


def restart(client: ClientState, phantom: Phantom) -> None:
    """Start a new process; it reports its predecessor's epoch only after a clean stop."""
    previous = phantom.epoch if phantom.stopped else NO_EPOCH
    phantom.replace(incarnation(client, phantom.id, phantom.lives + 1), previous)


def _uuid(client: ClientState, *key: object) -> bytes:
    # The first byte is kept small: some values have a text form or meaning of their own.
    halves = [draw(client.seed, "phantom", half, *key) for half in (0, 1)]
    return b"\x10" + b"".join(half.to_bytes(8, "big") for half in halves)[1:]


# --- requests of phantoms -----------------------------------------------------------------


def _ask(client: ClientState, api: str, version: int, body: dict[str, Any]) -> Said:
    """Send a broker's request; return the outcome and the answer or the error."""
    answer, node = yield from ask_controller(client, api, version, body, TIMEOUT_MS)
    if answer.status != "ok":
        how = "info" if answer.status == "lost" else "fail"
        return how, {"error": f"{answer.status}: {answer.error}"}
    code = int(answer.response["error_code"])
    if code in (errors.NOT_CONTROLLER, errors.REQUEST_TIMED_OUT):
        client.leader = None
    if code == errors.NONE:
        return "ok", {"answer": answer.response, "node": node}
    uncertain = code in (errors.REQUEST_TIMED_OUT, errors.UNKNOWN_SERVER_ERROR)
    return "info" if uncertain else "fail", {"error": error_name(code), "code": code}


def cluster_id(client: ClientState) -> Generator[Call, Answer, str | None]:
    """Return the id of the cluster as reported by any node, None if there is no answer."""
    known: str | None = client.memory.get("cluster_id")
    if known is None:
        client.calls += 1
        nodes = [*client.nodes, *client.gateways]
        place = draw_below(len(nodes), client.seed, "id", client.thread, client.calls)
        answer = yield kafka_call(
            nodes[place], "Metadata", METADATA_VERSION, metadata_request([]), TIMEOUT_MS
        )
        if answer.status == "ok":
            known = client.memory["cluster_id"] = answer.response["cluster_id"]
    return known


def committed_offset(client: ClientState) -> Generator[Call, Answer, int]:
    """Return a committed offset, the last one known; -1 if none is."""
    answer, _ = yield from ask_controller(
        client, "DescribeQuorum", DESCRIBE_QUORUM_VERSION, _QUORUM, TIMEOUT_MS
    )
    known: int = client.memory.get("committed", -1)
    if answer.status == "ok":
        for topic in answer.response["topics"]:
            for part in topic["partitions"]:
                if part["error_code"] == errors.NONE:
                    known = max(known, part["high_watermark"] - 1)
                    client.memory["voters"] = {
                        voter["replica_id"]: bytes(voter["replica_directory_id"])
                        for voter in part["current_voters"]
                    }
    client.memory["committed"] = known
    return known


def register(
    client: ClientState,
    phantom: Phantom,
    process: bytes,
    previous: int = NO_EPOCH,
    rack: str | None = None,
) -> Said:
    """Register the phantom as ``process``; return the outcome and a report.

    Its rack names the client's thread unless it is given.
    """
    report: Report = {
        "broker": phantom.id,
        "did": "register",
        "incarnation": process.hex(),
        "previous": previous,
    }
    cluster = yield from cluster_id(client)
    if cluster is None:
        return "fail", report | {"error": "no cluster id known"}
    body = registration(client, phantom, process, previous, cluster)
    if rack is not None:
        body["rack"] = rack
    how, seen = yield from _ask(client, "BrokerRegistration", REGISTRATION_VERSION, body)
    if how != "ok":
        return how, report | {"error": seen["error"]}
    return how, report | {"epoch": seen["answer"]["broker_epoch"]}


def registration(
    client: ClientState, phantom: Phantom, process: bytes, previous: int, cluster: str
) -> dict[str, Any]:
    """Return the body of the phantom's BrokerRegistration as ``process``."""
    port = 20_000 + phantom.id
    return {
        "broker_id": phantom.id,
        "cluster_id": cluster,
        "incarnation_id": process,
        "listeners": [
            {"name": "PLAINTEXT", "host": "phantom", "port": port, "security_protocol": 0}
        ],
        "features": [
            {"name": name, "min_supported_version": low, "max_supported_version": high}
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        ],
        "rack": f"thread-{client.thread}",
        "is_migrating_zk_broker": False,
        "log_dirs": [phantom.directory],
        "previous_broker_epoch": previous,
    }


def beat(
    client: ClientState,
    phantom: Phantom,
    *,
    fence: bool = False,
    stop: bool = False,
    epoch: int | None = None,
) -> Said:
    """Send a heartbeat and apply its answer; return the outcome and a report.

    With an ``epoch`` the heartbeat is that of an earlier process, and the answer changes nothing.
    """
    told = phantom.epoch if epoch is None else epoch
    report: Report = {
        "broker": phantom.id,
        "did": "heartbeat",
        "epoch": told,
        "offset": phantom.offset,
    }
    body = {
        "broker_id": phantom.id,
        "broker_epoch": told,
        "current_metadata_offset": phantom.offset,
        "want_fence": fence,
        "want_shut_down": stop,
        "offline_log_dirs": [],
    }
    how, seen = yield from _ask(client, "BrokerHeartbeat", HEARTBEAT_VERSION, body)
    if how != "ok":
        if seen.get("code") in _REPLACED and epoch is None:
            phantom.replace(incarnation(client, phantom.id, phantom.lives + 1))
        return how, report | {"error": seen["error"]}
    answer = seen["answer"]
    if stop and answer["should_shut_down"]:
        phantom.stopped = True
    return how, report | {
        "fenced": answer["is_fenced"],
        "caught_up": answer["is_caught_up"],
        "go": answer["should_shut_down"],
    }


def live(
    client: ClientState,
    phantoms: Sequence[Phantom],
    *,
    learn: bool = True,
    fence: bool = False,
    stop: bool = False,
) -> Generator[Call, Answer, tuple[str, list[Report]]]:
    """Execute the next step of each of ``phantoms``: come back, register, or send a heartbeat.

    Returns the worst outcome of all, and the report of each. A lost answer ends the sequence.
    """
    offset = (yield from committed_offset(client)) if learn else -1
    reports: list[Report] = []
    hows: list[str] = []
    for phantom in phantoms:
        if phantom.quiet:
            phantom.quiet -= 1
            if phantom.haunted != NO_EPOCH:
                how, seen = yield from beat(client, phantom, epoch=phantom.haunted)
                hows.append(how)
                reports.append(seen)
            continue
        phantom.haunted = NO_EPOCH
        if phantom.stopped and not stop:
            restart(client, phantom)
        if phantom.stopped:
            continue
        if phantom.epoch == NO_EPOCH:
            how, seen = yield from register(client, phantom, phantom.incarnation, phantom.previous)
            if how == "ok":
                phantom.epoch = seen["epoch"]
        else:
            phantom.offset = max(phantom.offset, offset)
            phantom.stopping |= stop
            stops = phantom.stopping and not phantom.delayed
            how, seen = yield from beat(client, phantom, fence=fence, stop=stops)
            phantom.delayed &= how != "ok"
        hows.append(how)
        reports.append(seen)
        if how == "info":
            break
    worst = "info" if "info" in hows else "ok" if "ok" in hows else "fail"
    return worst, reports
