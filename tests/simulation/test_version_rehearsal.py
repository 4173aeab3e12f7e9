"""F21: requests for records mean the same in all versions, and so do their answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.protocol import acknowledged, fetch
from kraftwreck.nodes.protocol.apis import decode_response
from kraftwreck.nodes.protocol.codec import encode
from kraftwreck.nodes.protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.server import data_calls
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.nodes.server.record_requests import ImageTopics, RecordRequests
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated import version_rehearsal
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.version_rehearsal import (
    EACH,
    VersionRehearsal,
    wrong_versions,
)
from kraftwreck.systems.kraft.workloads.polling import FETCH, LIST_OFFSETS
from kraftwreck.systems.kraft.workloads.record_batches import batch_of
from kraftwreck.systems.kraft.workloads.sending import PRODUCE
from tests.simulation.replicas import KEY
from tests.simulation.test_files_rehearsal import NAME, copied

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
TOKEN = 7
FOLLOWER_FETCH = 17


class Asked:
    """A broker with a log of 14 records, and answered requests for it."""

    def __init__(self) -> None:
        self.image: Any = SimpleNamespace(
            topics={NAME: SimpleNamespace(topic_id=KEY[0])}, names={KEY[0]: NAME}
        )
        settings = LogSettings(10_000, index_interval_bytes=100)
        files = PartitionFiles(ROOT, lambda _: NAME, settings, self._files(settings))
        files.carry_out(out.OpenLog(KEY))
        self.requests = RecordRequests(ImageTopics(lambda: self.image), files)

    def _files(self, settings: LogSettings) -> Filesystem:
        return copied(settings)

    def asked(self, api: str, version: int, body: Any, reply: Any) -> tuple[Any, Any, Any]:
        """Return a request, the answer of the core and the body of what leaves."""
        frame = encode(f"{api}Request", version, body)
        call = self.requests.read(api, version, frame, 0, token=TOKEN, wall_ms=1 << 45)
        message = RecordMessage(api, version, frame, call=call)
        pieces = cast("list[bytes]", self.requests.frame(api, version, 0, call, reply))
        return message, reply, decode_response(api, version, b"".join(pieces))[1]

    def fetched(self, version: int, error: int = NONE) -> tuple[Any, Any, Any]:
        part = {
            "partition": 0,
            "current_leader_epoch": 3,
            "fetch_offset": 4,
            "last_fetched_epoch": 1,
            "log_start_offset": 2,
            "partition_max_bytes": 99,
        }
        named = {"topic": NAME} if version < fetch.BY_ID else {"topic_id": KEY[0]}
        replica = {"replica_id": 5, "replica_epoch": 8}
        of_follower = {} if version < fetch.BY_ID else {"replica_state": replica}
        body = {"max_wait_ms": 1, "min_bytes": 1, "max_bytes": 99, "isolation_level": 0,
                "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "",
                "topics": [named | {"partitions": [part]}], **of_follower}  # fmt: skip
        read = out.ReadPart(KEY, error, 9, 1, out.Slice(4, 9, 99) if error == NONE else None)
        return self.asked("Fetch", version, body, out.ReplyFetch(TOKEN, NONE, 0, 99, (read,)))

    def produced(self) -> tuple[Any, Any, Any]:
        content = batch_of((1, 2), None)
        parts = [{"index": 0, "records": content}]
        body = {"transactional_id": None, "acks": 1, "timeout_ms": 5,
                "topic_data": [{"name": NAME, "partition_data": parts}]}  # fmt: skip
        reply = out.ReplyProduce(TOKEN, (out.ProducedPart(KEY, NONE, 14, 2),))
        return self.asked("Produce", PRODUCE, body, reply)

    def listed(self) -> tuple[Any, Any, Any]:
        part = {"partition_index": 0, "current_leader_epoch": 3, "timestamp": -1}
        body = {"replica_id": -1, "isolation_level": 0,
                "topics": [{"name": NAME, "partitions": [part]}]}  # fmt: skip
        reply = out.ReplyListOffsets(TOKEN, (out.OffsetPart(KEY, NONE, 14, 3),))
        return self.asked("ListOffsets", LIST_OFFSETS, body, reply)

    def wrong(self, answered: tuple[Any, Any, Any]) -> list[str]:
        return list(wrong_versions(self.requests, *answered, self.image))


@pytest.mark.parametrize("kind", ["consumer", "follower", "producer", "offsets"])
def test_the_versions_of_the_nodes_agree(kind: str) -> None:
    one = Asked()
    versions = {"consumer": FETCH, "follower": FOLLOWER_FETCH}
    if kind in versions:
        assert one.wrong(one.fetched(versions[kind])) == []
    else:
        assert one.wrong(one.produced() if kind == "producer" else one.listed()) == []


def test_a_version_with_ids_must_not_be_answered_by_name(monkeypatch: Patch) -> None:
    one = Asked()
    answered = one.fetched(FETCH)
    monkeypatch.setattr(data_calls, "_FETCH_BY_ID", 14)
    found = one.wrong(answered)
    assert [each[:44] for each in found] == ["could not carry out a Fetch of version 13: c"]


def test_a_field_must_not_begin_with_a_later_version(monkeypatch: Patch) -> None:
    one = Asked()
    answered = one.produced()
    monkeypatch.setattr(acknowledged, "_LOG_START", 6)
    assert len(one.wrong(answered)) == 1


def test_a_request_must_mean_the_same(monkeypatch: Patch) -> None:
    one = Asked()
    answered = one.fetched(FETCH)
    body = fetch._body

    def planted(reader: Any, version: int) -> Any:
        found = body(reader, version)
        return found._replace(session_epoch=0) if version == fetch._SESSIONS else found

    monkeypatch.setattr(fetch, "_body", planted)
    assert [each[:35] for each in one.wrong(answered)] == ["would take a Fetch of version 7 for"]


def test_the_first_requests_of_each_api_are_repeated(monkeypatch: Patch) -> None:
    one, failures = Asked(), Failures()
    traffic: Any = SimpleNamespace(on_answer=[])
    monkeypatch.setattr(version_rehearsal, "record_traffic", lambda _: traffic)
    monkeypatch.setattr(version_rehearsal, "requests_of", lambda _: one.requests)
    monkeypatch.setattr(version_rehearsal, "Node", SimpleNamespace)
    monkeypatch.setattr(version_rehearsal, "wrong_versions", lambda *_: iter(["is wrong", "too"]))
    world: Any = SimpleNamespace(now=0)
    node = SimpleNamespace(image=SimpleNamespace(stable=one.image))
    host: Any = SimpleNamespace(name="b4", node=node)
    VersionRehearsal(world, failures)
    (look,) = traffic.on_answer
    look(host, *one.fetched(FETCH, NOT_LEADER_OR_FOLLOWER))
    assert not failures
    for _ in range(EACH + 1):
        look(host, *one.fetched(FETCH))
    assert [failure.explanation for failure in failures.items] == ["b4 is wrong"] * EACH
    look(host, *one.listed())
    assert len(failures.items) == EACH + 1


@pytest.mark.parametrize("version", [FETCH, FOLLOWER_FETCH])
def test_a_request_for_a_topic_that_is_gone_is_left_out(version: int, monkeypatch: Patch) -> None:
    """Or another topic has its name."""
    one = Asked()
    answered = one.fetched(version)
    monkeypatch.setattr(fetch, "_LEADER_EPOCH", 99)
    assert one.wrong(answered) != []
    one.image.topics[NAME].topic_id = bytes(15) + b"n"
    one.image.names = {bytes(15) + b"n": NAME}
    assert one.wrong(answered) == []
    one.image.topics, one.image.names = {}, {}
    assert one.wrong(answered) == []
