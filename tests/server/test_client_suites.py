"""The suites of other clients: what their tests need, and the page about them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.suites import sources
from bench.suites.__main__ import SUITES
from bench.suites.outcomes import Outcome, Sent, load, merge, needs, requests
from bench.suites.page import PAGE, RESULTS, is_due, page
from bench.suites.sources import KAFKA_PYTHON, Source, check, unpacked


def line(at: int, api: str, **body: Any) -> str:
    told = {"requestHeader": {"requestApiKeyName": api}, "request": body}
    return f"{at} Completed request:{json.dumps(told)}"


def test_requests_say_what_a_test_needs() -> None:
    sent = list(
        requests(
            [
                "not a request",
                line(1000, "METADATA"),
                line(2000, "JOIN_GROUP"),
                line(3000, "PRODUCE", transactionalId=None),
                line(4000, "INIT_PRODUCER_ID", transactionalId="t"),
                line(9000, "DESCRIBE_ACLS"),
            ]
        )
    )
    assert [each.need for each in sent] == [None, "groups", None, "transactions", "ACLs"]
    assert needs(Outcome("t", "passed", 1.5, 4.5), sent) == ["groups", "transactions"]
    assert needs(Outcome("t", "passed", 2.5, 3.5), sent) == []


def test_a_second_run_replaces_what_its_side_said() -> None:
    rows: dict[str, dict[str, Any]] = {}
    merge(rows, "kafka", [Outcome("t", "passed", 0, 1)], [Sent(0.5, "METADATA", None)])
    assert is_due(rows["t"])
    merge(rows, "ours", [Outcome("t", "failed", 0, 1, "why")], [])
    assert rows["t"]["ours said"] == "why"
    merge(rows, "ours", [Outcome("t", "passed", 0, 1)], [])
    assert rows["t"] == {"test": "t", "kafka": "passed", "ours": "passed", "needs": []}


@pytest.mark.parametrize("row", [{"kafka": "failed"}, {"kafka": "passed", "needs": ["groups"]}])
def test_other_tests_are_not_due(row: dict[str, Any]) -> None:
    assert not is_due(row)


def test_a_source_is_fetched_and_unpacked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suite-1").mkdir()
    (tmp_path / "suite-1" / "test.py").write_text("test")
    with tarfile.open(tmp_path / "suite-1.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "suite-1", "suite-1")
    data = (tmp_path / "suite-1.tar.gz").read_bytes()
    fetched: list[str] = []

    def fetch(source: Source, folder: Path) -> None:
        fetched.append(source.name)
        (folder / source.archive).write_bytes(data)

    made = replace(KAFKA_PYTHON, archive="suite-1.tar.gz", folder="suite-1", fetch=fetch)
    made = replace(made, sha256=hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(sources, "FOLDER", tmp_path / "unpacked")
    for _ in range(2):
        assert (unpacked(made) / "test.py").read_text() == "test"
    assert fetched == [KAFKA_PYTHON.name]


def test_a_missing_tool_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"^apt-get is missing"):
        sources.LIBRDKAFKA.fetch(sources.LIBRDKAFKA, tmp_path)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / KAFKA_PYTHON.archive
    archive.write_bytes(b"something else")
    with pytest.raises(SystemExit, match=KAFKA_PYTHON.sha256):
        check(archive, KAFKA_PYTHON)


def test_the_page_is_made_of_the_records() -> None:
    made = page({name: load(RESULTS / f"{name}.jsonl") for name in SUITES})
    assert PAGE.read_text() == made, "run python -m bench.suites kafka-python --page"
