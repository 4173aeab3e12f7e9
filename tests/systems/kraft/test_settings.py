"""Every setting for nodes is one that nodes accept."""

from __future__ import annotations

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.nodes.log.uuids import from_text, is_usable
from kraftwreck.systems.kraft.remote.settings import Settings, first_voters

HOSTS = [Host(f"n{number}", number, f"10.0.0.{number}", "ssh-ed25519 key") for number in (1, 2, 3)]


def test_no_seed_draws_an_id_that_nodes_refuse() -> None:
    for seed in range(500):
        settings = Settings(seed=seed, dynamic=True)
        for drawn in (settings.cluster_id, *first_voters(HOSTS, settings).values()):
            assert is_usable(from_text(drawn)), f"seed {seed}: {drawn}"
