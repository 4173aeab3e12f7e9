"""The Vagrantfile is valid, describes the five machines, and provisions them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLUGIN = Path("/usr/share/vagrant-plugins/plugins.d/vagrant-lxc.json")

needs_vagrant = pytest.mark.skipif(
    shutil.which("vagrant") is None, reason="vagrant is missing: apt-get install vagrant"
)


def whole(value: str) -> Any:
    """Return a parameter that ``make test`` leaves out: Vagrant needs four CPU seconds for it."""
    return pytest.param(value, marks=pytest.mark.whole_run)


def validate(
    directory: Path, home: Path, provider: str = "docker"
) -> subprocess.CompletedProcess[str]:
    """Run ``vagrant validate`` on a copy, so that nothing of it stays in the project.

    Only the Vagrantfile's overrides for the provider count, not its provider settings.
    """
    return subprocess.run(
        ["vagrant", "validate", "--ignore-provider"],
        cwd=directory, capture_output=True, text=True, check=False,
        env={
            **os.environ, "VAGRANT_HOME": str(home), "VAGRANT_CHECKPOINT_DISABLE": "1",
            "VAGRANT_DEFAULT_PROVIDER": provider,
        },
    )  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    shutil.copytree(ROOT / "vagrant", directory / "vagrant")
    shutil.copy(ROOT / "Vagrantfile", directory)
    return directory


@needs_vagrant
@pytest.mark.slow
@pytest.mark.parametrize("provider", ["docker", *map(whole, ["virtualbox", "lxc"])])
def test_it_is_valid(copy: Path, tmp_path: Path, provider: str) -> None:
    if provider == "lxc" and not PLUGIN.exists():
        pytest.skip("vagrant-lxc is missing: apt-get install vagrant-lxc")
    done = validate(copy, tmp_path / "home", provider)
    assert done.returncode == 0, done.stderr
    assert "Vagrantfile validated successfully" in done.stdout
    assert set(re.findall(r"==> (n\d)", done.stdout)) == {"n1", "n2", "n3", "n4", "n5"}


@needs_vagrant
@pytest.mark.slow
def test_each_mistake_in_a_copy_is_named(copy: Path, tmp_path: Path) -> None:
    text = (copy / "Vagrantfile").read_text()
    for right, wrong in (
        ('"private_network"', '"privat_network"'),
        ('path: "vagrant/provision.sh"', 'path: "vagrant/missing.sh"'),
        ("config.vm.boot_timeout", "config.vm.boot_timout"),
    ):
        assert right in text
        text = text.replace(right, wrong)
    (copy / "Vagrantfile").write_text(text)
    done = validate(copy, tmp_path / "home")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "privat_network" in said
    assert "vagrant/missing.sh" in said
    assert "boot_timout" in said


def test_the_box_is_debian_12_and_nothing_is_shared() -> None:
    text = (ROOT / "Vagrantfile").read_text()
    assert '"debian/bookworm64"' in text
    # Docker takes no mask in dotted form, and the others default to it.
    assert "netmask" not in text
    assert 'synced_folder ".", "/vagrant", disabled: true' in text


def test_containers_may_do_no_more_than_nodes_need() -> None:
    text = (ROOT / "Vagrantfile").read_text()
    assert re.findall(r"--cap-add=(\w+)", text) == ["NET_ADMIN"]
    assert "--privileged" not in text
    kept = re.search(r'"cap.keep", ((?:"[^"]*"[\s\\]*)+)', text)
    assert kept is not None
    names = set("".join(re.findall(r'"([^"]*)"', kept[1])).split())
    assert "net_admin" in names
    assert {name for name in names if name.startswith("sys_")} == {"sys_chroot"}
    assert not names & {"mknod", "bpf", "perfmon", "dac_read_search", "mac_admin", "syslog"}
    assert '["apparmor.allow_nesting", "0"]' in text, "it shows all of /proc, to be written"


@pytest.mark.skipif(shutil.which("ruby") is None, reason="ruby is missing: apt-get install ruby")
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces of its own need root")
def test_a_bridge_is_there_as_long_as_a_container_is(tmp_path: Path) -> None:
    """The command is the one that LXC gets, which a shell reads, in a folder with a hard name."""
    directory = tmp_path / "it's $HOME"
    shutil.copytree(ROOT / "vagrant", directory / "vagrant")
    shutil.copy(ROOT / "Vagrantfile", directory)
    evaluate = "module Vagrant; def self.configure(_) end; end; load ARGV[0]; puts HOOK"
    hook = subprocess.run(
        ["ruby", "-e", evaluate, directory / "Vagrantfile"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    script = f"""
        set -e
        bridge() {{ ip -brief -4 address show dev kraftwreck0; }}
        for each in n1 n2; do
            ( exec {hook} $each lxc pre-start )
            ip link add $each type veth peer name peer-$each
            ip link set $each master kraftwreck0
        done
        bridge
        ip link delete n1
        ( exec {hook} n1 lxc post-stop )
        bridge
        ip link delete n2
        ( exec {hook} n2 lxc post-stop )
        ! bridge 2>/dev/null
    """
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[::2] for line in done.stdout.splitlines()] == [
        ["kraftwreck0", "192.168.56.1/24"]
    ] * 2


def test_provisioning_is_valid_shell_and_installs_the_requirements() -> None:
    script = ROOT / "vagrant/provision.sh"
    subprocess.run(["sh", "-n", script], check=True)
    assert os.access(script, os.X_OK)
    packages = re.search(r'^packages="([^"]+)"', script.read_text(), re.MULTILINE)
    assert packages is not None
    assert {"python3", "nftables", "openssh-server", "sudo", "tar"} <= set(packages[1].split())
    # Debian's own keeper of the time would set right at once what a fault puts wrong.
    assert "systemctl disable --quiet --now systemd-timesyncd" in script.read_text()


@pytest.mark.cluster
def test_provisioning_makes_a_host_and_may_be_repeated(
    namespace_hosts: list[object],
) -> None:
    from typing import cast

    from kraftwreck.harness.clusters.cluster import Host
    from kraftwreck.harness.remote.session import Remote

    host = cast(Host, namespace_hosts[1])
    remote = Remote(host)
    remote.put((ROOT / "vagrant/provision.sh").read_bytes(), "/tmp/provision.sh", mode=0o755)
    remote.run(["sh", "-c", "printf '127.0.%d.1 n2\\n' 1 2 >>/etc/hosts"])
    # No package archive is reachable from there.
    remote.put(b"#!/bin/sh\necho $* >>/tmp/apt-calls\n", "/usr/local/bin/apt-get", mode=0o755)
    remote.run(["touch", "/tmp/apt-calls"])
    for _ in range(2):
        remote.run(["/tmp/provision.sh", "n2", host.ip, "n1=192.0.2.1", f"n2={host.ip}"])
    assert remote.get("/etc/kraftwreck/address").decode() == f"{host.ip}\n"
    hosts = remote.get("/etc/hosts").decode()
    assert hosts.count(f"{host.ip} n2 # kraftwreck") == 1
    assert "127.0.1.1" not in hosts, "Debian's"
    assert "127.0.2.1" not in hosts, "Vagrant's"
    assert "MaxSessions 100" in remote.get("/etc/ssh/sshd_config.d/kraftwreck.conf").decode()
    asked_for = set(remote.get("/tmp/apt-calls").decode().split())
    assert not asked_for & {"python3", "nftables", "openssh-server"}, "they are there already"
    remote.close()
