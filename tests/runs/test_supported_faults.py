"""Faults of a run: those that were named are refused, the default ones are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kraftwreck.harness.capabilities import PACKETS
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.runs.place import check_faults, supported_faults
from kraftwreck.systems import registry


class Switch:
    """A system of which faults can only drop packets."""

    name = "switch"
    offers = (PACKETS,)

    def lacking(self, options: RunOptions) -> Mapping[str, str]:
        return {"processes": "its programs are not ours"}


@pytest.fixture(autouse=True)
def switch(monkeypatch: pytest.MonkeyPatch) -> None:
    find = registry.find

    def found(name: str) -> Any:
        return Switch() if name == "switch" else find(name)

    monkeypatch.setattr(registry, "find", found)


def test_a_named_fault_is_refused_with_the_reason_of_the_system() -> None:
    with pytest.raises(OptionError) as refused:
        check_faults(RunOptions(system="switch", cluster="vagrant", faults=("partition", "kill")))
    assert str(refused.value) == (
        "switch does not support the fault 'kill': its programs are not ours"
    )


def test_default_faults_are_left_out_where_they_cannot_act() -> None:
    assert supported_faults(RunOptions(system="switch", cluster="vagrant")) == ("partition",)
    assert supported_faults(RunOptions(cluster="vagrant")) == RunOptions().faults
