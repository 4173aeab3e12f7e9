"""Quorums of Apache Kafka's controllers and ours, and the tools of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.oracle.java import Ran, run_tool
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import Quorum
from kraftwreck.oracle.release import OracleError, class_path

Tool = Callable[..., Ran]


@pytest.fixture(scope="session")
def apache_kafka() -> None:
    """Fail if Apache Kafka is not fetched: these tests run only on request."""
    try:
        class_path()
    except OracleError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def tool(apache_kafka: None) -> Tool:
    """Run a tool of Apache Kafka; it must not complain."""

    def run(main_class: str, *arguments: str) -> Ran:
        ran = run_tool(main_class, *arguments)
        assert ran.status == 0, ran.stderr or ran.stdout
        return ran

    return run


@pytest.fixture(scope="module")
def make_quorum(
    apache_kafka: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Quorum]]:
    """Format a quorum of the kinds named; its processes end with the module."""
    quorums: list[Quorum] = []

    def make(*kinds: str, **options: Any) -> Quorum:
        directory: Path = tmp_path_factory.mktemp("quorum")
        quorum = Quorum(directory, kinds, free_ports(len(kinds)), **options)
        quorums.append(quorum)
        quorum.format()
        return quorum

    yield make
    for quorum in quorums:
        quorum.close()
