"""Logs that tests of partitions open are closed again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.log.partition.batches import close_logs


@pytest.fixture(autouse=True)
def closed_logs() -> Iterator[None]:
    """Close the logs of a test when it is over."""
    yield
    close_logs()
