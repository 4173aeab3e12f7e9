"""The options of a run that its workload decides."""

from __future__ import annotations

from kraftwreck.harness.options import RunOptions
from kraftwreck.systems.kraft.options import PRODUCE, KraftOptions
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
