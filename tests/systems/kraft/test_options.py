"""The options of a run that its workload decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.systems.campaign import ALL
from kraftwreck.systems.kraft.options import PRODUCE, Draws, KraftOptions
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from kraftwreck.systems.kraft.system import SYSTEM


def test_records_get_brokers_unless_the_user_chooses_their_number() -> None:
    assert KraftOptions.of(RunOptions(workload="metadata")).brokers == 0
    assert KraftOptions.of(RunOptions(workload=PRODUCE)).brokers == 3
    assert KraftOptions.of(RunOptions(workload=PRODUCE, system_options=("brokers=2",))).brokers == 2


def test_records_on_combined_nodes_need_no_other_brokers() -> None:
    options = RunOptions(workload=PRODUCE, nodes=3, system_options=("combined=yes",))
    own = KraftOptions.of(options)
    assert (own.brokers, own.serving(3)) == (0, 3)
    layout = own.layout(3)
    assert layout.others == 0
    assert layout.gateways(("n1", "n2", "n3")) == ("n1/broker", "n2/broker", "n3/broker")


def test_gateways_are_the_brokers_beside_the_controllers() -> None:
    layout = KraftOptions(brokers=2).layout(1)
    assert layout.gateways(("n1", "n2", "n3")) == ("n2", "n3")


def test_records_on_hosts_keep_their_power() -> None:
    """Hosts have no account of records that all their replicas lost legally."""
    assert set(SYSTEM.lacking(RunOptions(workload=PRODUCE))) == {"power", "hosts"}
    assert set(SYSTEM.lacking(RunOptions(workload="register"))) == set()


def test_nodes_in_shells_store_no_records() -> None:
    with pytest.raises(OptionError, match="--shells works without records only"):
        Draws.parsed(("shells=yes", "records=yes"))
    shells = KraftCampaign(system="kraft", workload=PRODUCE, system_options=("shells=yes",))
    with pytest.raises(OptionError, match="leave --shells out"):
        shells.options(1)
    all_workloads = replace(shells, workload=ALL)
    assert all(all_workloads.options(seed).workload != PRODUCE for seed in range(60))


def test_without_brokers_nothing_is_produced() -> None:
    lonely = KraftCampaign(system="kraft", workload=PRODUCE, system_options=("brokers=0",))
    with pytest.raises(OptionError, match="-w produce needs brokers; leave --brokers 0 out"):
        lonely.options(1)
    all_workloads = replace(lonely, workload=ALL)
    assert all(all_workloads.options(seed).workload != PRODUCE for seed in range(60))
