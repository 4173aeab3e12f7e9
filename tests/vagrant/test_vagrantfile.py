"""The Vagrantfile is valid, describes the five machines, and provisions them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

needs_vagrant = pytest.mark.skipif(
    shutil.which("vagrant") is None, reason="vagrant is missing: apt-get install vagrant"
)


def validate(directory: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run ``vagrant validate`` on a copy, so that nothing of it stays in the project."""
    return subprocess.run(
        ["vagrant", "validate", "--ignore-provider"],
        cwd=directory, capture_output=True, text=True, check=False,
        env={**os.environ, "VAGRANT_HOME": str(home), "VAGRANT_CHECKPOINT_DISABLE": "1"},
    )  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    shutil.copytree(ROOT / "vagrant", directory / "vagrant")
    shutil.copy(ROOT / "Vagrantfile", directory)
    return directory


@needs_vagrant
def test_it_is_valid(copy: Path, tmp_path: Path) -> None:
    done = validate(copy, tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert "Vagrantfile validated successfully" in done.stdout
    assert set(re.findall(r"==> (n\d)", done.stdout)) == {"n1", "n2", "n3", "n4", "n5"}


@needs_vagrant
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"private_network"', '"privat_network"', "privat_network"),
        ('path: "vagrant/provision.sh"', 'path: "vagrant/missing.sh"', "missing.sh"),
        ("config.vm.boot_timeout", "config.vm.boot_timout", "boot_timout"),
    ],
)
def test_a_broken_copy_is_invalid(
    copy: Path, tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    text = (copy / "Vagrantfile").read_text()
    assert right in text
    (copy / "Vagrantfile").write_text(text.replace(right, wrong))
    done = validate(copy, tmp_path / "home")
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_the_box_is_debian_12_and_nothing_is_shared() -> None:
    text = (ROOT / "Vagrantfile").read_text()
    assert '"debian/bookworm64"' in text
    # Docker takes no mask in dotted form, and the others default to it.
    assert "netmask" not in text
    assert 'synced_folder ".", "/vagrant", disabled: true' in text


def test_provisioning_is_valid_shell_and_installs_what_the_harness_needs() -> None:
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

    from harness.clusters.cluster import Host
    from harness.remote.session import Remote

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
