"""Every setting for nodes is one that nodes accept."""

from __future__ import annotations

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.options import RunOptions
from kraftwreck.nodes.log.uuids import from_text, is_usable
from kraftwreck.nodes.server.properties import server_config
from kraftwreck.systems.kraft.options import PRODUCE
from kraftwreck.systems.kraft.pace import pace, properties
from kraftwreck.systems.kraft.remote.settings import Settings, first_voters
from kraftwreck.systems.kraft.remote.settings import properties as node_properties
from kraftwreck.systems.kraft.system import SYSTEM

HOSTS = [Host(f"n{number}", number, f"10.0.0.{number}", "ssh-ed25519 key") for number in (1, 2, 3)]


def test_no_seed_draws_an_id_that_nodes_refuse() -> None:
    for seed in range(500):
        settings = Settings(seed=seed, dynamic=True)
        for drawn in (settings.cluster_id, *first_voters(HOSTS, settings).values()):
            assert is_usable(from_text(drawn)), f"seed {seed}: {drawn}"


def test_brokers_of_records_miss_each_other_before_a_fault_ends() -> None:
    for seed in range(50):
        chosen = pace(seed)
        settings = Settings(seed=seed, brokers=1, extra=properties(chosen))
        config = server_config(node_properties(HOSTS[2], HOSTS, settings))
        assert dict(config.numbers).items() >= chosen.items()
        assert chosen["replica_lag_time_max_ms"] <= 4_000
        told = SYSTEM.facts(RunOptions(workload=PRODUCE, seed=seed))
        assert told.items() >= chosen.items(), "checkers judge by them"
    assert "session_timeout_ms" not in SYSTEM.facts(RunOptions(workload="metadata"))
