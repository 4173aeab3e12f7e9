"""Topics come into being as clients ask for their metadata, if the broker is set to allow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.protocol.apis import decode_request_header, encode_response
from kraftwreck.nodes.protocol.codec import decode

UNKNOWN_TOPIC, INVALID_NAME, NO_CONTROLLER = 3, 17, 41


def asking(*names: str, allowed: bool = True) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": allowed}


@pytest.fixture
def creating(make_rig: Callable[..., Any]) -> Any:
    """A running broker that has topics created, with 4 partitions of 2 replicas."""
    rig = make_rig(auto_create_topics=True, default_partitions=4, default_replication=2)
    for broker_id in (4, 5):
        rig.add_broker(broker_id)
    rig.run()
    return rig


def forwarded(rig: Any) -> list[Any]:
    return [request for request in rig.sent if request.api == "Envelope"]


def inner(rig: Any) -> dict[str, Any]:
    data = forwarded(rig)[-1].body["request_data"]
    key, version, _, _, offset = decode_request_header(data)
    assert (key, version) == (19, 7)
    return decode("CreateTopicsRequest", version, data, offset)[0]


def test_the_controller_is_asked_for_a_topic_that_does_not_exist(creating: Any) -> None:
    creating.add_topic("there", 4)
    answer = creating.call("Metadata", 12, asking("there", "new", "newer", "no name"))
    codes = [topic["error_code"] for topic in answer["topics"]]
    assert codes == [0, UNKNOWN_TOPIC, UNKNOWN_TOPIC, INVALID_NAME]
    topics = inner(creating)["topics"]
    assert [topic["name"] for topic in topics] == ["new", "newer"]
    assert {(t["num_partitions"], t["replication_factor"]) for t in topics} == {(4, 2)}


def test_a_topic_is_asked_for_once_until_the_controller_has_answered(creating: Any) -> None:
    creating.call("Metadata", 12, asking("new"))
    creating.call("Metadata", 12, asking("new"))
    assert len(forwarded(creating)) == 1
    created = {"name": "new", "error_code": 0}
    data = encode_response("CreateTopics", 7, 0, {"topics": [created]})
    before = dict(creating.replies)
    assert creating.answer({"error_code": 0, "response_data": data}, to=forwarded(creating)[-1])
    assert creating.replies == before, "no client waits for this answer"
    creating.call("Metadata", 12, asking("new"))
    assert len(forwarded(creating)) == 2, "it may have been deleted meanwhile"


@pytest.mark.parametrize("version", range(4))
def test_old_clients_have_no_choice(creating: Any, version: int) -> None:
    creating.call("Metadata", version, {"topics": [{"name": "new"}]})
    assert len(forwarded(creating)) == 1


def test_a_client_may_ask_without_creating(creating: Any) -> None:
    creating.call("Metadata", 12, asking("new", allowed=False))
    creating.call("Metadata", 12, {"topics": None, "allow_auto_topic_creation": True})
    creating.call("Metadata", 12, {"topics": [{"name": None, "topic_id": b"?" * 16}]})
    assert forwarded(creating) == []


def test_by_default_nothing_is_created(running: Any) -> None:
    running.call("Metadata", 12, asking("new"))
    assert forwarded(running) == []
