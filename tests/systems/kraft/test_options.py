"""The options of a run that its workload decides."""

from __future__ import annotations

import pytest

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.systems.kraft.options import PRODUCE, KraftOptions
from kraftwreck.systems.kraft.system import SYSTEM


def test_records_get_brokers_unless_the_user_chooses_their_number() -> None:
    assert KraftOptions.of(RunOptions(workload="metadata")).brokers == 0
    assert KraftOptions.of(RunOptions(workload=PRODUCE)).brokers == 3
    assert KraftOptions.of(RunOptions(workload=PRODUCE, system_options=("brokers=2",))).brokers == 2


def test_records_on_combined_nodes_are_refused() -> None:
    options = RunOptions(workload=PRODUCE, system_options=("combined=yes",))
    with pytest.raises(OptionError, match="--brokers, not --combined"):
        KraftOptions.of(options)


def test_records_on_hosts_keep_their_power() -> None:
    """Hosts have no account of records that all their replicas lost legally."""
    assert set(SYSTEM.lacking(RunOptions(workload=PRODUCE))) == {"power", "hosts"}
    assert set(SYSTEM.lacking(RunOptions(workload="register"))) == set()
