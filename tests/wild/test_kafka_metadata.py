"""Metadata of Apache Kafka: what a client says became of a change, and when a read is fresh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_kafka
import kafka_metadata
import pytest
from kafka_metadata import MetadataClient, outcome
from kafka_places import CONTROLLERS, Cluster

from kraftwreck.harness.client import Answer
from kraftwreck.harness.deploy.artefacts import ArtefactError
from kraftwreck.harness.deploy.cache import ArtefactCache
from kraftwreck.harness.deploy.declaration import Place
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, FAILED
from kraftwreck.histories.operation import INVOKE, Op
from kraftwreck.nodes.protocol import errors
from kraftwreck.oracle import release

PLACES = tuple(Place(f"n{i}", i, f"10.0.0.{i}", "node") for i in (1, 2, 3))
Replies = Callable[[Place, str, dict[str, Any]], Answer]


class Scripted:
    """A connection that answers by a function."""

    def __init__(self, place: Place, port: int, replies: Replies) -> None:
        self.place, self.port, self.replies = place, port, replies

    def call(self, api: str, version: int, body: dict[str, Any], timeout_ms: int) -> Answer:
        if api == "DescribeQuorum":
            leads = {"error_code": 0 if self.place.name == "n2" else errors.NOT_LEADER_OR_FOLLOWER}
            parts = [{**leads, "leader_id": 2}]
            return Answer("ok", {"error_code": 0, "topics": [{"partitions": parts}]})
        assert (self.port == CONTROLLERS) == (api not in ("Metadata", "DescribeConfigs"))
        return self.replies(self.place, api, body)

    def close(self) -> None:
        """Nothing is open."""


def client(
    monkeypatch: pytest.MonkeyPatch, replies: Replies, synced: bool = False
) -> MetadataClient:
    """Return a client of n1; n2 has the active controller."""
    monkeypatch.setattr(
        kafka_metadata, "connection", lambda place, port: Scripted(place, port, replies)
    )
    monkeypatch.setattr(kafka_metadata, "TIMEOUT_MS", 50)
    return MetadataClient(PLACES[0], Cluster(PLACES, False), synced)


def op(f: str, key: Any, value: Any = None) -> Op:
    return Op(index=0, process=4, type=INVOKE, f=f, key=key, value=value, time=0)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer("ok", {"responses": [{"error_code": 0}]}), "ok"),
        (Answer("ok", {"responses": [{"error_code": errors.INVALID_CONFIG}]}), "fail"),
        (Answer("ok", {"responses": [{"error_code": errors.REQUEST_TIMED_OUT}]}), "info"),
        (Answer("ok", {"responses": [{"error_code": errors.NOT_CONTROLLER}]}), "info"),
        (Answer("ok", {"responses": []}), "info"),
        (Answer("refused", error="connection refused"), "fail"),
        (Answer("lost", error="timed out"), "info"),
    ],
)
def test_a_change_goes_to_the_active_controller_and_its_answer_decides(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, kind: str
) -> None:
    asked: list[str] = []

    def replies(place: Place, api: str, body: dict[str, Any]) -> Answer:
        asked.append(place.name)
        return answer

    assert client(monkeypatch, replies).invoke(op("write", 3, 17)).type == kind
    assert asked == ["n2"]


def test_an_element_that_is_a_topic_already_was_not_added() -> None:
    assert outcome(errors.TOPIC_ALREADY_EXISTS) == "fail"
    assert outcome(errors.NONE) == "ok"


def test_without_an_active_controller_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    made = client(monkeypatch, lambda *_: Answer("lost"))
    monkeypatch.setattr(kafka_metadata, "claims", lambda answer, node_id: False)
    told = made.invoke(op("add", "set", 3))
    assert (told.type, told.error) == ("fail", "no controller is active")


def brokers(shown: int) -> Replies:
    """A broker that shows the register 3 as 17, and every marker ``shown`` higher than it is."""
    marker = [""]

    def replies(place: Place, api: str, body: dict[str, Any]) -> Answer:
        (resource,) = body["resources"]
        if api == "IncrementalAlterConfigs":
            marker[0] = str(int(resource["configs"][0]["value"]) + shown)
            return Answer("ok", {"responses": [{"error_code": 0}]})
        (name,) = resource["configuration_keys"]
        value = "client_id=17" if name == "match" else marker[0]
        configs = [{"name": name, "value": value, "config_source": 1}]
        return Answer("ok", {"results": [{"error_code": 0, "configs": configs}]})

    return replies


def test_a_read_waits_for_the_marker_that_it_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client(monkeypatch, brokers(0), synced=True).invoke(op("read", 3)).value == 17
    late = client(monkeypatch, brokers(-1), synced=True).invoke(op("read", 3))
    assert (late.type, late.error) == ("fail", "n1 does not show the marker")
    assert client(monkeypatch, brokers(-1)).invoke(op("read", 3)).value == 17


# --- the jars ---------------------------------------------------------------------------


def test_missing_jars_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(release, "jar_folder", lambda: tmp_path)
    monkeypatch.setattr(apache_kafka, "find_java", lambda: "/usr/bin/java")
    with pytest.raises(OptionError, match=r"is not fetched: run make oracle$") as told:
        apache_kafka.ApacheKafka().fetch(lambda line: None)
    assert told.value.exit_code == BAD_ARGUMENTS


def test_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise release.OracleError("java is missing: apt-get install openjdk-17-jdk-headless")

    monkeypatch.setattr(apache_kafka, "find_java", missing)
    with pytest.raises(OptionError, match=r"^java is missing") as told:
        apache_kafka.ApacheKafka().fetch(lambda line: None)
    assert told.value.exit_code == BAD_ARGUMENTS


def test_a_jar_that_is_not_the_locked_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jar = release.Artefact("org.example", "thing", "1.0", "0" * 64)
    folder = tmp_path / "4.3.1"
    folder.mkdir()
    (folder / jar.file_name).write_bytes(b"another")
    monkeypatch.setattr(release, "jar_folder", lambda: folder)
    monkeypatch.setattr(release, "artefacts", lambda: [jar])
    monkeypatch.setattr(apache_kafka, "find_java", lambda: "/usr/bin/java")
    artefacts = apache_kafka.ApacheKafka().artefacts()
    with pytest.raises(ArtefactError, match="wrong checksum") as told:
        ArtefactCache(tmp_path / "cache").fetch_all(artefacts)
    assert told.value.exit_code == FAILED


def test_roles_are_one_process_or_two() -> None:
    combined = apache_kafka.ApacheKafka().processes(PLACES[0], PLACES)
    assert [process.name for process in combined] == [""]
    system = apache_kafka.ApacheKafka().configured(["roles=apart"])
    apart = system.processes(PLACES[0], PLACES)
    assert [process.name for process in apart] == ["", "controller"]
    texts = "".join(str(text) for process in apart for text in process.files.values())
    assert "controller.quorum.voters=101@10.0.0.1:9093,102@10.0.0.2:9093" in texts
    assert "process.roles=broker\n" in texts
    assert "process.roles=controller\n" in texts
