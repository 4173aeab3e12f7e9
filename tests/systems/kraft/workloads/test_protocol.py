"""Workloads of KRaft run on no system of another protocol."""

from __future__ import annotations

import pytest

from kraftwreck.harness.options import OptionError
from kraftwreck.systems import registry


@pytest.mark.parametrize("name", ["metadata", "leader", "produce"])
def test_workload_of_kraft_is_refused_on_another_system(name: str) -> None:
    with pytest.raises(OptionError, match="its clients speak Kafka"):
        registry.workload_of(registry.find("raft"), name)
