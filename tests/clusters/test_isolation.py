"""A namespace host is a machine of its own, and can do this machine no harm."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.kernel import CAPABILITIES
from kraftwreck.harness.clusters.node_root import KEPT_CAPABILITIES
from kraftwreck.harness.remote.session import Remote

pytestmark = pytest.mark.cluster


def test_each_host_has_its_own_address_and_name(
    five: list[Host], remotes: dict[str, Remote]
) -> None:
    for host in five:
        assert remotes[host.name].run(["hostname"]).text == host.name
        addresses = remotes[host.name].run(["ip", "-o", "-4", "addr", "show", "eth0"]).text
        assert f"inet {host.ip}/24" in addresses
    assert len({host.ip for host in five}) == 5
    assert len({host.host_key for host in five}) == 5
    assert socket.gethostname() not in {host.name for host in five}


def test_hosts_find_each_other_by_name(remotes: dict[str, Remote]) -> None:
    remotes["n1"].run(["bash", "-c", "exec 3<>/dev/tcp/n5/22"])


def test_each_host_sees_only_its_own_processes(remotes: dict[str, Remote]) -> None:
    with remotes["n1"].channel(["sh", "-c", "echo up; exec sleep 123.25"]) as channel:
        assert channel.recv(10) == b"up\n"
        in_n1 = remotes["n1"].run(["ps", "-eo", "args"]).text
        in_n2 = remotes["n2"].run(["ps", "-eo", "args"]).text
    assert "sleep 123.25" in in_n1
    assert "sleep 123.25" not in in_n2
    assert len(in_n2.splitlines()) < 15, "a host sees processes of this machine"


def test_writes_of_a_host_are_private(remotes: dict[str, Remote]) -> None:
    remotes["n1"].put(b"mine", "/opt/of-n1")
    remotes["n1"].run(["rm", "-f", "/etc/debian_version"])
    assert remotes["n1"].get("/opt/of-n1") == b"mine"
    assert remotes["n2"].run(["cat", "/opt/of-n1"], check=False).status == 1
    assert remotes["n2"].run(["test", "-e", "/etc/debian_version"], check=False).status == 0
    assert not Path("/opt/of-n1").exists()
    assert Path("/etc/debian_version").exists()


def test_the_end_of_a_host_waits_only_for_its_own_writes(remotes: dict[str, Remote]) -> None:
    """An overlay that is not volatile syncs the machine's whole file system when it ends."""
    release = [int(part) for part in os.uname().release.split(".")[:2]]
    if release < [5, 10]:
        pytest.skip("this kernel has no volatile overlays")
    for remote in remotes.values():
        mounts = remote.run(["cat", "/proc/mounts"]).text.splitlines()
        (root,) = [line.split() for line in mounts if line.split()[1] == "/"]
        assert root[2] == "overlay"
        assert {"volatile", "fsync=volatile"} & set(root[3].split(",")), (
            "newer kernels say the latter"
        )


def test_the_users_home_is_not_visible(remotes: dict[str, Remote]) -> None:
    assert remotes["n1"].run(["ls", "-A", "/root"]).text == ""


def capability_sets(status: str) -> dict[str, int]:
    lines = (line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))
    return {name: int(value, 16) for name, value in lines}


def test_capabilities_are_bounded_so_that_nobody_sets_the_clock(
    remotes: dict[str, Remote],
) -> None:
    """Read from the kernel's own account only; trying it would be the damage."""
    sets = capability_sets(remotes["n3"].run(["cat", "/proc/self/status"]).text)
    kept = sum(1 << CAPABILITIES[name] for name in KEPT_CAPABILITIES)
    for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"):
        assert sets[name] & ~kept == 0, f"{name} holds more than what is kept"
    for name in ("sys_time", "sys_module", "sys_rawio", "sys_boot", "sys_admin", "mknod"):
        assert not sets["CapBnd"] >> CAPABILITIES[name] & 1, name
    assert sets["CapEff"] >> CAPABILITIES["net_admin"] & 1, "nftables needs it"


def test_sshd_itself_is_bounded_too(remotes: dict[str, Remote]) -> None:
    sets = capability_sets(remotes["n3"].run(["cat", "/proc/1/status"]).text)
    assert not sets["CapBnd"] >> CAPABILITIES["sys_time"] & 1


def test_the_kernels_settings_are_read_only_but_for_the_hosts_network(
    remotes: dict[str, Remote],
) -> None:
    mounts = remotes["n1"].run(["cat", "/proc/self/mounts"]).text.splitlines()
    options = {line.split()[1]: line.split()[3].split(",")[0] for line in mounts}
    assert options["/proc/sys"] == "ro"
    assert options["/sys"] == "ro"
    assert options["/proc/sys/net"] == "rw"


def test_hosts_have_no_ipv6_around_the_dropped_addresses(remotes: dict[str, Remote]) -> None:
    assert remotes["n1"].run(["ip", "-6", "addr"]).text == ""


def test_interfaces_of_hosts_are_not_on_this_machine(remotes: dict[str, Remote]) -> None:
    ours = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not ours & {"br0", "p1", "p2"}
    assert set(remotes["n1"].run(["ls", "/sys/class/net"]).text.split()) == {"lo", "eth0"}
