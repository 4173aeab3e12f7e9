"""The Vagrant provider: starts what does not run, pins what it meets, one line when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from kraftwreck.cli.main import status
from kraftwreck.harness.clusters.cluster import ClusterError, ClusterUnavailable, Host
from kraftwreck.harness.clusters.vagrant import VagrantCluster, parse_ssh_config
from kraftwreck.harness.remote.session import Remote


class Project(Protocol):
    """See conftest.py."""

    directory: Path

    def describe(self, machines: dict[str, dict[str, object]]) -> None: ...
    def machines(self) -> dict[str, dict[str, object]]: ...
    def calls(self) -> list[str]: ...


def refused(cluster: VagrantCluster) -> ClusterError:
    with pytest.raises(ClusterError) as caught:
        cluster.up()
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.cluster
class TestMachines:
    def test_machines_become_hosts_over_the_same_ssh_path(
        self, machines: Project, namespace_hosts: list[Host]
    ) -> None:
        three = VagrantCluster(3, machines.directory)
        hosts = three.up()
        assert [(h.name, h.node_id, h.ip) for h in hosts] == [
            (h.name, h.node_id, h.ip) for h in namespace_hosts
        ]
        assert [host.host_key for host in hosts] == [h.host_key for h in namespace_hosts]
        for host in hosts:
            assert Remote(host).run(["hostname"]).text == host.name
        assert three.heal()["n3"]["packets"] == 0

    def test_down_halts_only_machines_started_by_up(self, machines: Project) -> None:
        VagrantCluster(1, machines.directory).up()
        cluster = VagrantCluster(2, machines.directory)
        cluster.up()
        assert [call for call in machines.calls() if call.startswith("up")] == ["up n1", "up n2"]
        cluster.down()
        cluster.down()
        assert [call for call in machines.calls() if call.startswith("halt")] == ["halt n2"]
        assert machines.machines()["n1"]["state"] == "running"

    def test_attaching_starts_nothing(self, machines: Project) -> None:
        """Actions that heal or inspect machines use the running ones."""
        assert VagrantCluster(3, machines.directory).attach() == []
        VagrantCluster(1, machines.directory).up()
        (host,) = VagrantCluster(3, machines.directory).attach()
        assert (host.name, host.node_id) == ("n1", 1)
        assert [call for call in machines.calls() if call.startswith("up")] == ["up n1"]

    def test_state_is_where_vagrant_keeps_its_own(
        self, machines: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("VAGRANT_DOTFILE_PATH", str(tmp_path / "dot"))
        cluster = VagrantCluster(1, machines.directory)
        cluster.up()
        assert [file.name for file in (cluster.state / "kraftwreck").iterdir()] == ["n1.json"]
        assert not (machines.directory / ".vagrant").exists()

    def test_a_machine_is_asked_for_its_host_key_once(self, machines: Project) -> None:
        VagrantCluster(2, machines.directory).up()
        VagrantCluster(2, machines.directory).up()
        asked = [call for call in machines.calls() if call.startswith("ssh ")]
        assert [call.split()[1] for call in asked] == ["n1", "n2"]

    def test_the_same_machine_with_another_host_key_is_refused(
        self, machines: Project, namespace_hosts: list[Host]
    ) -> None:
        VagrantCluster(2, machines.directory).up()
        state = machines.machines()
        state["n2"]["address"] = namespace_hosts[2].ip
        machines.describe(state)
        message = str(refused(VagrantCluster(2, machines.directory)))
        assert message.startswith("n2: SSH to root@")
        assert "is not the pinned" in message

    def test_a_new_machine_gets_a_new_pinned_key(
        self, machines: Project, namespace_hosts: list[Host]
    ) -> None:
        VagrantCluster(1, machines.directory).up()
        state = machines.machines()
        other = namespace_hosts[2]
        state["n1"]["address"] = other.ip
        state["n1"]["said"] = f"{other.ip}\n{other.host_key} root@n1"
        machines.describe(state)
        (machines.directory / ".vagrant/machines/n1/virtualbox/id").write_text("another")
        (host,) = VagrantCluster(1, machines.directory).up()
        assert host.host_key == other.host_key

    def test_an_unprovisioned_machine_is_one_line(self, machines: Project) -> None:
        state = machines.machines()
        state["n1"]["said"] = "cat: /etc/kraftwreck/address: No such file or directory"
        machines.describe(state)
        assert str(refused(VagrantCluster(1, machines.directory))) == (
            "machine n1 has no /etc/kraftwreck/address: run `vagrant provision n1`"
        )


def test_without_vagrant_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused(VagrantCluster(5))
    assert isinstance(error, ClusterUnavailable)
    assert str(error) == "vagrant is missing: apt-get install vagrant"
    assert error.exit_code == 254


def test_vagrants_complaint_is_passed_on_in_one_line(project: Project) -> None:
    project.describe({})
    (project.directory / "broken").write_text("VMNotRunning")
    assert str(refused(VagrantCluster(1, project.directory))) == (
        "`vagrant status --machine-readable` gave status 1: No provider, sorry."
    )


def test_without_a_provider_the_error_names_the_package_to_install(project: Project) -> None:
    project.describe({})
    (project.directory / "broken").write_text("NoDefaultProvider")
    error = refused(VagrantCluster(1, project.directory))
    assert isinstance(error, ClusterUnavailable)
    assert str(error).startswith("vagrant has no provider here: apt-get install ")


def test_more_nodes_than_machines_is_one_line(project: Project) -> None:
    project.describe({"n1": {"state": "running"}, "n2": {"state": "running"}})
    error = refused(VagrantCluster(5, project.directory))
    assert str(error).endswith("has no machine n3: it has n1, n2")
    assert error.exit_code == 254


def test_a_folder_without_a_vagrantfile_is_one_line(project: Project) -> None:
    (project.directory / "Vagrantfile").unlink()
    assert "there is no Vagrantfile in" in str(refused(VagrantCluster(1, project.directory)))


class TestCommand:
    """``kraftwreck cluster … -c vagrant``, of two machines that do not run."""

    @pytest.fixture
    def run(
        self,
        project: Project,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> Callable[..., tuple[object, str]]:
        """Returns exit code and messages of a command."""
        machine = {"state": "poweroff", "address": "192.0.2.1", "user": "u", "port": 22, "key": "k"}
        project.describe({"n1": machine, "n2": machine})
        monkeypatch.setattr(
            "kraftwreck.cli.cluster.choose_cluster", lambda _: VagrantCluster(2, project.directory)
        )

        def command(*words: str) -> tuple[object, str]:
            code = status(["cluster", *words, "-c", "vagrant"])
            return code, capfd.readouterr().err

        return command

    def test_status_shows_every_machine(self, run: Callable[..., tuple[object, str]]) -> None:
        assert run("status") == (0, "n1  poweroff\nn2  poweroff\n")

    def test_down_halts_all(self, run: Callable[..., tuple[object, str]], project: Project) -> None:
        assert run("down")[0] == 0
        assert project.calls() == ["halt"]

    def test_healing_and_looking_start_nothing(
        self, run: Callable[..., tuple[object, str]], project: Project
    ) -> None:
        assert run("heal") == (0, "nothing to heal\n")
        assert run("doctor") == (
            254, "kraftwreck cluster doctor: no machine is running; start them with "
            "kraftwreck cluster up -c vagrant\n",
        )  # fmt: skip
        assert {call.split()[0] for call in project.calls()} == {"status"}


def test_the_config_of_another_machine_is_not_taken_for_this_ones() -> None:
    text = "Host n2\n  HostName 127.0.0.1\n  User vagrant\n  Port 2200\n  IdentityFile /k\n"
    assert parse_ssh_config(text, "n2")["port"] == "2200"
    with pytest.raises(ClusterError, match="does not list n1: is it running"):
        parse_ssh_config(text, "n1")
