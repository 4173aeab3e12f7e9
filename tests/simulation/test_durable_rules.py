"""D1: a replica takes nothing for durable before its disk has said so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.partition import Partition
from tests.simulation.test_record_rules import fail_unless_broken

pytestmark = pytest.mark.interpreted


@pytest.mark.many_runs
def test_a_log_that_was_opened_is_not_durable_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page cache of a killed process survives it, but no loss of power."""
    opened = Partition.opened

    def planted(self: Partition, event: LogOpened) -> None:
        opened(self, replace(event, durable_end=event.end_offset))

    monkeypatch.setattr(Partition, "opened", planted)
    fail_unless_broken("D1")
