"""Finding the active controller and sending it requests, for all workloads.

A client keeps a guess of the leader. Without one it requests the controller id from nodes chosen by
draw (a Metadata request with an empty topic list, which any node answers at once). It drops the
guess when the node refuses, does not answer, or is not the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Completion, Invocation
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, kafka_call

METADATA_VERSION: Final = 12
TOPIC: Final = 2
"""ConfigResource type of a topic."""

DISCOVERY_TIMEOUT_MS: Final = 1000
_DISCOVERY_TRIES: Final = 3
_PROBES: Final = 12

CERTAINLY_NOT_DONE: Final = frozenset(
    {
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.UNSUPPORTED_VERSION,
        errors.TOPIC_ALREADY_EXISTS,
        errors.INVALID_PARTITIONS,
        errors.INVALID_REPLICATION_FACTOR,
        errors.INVALID_REPLICA_ASSIGNMENT,
        errors.INVALID_CONFIG,
        errors.NOT_CONTROLLER,
        errors.INVALID_REQUEST,
        errors.POLICY_VIOLATION,
        errors.OPERATION_NOT_ATTEMPTED,
        errors.FENCED_LEADER_EPOCH,
        errors.STALE_BROKER_EPOCH,
        errors.PREFERRED_LEADER_NOT_AVAILABLE,
        errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        errors.ELECTION_NOT_NEEDED,
        errors.NO_REASSIGNMENT_IN_PROGRESS,
        errors.INVALID_UPDATE_VERSION,
        errors.UNKNOWN_TOPIC_ID,
        errors.DUPLICATE_BROKER_REGISTRATION,
        errors.BROKER_ID_NOT_REGISTERED,
        errors.INCONSISTENT_CLUSTER_ID,
        errors.INELIGIBLE_REPLICA,
        errors.INVALID_REGISTRATION,
    }
)
"""Codes which guarantee that a write was not done. Every other code leaves it open."""

Conversation = Generator[Call, Answer, tuple[Answer, str | None]]
Ask = Callable[[ClientState, str, int, dict[str, Any], int], Conversation]


def metadata_request(topics: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Return a Metadata request for ``topics`` (None: all of them)."""
    return {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }


def find_controller(client: ClientState) -> Generator[Call, Answer, str | None]:
    """Return the node believed to lead; without a guess, ask other nodes first."""
    for _ in range(_DISCOVERY_TRIES):
        if client.leader is not None:
            break
        client.calls += 1
        place = draw_below(len(client.nodes), client.seed, "ask", client.thread, client.calls)
        answer = yield kafka_call(
            node=client.nodes[place],
            api="Metadata",
            version=METADATA_VERSION,
            body=metadata_request([]),
            timeout_ms=DISCOVERY_TIMEOUT_MS,
        )
        if answer.status == "ok":
            client.leader = client.ids.get(answer.response["controller_id"])
    return client.leader


def ask_for_write(
    client: ClientState, api: str, version: int, body: dict[str, Any], timeout_ms: int
) -> Conversation:
    """Send a request for a change; return the answer and the node that gave it.

    With gateways, the request goes to one of these brokers, which forwards it to the active
    controller. Brokers' own answers may be stale, so reads are never sent to them.
    """
    if not client.gateways:
        return (yield from ask_controller(client, api, version, body, timeout_ms))
    client.calls += 1
    key = ("gateway", client.thread, client.calls)
    node = client.gateways[draw_below(len(client.gateways), client.seed, *key)]
    answer = yield kafka_call(node, api, version, body, timeout_ms)
    return answer, node


def ask_controller(
    client: ClientState, api: str, version: int, body: dict[str, Any], timeout_ms: int
) -> Conversation:
    """Send one request to the controller; return the answer and the node that gave it.

    The answer is ``refused`` and the node None if no leader is known.
    """
    leader = yield from find_controller(client)
    if leader is None:
        return Answer(status="refused", error="no controller known"), None
    client.calls += 1
    answer = yield kafka_call(leader, api, version, body, timeout_ms)
    if answer.status != "ok":
        client.leader = None
    return answer, leader


def ask_elsewhere(
    client: ClientState, api: str, version: int, body: dict[str, Any], timeout_ms: int
) -> Conversation:
    """Send one write to the controller, and after a lost answer to any node but the silent one.

    Followers name an isolated leader until they elect another, so a client that asks them returns
    to it. This one tries :data:`_PROBES` nodes directly, and may be the first to write to the new
    leader. Gateways, if there are any, get the write instead (:func:`ask_for_write`).
    """
    silent, tries = client.memory.get("silent", ("", 0))
    if client.gateways or client.leader is not None or not tries:
        answer, node = yield from ask_for_write(client, api, version, body, timeout_ms)
    else:
        client.calls += 1
        others = [name for name in client.nodes if name != silent] or list(client.nodes)
        key = ("elsewhere", client.thread, client.calls)
        node = others[draw_below(len(others), client.seed, *key)]
        answer = yield kafka_call(node, api, version, body, timeout_ms)
        client.leader = node if answer.status == "ok" else None
        client.memory["silent"] = silent, tries - 1
    if answer.status == "lost":
        client.memory["silent"] = node, _PROBES
    return answer, node


def ask_loyally(
    client: ClientState, api: str, version: int, body: dict[str, Any], timeout_ms: int
) -> Conversation:
    """Send one read to the node that served this client last; return the answer and the node.

    The client changes the node only when that refuses. It stays with a deposed or silent leader,
    which may serve stale reads. Without such a node it chooses any node.
    """
    client.calls += 1
    node = client.leader
    if node is None:
        key = ("loyal", client.thread, client.calls)
        node = client.nodes[draw_below(len(client.nodes), client.seed, *key)]
    answer = yield kafka_call(node, api, version, body, timeout_ms)
    client.leader = None if answer.status == "refused" else node
    return answer, node


def not_answered(answer: Answer, node: str | None, *, write: bool) -> Completion:
    """Return the outcome of an operation whose answer is ``refused`` or ``lost``.

    A lost write is indeterminate; a read without an answer has no effect either way.
    """
    kind = "info" if write and answer.status == "lost" else "fail"
    reason = f"{answer.status}: {answer.error}" if answer.error else answer.status
    return Completion("info" if kind == "info" else "fail", error=reason, node=node)


def refused_by_node(client: ClientState, code: int, node: str | None, *, write: bool) -> Completion:
    """Return the outcome of an operation that got the error ``code``."""
    if code in (errors.NOT_CONTROLLER, errors.REQUEST_TIMED_OUT):
        client.leader = None
    certain = not write or code in CERTAINLY_NOT_DONE
    return Completion("fail" if certain else "info", error=error_name(code), node=node)


def change(
    op: Op,
    client: ClientState,
    api: str,
    version: int,
    body: dict[str, Any],
    items: str,
    timeout_ms: int,
    ask: Ask = ask_for_write,
) -> Invocation:
    """Execute a write of one thing; ``items`` names the list of results in the answer."""
    answer, node = yield from ask(client, api, version, body, timeout_ms)
    if answer.status != "ok":
        return not_answered(answer, node, write=True)
    code = first_error(answer.response, items)
    if code != errors.NONE:
        return refused_by_node(client, code, node, write=True)
    return Completion("ok", op.value, node=node)


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, in lower case with dashes."""
    return _NAMES.get(code, f"error-{code}")


def first_error(body: dict[str, Any], items: str) -> int:
    """Return the error code of the first of ``items``; an empty list leaves the outcome open."""
    found = body.get(items) or []
    return int(found[0]["error_code"]) if found else int(errors.UNKNOWN_SERVER_ERROR)


_NAMES: Final = {
    value: name.lower().replace("_", "-")
    for name, value in vars(errors).items()
    if isinstance(value, int) and name.isupper()
}
