"""Which node gets which roles, and what its configuration says."""

from __future__ import annotations

import pytest

from kraftwreck.harness.capabilities import MEMBERSHIP, MemberChange
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.options import RunOptions, repeat_command
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.harness.simulated.store import options_of
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.uuids import from_text
from kraftwreck.nodes.server.properties import server_config
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import Settings, first_voters, properties, roles
from kraftwreck.systems.kraft.system import SYSTEM


def hosts(count: int) -> list[Host]:
    return [Host(f"n{i}", i, f"10.77.0.{i}", "ssh-ed25519 AAAA") for i in range(1, count + 1)]


def test_brokers_follow_the_controllers() -> None:
    settings = Settings(seed=1, brokers=3)
    assert list(roles(hosts(6), settings).values()) == ["controller"] * 3 + ["broker"] * 3
    everybody = hosts(6)
    configs = [server_config(properties(host, everybody, settings)) for host in everybody]
    for config in configs:
        assert list(config.voters) == [1, 2, 3]
    assert configs[0].listeners == {"CONTROLLER": Endpoint("10.77.0.1", 9093)}
    assert configs[3].listeners == {"PLAINTEXT": Endpoint("10.77.0.4", 9092)}
    assert [(c.controller, c.broker) for c in configs[2:4]] == [(True, False), (False, True)]


def test_combined_nodes_listen_twice() -> None:
    settings = Settings(seed=1, combined=True)
    everybody = hosts(5)
    config = server_config(properties(everybody[4], everybody, settings))
    assert (config.controller, config.broker) == (True, True)
    assert config.listeners == {
        "CONTROLLER": Endpoint("10.77.0.5", 9093),
        "PLAINTEXT": Endpoint("10.77.0.5", 9092),
    }
    assert list(config.voters) == [1, 2, 3, 4, 5]


def test_controllers_alone_are_configured_as_ever() -> None:
    everybody = hosts(3)
    config = server_config(properties(everybody[0], everybody, Settings(seed=1)))
    assert (config.controller, config.broker) == (True, False)


def test_somebody_must_control() -> None:
    with pytest.raises(ValueError, match="3 hosts are too few for 3 brokers"):
        roles(hosts(3), Settings(seed=1, brokers=3))


def test_clients_reach_a_node_where_its_controller_is_if_it_has_one() -> None:
    deployment = Deployment(hosts(4), Settings(seed=1, brokers=1))
    assert deployment.controllers == ["n1", "n2", "n3"]
    assert deployment.brokers == ["n4"]
    assert deployment.address("n1") == ("10.77.0.1", 9093)
    assert deployment.address("n4") == ("10.77.0.4", 9092)
    assert deployment.broker_address("n4") == ("10.77.0.4", 9092)


def test_the_options_of_a_run_assign_roles() -> None:
    options = RunOptions(nodes=2, system_options=("brokers=1",))
    assert options.node_names == ("n1", "n2")
    layout = SYSTEM.layout(options)
    assert layout.roles == ("controller", "controller", "broker")
    assert layout.members(("n1", "n2", "n3")) == {
        "nodes": ["n1", "n2", "n3"],
        "electing": ["n1", "n2"],
        "roles": {"n1": "controller", "n2": "controller", "n3": "broker"},
        "controllers": ["n1", "n2"],
        "brokers": ["n3"],
    }
    assert " --nodes 2 --brokers 1 --seed 0 " in repeat_command(options)
    combined = RunOptions(nodes=2, system_options=("combined=yes",))
    assert SYSTEM.layout(combined).roles == ("controller,broker",) * 2
    assert " --nodes 2 --combined --seed 0 " in repeat_command(combined)
    static = RunOptions(nodes=4, system_options=("quorum=static",))
    assert " --nodes 4 --quorum static --seed 0 " in repeat_command(static)
    assert static.as_json()["system_options"] == ["quorum=static"]


def test_options_of_older_folders_are_fields_like_all_others() -> None:
    older = RunOptions(nodes=2).as_json() | {"brokers": 1, "combined": False, "quorum": "static"}
    del older["system_options"]
    assert options_of(older).system_options == ("brokers=1", "quorum=static")
    assert options_of(older | {"system": "etcd"}).system_options == ()


def test_a_dynamic_quorum_has_no_configured_voters() -> None:
    settings = Settings(seed=1, brokers=1, dynamic=True)
    everybody = hosts(5)
    for host in everybody:
        written = properties(host, everybody, settings)
        config = server_config(written)
        assert config.voters == {}
        assert config.bootstrap_servers == tuple(
            Endpoint(f"10.77.0.{i}", 9093) for i in (1, 2, 3, 4)
        )
        assert not config.write_loss


def test_all_controllers_or_three_of_them_vote_at_first() -> None:
    seen = set()
    for seed in range(20):
        voters = first_voters(hosts(6), Settings(seed=seed, brokers=1, dynamic=True))
        seen.add(tuple(voters))
        assert len({from_text(directory) for directory in voters.values()}) == len(voters)
    assert seen == {("n1", "n2", "n3"), ("n1", "n2", "n3", "n4", "n5")}


def test_write_loss_is_a_setting() -> None:
    settings = Settings(seed=1, write_loss=True)
    assert server_config(properties(hosts(3)[0], hosts(3), settings)).write_loss


def test_process_starts_are_counted_outside_of_the_disk() -> None:
    config = server_config(properties(hosts(3)[0], hosts(3), Settings(seed=1)))
    assert not config.incarnation_file.is_relative_to(config.log_dir)


def test_faults_that_the_deployment_is_not_made_for_are_refused() -> None:
    env = RemoteEnvironment(Deployment(hosts(3), Settings(seed=1)))
    assert env.offered().why_not(MEMBERSHIP) == "the quorum is static"
    with pytest.raises(RemoteError, match="deployed without write loss; add -n power"):
        env.cut_power("n1")
    with pytest.raises(RemoteError, match="a new disk would lose votes in a static quorum"):
        env.wipe("n1")
    with pytest.raises(RemoteError, match="its voters are fixed; add --quorum dynamic"):
        env.change_members([MemberChange("remove", "n1")])
    assert env.member_changes() == {"ended": [], "open": 0}
    env.close()


@pytest.mark.cluster
def test_every_node_gets_its_own_configuration(five: list[Host]) -> None:
    settings = Settings(seed=7, extra={"kraftwreck.extra": "x"})
    written = properties(five[1], five, settings)
    assert written["node.id"] == "2"
    assert written["listeners"] == f"CONTROLLER://{five[1].ip}:9093"
    assert written["controller.quorum.voters"] == ",".join(
        f"{number}@{host.ip}:9093" for number, host in enumerate(five, start=1)
    )
    assert written["kraftwreck.extra"] == "x"
    assert len(written["cluster.id"]) == 22
    assert written["cluster.id"] == Settings(seed=7).cluster_id != Settings(seed=8).cluster_id
