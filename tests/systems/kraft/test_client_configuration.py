"""Properties of a user's librdkafka: what is refused before hosts are up, and what they allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.histories.operation import Op
from kraftwreck.systems.kraft import librdkafka
from kraftwreck.systems.kraft.librdkafka import DIALECT, UNSET, Librdkafka, RecordsClient, outcome
from kraftwreck.systems.kraft.options import PRODUCE, KraftOptions
from kraftwreck.systems.kraft.properties import read, risks
from kraftwreck.systems.kraft.simulated.simulator import SIMULATOR
from kraftwreck.systems.kraft.system import SYSTEM

SAFE = {"min.insync.replicas": "2"}


def facts(*own: str) -> dict[str, Any]:
    options = RunOptions(workload=PRODUCE, system_options=own)
    client: dict[str, Any] = SYSTEM.configured(own).facts(options)["client"]
    return client


def with_file(folder: Path, text: str, *own: str) -> tuple[str, ...]:
    file = folder / "mine.properties"
    file.write_text(text)
    return ("client=librdkafka", f"properties={file}", *own)


def test_comments_and_aliases_are_read(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("# of mine\n\n! too\n request.required.acks = 1 \nlinger.ms=5\n")
    assert read(file, DIALECT) == {"acks": "1", "linger.ms": "5"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("linger.ms=5\nacks\n", "line 2: 'acks' must be NAME=VALUE"),
        ("linger.ms=\\\n5\n", "must be NAME=VALUE on one line"),
        ("bootstrap.servers=other:9092\n", "line 1: leave bootstrap.servers out"),
        ("metadata.broker.list=other:9092\n", "leave metadata.broker.list out"),
        ("sasl.mechanism=PLAIN\n", "neither encryption nor authentication"),
        ("transactional.id=t\n", "the brokers have no transactions"),
        ("acks=1\nrequest.required.acks=all\n", "line 2: request.required.acks is given twice"),
        ("acks=0\n", "acks=0 acknowledges nothing"),
        ("no.such.property=1\n", "No such configuration property"),
        ("linger.ms=soon\n", "librdkafka refuses it"),
        ("acks=1\nenable.idempotence=true\n", "`acks` must be set to `all`"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(OptionError) as refused:
        SYSTEM.configured(with_file(tmp_path, text))
    assert why in str(refused.value)
    assert "mine.properties" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file"):
        read(tmp_path / "none", DIALECT)
    file = tmp_path / "bytes"
    file.write_bytes(b"acks=\xff")
    with pytest.raises(OptionError, match="not UTF-8"):
        read(file, DIALECT)


def test_without_the_library_nothing_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(librdkafka, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="pip install confluent-kafka"):
        SYSTEM.configured(with_file(tmp_path, "acks=1"))


def test_options_that_make_no_sense_together_are_refused() -> None:
    with pytest.raises(OptionError, match="add --client librdkafka"):
        SYSTEM.configured(("properties=p",))
    with pytest.raises(OptionError, match="for -w produce only"):
        KraftOptions.of(RunOptions(workload="metadata", system_options=("client=librdkafka",)))
    with pytest.raises(OptionError, match="works with --client own only"):
        SYSTEM.configured(("client=librdkafka", "commit-mode=quorum"))
    for own in ("client=librdkafka", "unclean=yes", "min-insync=1", "commit-mode=quorum"):
        with pytest.raises(OptionError, match="real hosts"):
            SIMULATOR.check(RunOptions(workload=PRODUCE, system_options=(own,)))


@pytest.mark.parametrize(
    ("client", "topics", "allowed"),
    [
        ({}, SAFE, {"duplicate", "nonmonotonic-send"}),
        ({"enable.idempotence": "true"}, SAFE, set()),
        ({"retries": "0"}, SAFE, set()),
        ({"max.in.flight.requests.per.connection": "1"}, SAFE, {"duplicate"}),
        ({"acks": "1", "retries": "0"}, SAFE, {"lost-write", "unseen"}),
        ({"retries": "0"}, {"min.insync.replicas": "1"}, {"lost-write", "unseen"}),
        (
            {"retries": "0"},
            {**SAFE, "unclean.leader.election.enable": "true"},
            {"lost-write", "unseen"},
        ),
    ],
)
def test_what_a_configuration_allows(
    client: dict[str, str], topics: dict[str, str], allowed: set[str]
) -> None:
    found = risks({**UNSET, **client}, topics)
    assert found.keys() & {"duplicate", "nonmonotonic-send", "lost-write", "unseen"} == allowed


def test_a_run_says_which_properties_it_had(tmp_path: Path) -> None:
    told = facts(*with_file(tmp_path, "acks=1\n", "min-insync=1", "unclean=yes"))
    assert told["properties"] == {"acks": "1"}
    assert told["defaults"]["delivery.timeout.ms"] == "10000"
    assert told["topics"] == {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    assert {"lost-write", "duplicate"} <= told["risks"].keys()
    assert facts()["name"] == "own"
    assert facts("min-insync=1")["risks"] == {}
    assert facts("commit-mode=quorum")["topics"]["commit.mode"] == "quorum"


class Refusal:
    """An error as librdkafka reports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


def test_a_send_fails_only_if_no_record_can_be_in_the_log() -> None:
    large, late = Refusal("MSG_SIZE_TOO_LARGE"), Refusal("_MSG_TIMED_OUT")
    acknowledged = outcome(7, [1, 2], {1: (None, 4), 2: (None, 5)})
    assert acknowledged.value == [["send", 7, [4, 1]], ["send", 7, [5, 2]]]
    assert outcome(7, [1], {1: (None, -1)}).value == [["send", 7, [None, 1]]]
    assert outcome(7, [1, 2], {1: (large, -1), 2: (large, -1)}).type == "fail"
    assert outcome(7, [1, 2], {1: (None, 4), 2: (large, -1)}).type == "info"
    assert outcome(7, [1], {1: (late, -1)}).type == "info"
    assert outcome(7, [1, 2], {1: (None, 4)}).type == "info"


class NoTopics(librdkafka.Topics):
    """Topics that exist already."""

    def __init__(self) -> None:
        pass

    def create(self, name: str) -> str:
        return ""


def test_an_assignment_does_not_poll_what_was_fetched_before_it() -> None:
    """A consumer of librdkafka may return records that it fetched for its last assignment."""
    client = RecordsClient(Librdkafka(None, {}, "any"), "127.0.0.1:1", NoTopics())
    assign = Op(index=0, process=0, type="invoke", f="assign", value=[4], time=0)
    assert client.invoke(assign).type == "ok"
    first = client._consumer
    client.invoke(assign)
    assert client._consumer is not first
    with pytest.raises(RuntimeError, match="closed"):
        first.poll(0)
    client.close()
