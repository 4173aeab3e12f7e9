"""Vagrant for real with machines that have kernels of their own: libvirt's, emulated.

``make vagrant-test PROVIDER=libvirt`` runs this, for a quarter of an hour and more: it needs
neither KVM nor the internet, and nothing of it stays. Clocks are set by ``date`` in there; this
machine's own may be set by no process of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.harness.options import RunOptions
from kraftwreck.nemesis.plan import plan_faults
from tests.vagrant.apart import LIBVIRT
from tests.vagrant.rehearsal import SECONDS, User, lines, made_box, started, telling_seed

pytestmark = [pytest.mark.vagrant, pytest.mark.slow]

BOX = "kraftwreck/machine"
MACHINES = ("n1", "n2", "n3")
TOOLS = {
    "vagrant": "vagrant", "libvirtd": "libvirt-daemon", "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "dnsmasq": "dnsmasq-base",
    "dbus-daemon": "dbus-daemon", "mke2fs": "e2fsprogs", "mmdebstrap": "mmdebstrap",
}  # fmt: skip
SCRIPTS = ("machine.sh", "machine.rb", "systemd.sh", "debian.sh")
PATIENCE_S = 3600
OF_KERNELS = ("network", "squeeze")
ENVIRONMENT = {
    "VAGRANT_DEFAULT_PROVIDER": "libvirt",
    "KRAFTWRECK_BOX": BOX,
    "KRAFTWRECK_PATIENCE": "6",
}


@pytest.fixture(scope="module")
def box() -> Path:
    """The box of the machines, made when there is none or the recipe has changed."""
    return made_box("libvirt", TOOLS, SCRIPTS, "box")


def check_that_clocks_were_set(run: Path) -> None:
    """By date: on a machine of its own, where that was asked for, and put right in the end."""
    told = [
        host["machine"]
        for fault in lines(run / "faults.jsonl") if fault["kind"] == "clock"
        for host in fault["evidence"].values() if "machine" in host
    ]  # fmt: skip
    assert told, "no machine's clock was set"
    assert {each["means"] for each in told} == {"date"}
    most = max(abs(each["ahead_us"]) for each in told)
    print(f"vagrant-test: clocks set by date {len(told)} times, by up to {most / 1e6:.0f} s")
    assert most > 1_000_000


def seed_for_kernels() -> int:
    """The first seed by which packets are slowed down or lost for some time, memory is short and
    somebody is killed for want of it."""
    for seed in range(10_000):
        options = RunOptions(
            faults=OF_KERNELS, nodes=3, seed=seed, time_limit_s=SECONDS, style="timed"
        )
        planned = plan_faults(options, 0)
        shapes = {fault.shape for fault in planned}
        long = {fault.shape for fault in planned if fault.duration >= 5e9}
        if long & {"slow", "lossy"} and {"memory", "oom"} <= shapes:
            return seed
    raise AssertionError("no seed plans these faults")


def check_that_kernels_did_it(run: Path) -> None:
    """Packets by netem, memory by control groups of version 2: what containers here have not."""
    faults = lines(run / "faults.jsonl")
    assert not [fault["error"] for fault in faults if fault["error"]]
    told = [
        host["packets"]
        for fault in faults if fault["kind"] == "network"
        for host in fault["evidence"].values() if "packets" in host
    ]  # fmt: skip
    assert {each["means"] for each in told if "means" in each} == {"netem"}
    counts = [peer for each in told for peer in (each.get("before") or {}).values()]
    held = sum(peer.get("delayed", 0) for peer in counts)
    lost = sum(peer.get("lost", 0) for peer in counts)
    limits = [
        host
        for fault in faults if fault["shape"] == "memory" and fault["phase"] == "start"
        for host in fault["evidence"].values() if "limit" in host
    ]  # fmt: skip
    killed = sum(
        host.get("oom_kills", 0)
        for fault in faults if fault["shape"] in ("oom", "oom-leader")
        for host in fault["evidence"].values()
    )  # fmt: skip
    print(f"vagrant-test: by netem {held} packets held, {lost} lost; {len(limits)} memory limits,"
          f" {killed} killed for want of memory")  # fmt: skip
    assert held + lost > 0
    assert {each["means"] for each in limits} == {"cgroup v2"}
    assert killed > 0


def test_from_up_to_destroy(box: Path) -> None:
    """Three machines, what can be done to them, a run with faults, and nothing left."""
    with started(LIBVIRT) as apart:
        user = User(apart, ENVIRONMENT, PATIENCE_S)
        user.add_box(BOX, box)
        up = user.kraftwreck("cluster", "up", "-c", "vagrant", "--nodes", "3")
        assert [host["name"] for host in up["hosts"]] == list(MACHINES)

        # A kernel of their own has what this machine's may lack.
        found = user.kraftwreck("cluster", "doctor", "-c", "vagrant")["vagrant"]
        wanted = {"packets": "netem", "memory": "cgroup v2", "clock": "date"}
        means = {name: {kind: found[name]["means"][kind] for kind in wanted} for name in found}
        assert means == dict.fromkeys(MACHINES, wanted)

        check_that_clocks_were_set(user.run_with_faults(telling_seed(4, 15)))
        check_that_kernels_did_it(user.run_of(OF_KERNELS, seed_for_kernels()))
        # They ran before the run, so they run on.
        machines = user.kraftwreck("cluster", "status", "-c", "vagrant")["hosts"]
        assert {name: machines[name] for name in MACHINES} == dict.fromkeys(MACHINES, "running")

        user.looks_around(1)
        user.takes_down()
        for what in ("list", "net-list"):
            left = apart.run(["virsh", "-c", "qemu:///system", what, "--all", "--name"]).stdout
            assert not left.strip()
