"""Vagrant for real with machines that have kernels of their own: libvirt's, emulated.

``make vagrant-test PROVIDER=libvirt`` runs this, for a quarter of an hour and more: it needs
neither KVM nor the internet, and nothing of it stays. Clocks are set by ``date`` in there; this
machine's own may be set by no process of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vagrant.apart import CAP_SYS_TIME, LIBVIRT, Apart, ApartError, networks, sweep
from tests.vagrant.leftovers import ROOT, seen
from tests.vagrant.rehearsal import (
    BUILD,
    FAULTS,
    KRAFTWRECK,
    SECONDS,
    Clock,
    Step,
    User,
    check_that_faults_bit,
    lines,
    made_box,
    telling_seed,
)

pytestmark = [pytest.mark.vagrant, pytest.mark.slow]

BOX = "kraftwreck/machine"
MACHINES = ("n1", "n2", "n3")
TOOLS = {
    "vagrant": "vagrant", "libvirtd": "libvirt-daemon", "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "dnsmasq": "dnsmasq-base",
    "dbus-daemon": "dbus-daemon", "mke2fs": "e2fsprogs", "mmdebstrap": "mmdebstrap",
}  # fmt: skip
PATIENCE_S = 3600
ENVIRONMENT = {
    "VAGRANT_DEFAULT_PROVIDER": "libvirt",
    "KRAFTWRECK_BOX": BOX,
    "KRAFTWRECK_PATIENCE": "6",
}


@pytest.fixture(scope="module")
def box() -> Path:
    """The box of the machines, made when there is none or the recipe has changed."""
    scripts = [ROOT / "vagrant/rehearsal" / name for name in ("machine.sh", "machine.rb")]
    recipe = [*scripts, ROOT / "vagrant/rehearsal/debian.sh", ROOT / "vagrant/docker/vagrant.pub"]
    packages = re.search(
        r"^packages=.*$", (ROOT / "vagrant/provision.sh").read_text(), re.MULTILINE
    )
    assert packages is not None
    text = b"".join(file.read_bytes() for file in recipe) + packages[0].encode()
    return made_box("libvirt", TOOLS, scripts[0], text, "box")


@contextlib.contextmanager
def daemon(directory: Path) -> Iterator[Apart]:
    """A daemon without machines; nothing of it stays. Skips where it is refused."""
    sweep(BUILD)
    there = Apart(directory, LIBVIRT)
    try:
        with Step("daemon started"):
            there.start()
        yield there
    except ApartError as error:
        pytest.skip(f"virtual machines are refused here: {error}")
    finally:
        there.stop()
        shutil.rmtree(there.directory, ignore_errors=True)


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


def test_from_up_to_destroy(box: Path) -> None:
    """Three machines, what can be done to them, a run with faults, and nothing left."""
    directory = BUILD / f"apart-{os.getpid()}"
    before, clock = seen(directory), Clock()
    began = time.monotonic()
    with daemon(directory) as apart:
        user = User(apart, ENVIRONMENT, PATIENCE_S)
        user.does("vagrant", "box", "add", "--name", BOX, str(box))
        up = user.kraftwreck("cluster", "up", "-c", "vagrant", "--nodes", "3")
        assert [host["name"] for host in up["hosts"]] == list(MACHINES)

        # A kernel of their own has what this machine's may lack.
        found = user.kraftwreck("cluster", "doctor", "-c", "vagrant")["vagrant"]
        wanted = {"packets": "netem", "memory": "cgroup v2", "clock": "date"}
        means = {name: {kind: found[name]["means"][kind] for kind in wanted} for name in found}
        assert means == dict.fromkeys(MACHINES, wanted)

        verdict = user.kraftwreck(
            "run", "-c", "vagrant", "--nodes", "3", "-n", ",".join(FAULTS),
            "-t", str(SECONDS), "--seed", str(telling_seed(4, 15)), "--store", str(user.store),
        )  # fmt: skip
        assert verdict["valid"] is True
        assert not verdict["errors"]
        run = Path(verdict["run"])
        check_that_faults_bit(run)
        check_that_clocks_were_set(run)
        assert (run / "report.html").stat().st_size > 0
        print(f"vagrant-test: report: {run / 'report.html'}")

        # They ran before the run, so they run on.
        machines = user.kraftwreck("cluster", "status", "-c", "vagrant")["hosts"]
        assert {name: machines[name] for name in MACHINES} == dict.fromkeys(MACHINES, "running")

        unbound = [pid for pid, may in apart.capabilities().items() if may >> CAP_SYS_TIME & 1]
        assert not unbound, "a process of an emulator might set this machine's clock"
        networks_there = apart.namespaces()

        user.does(*KRAFTWRECK, "cluster", "down", "-c", "vagrant")
        user.does("vagrant", "destroy", "--force")
        for what in ("list", "net-list"):
            left = apart.run(["virsh", "-c", "qemu:///system", what, "--all", "--name"]).stdout
            assert not left.strip()
    print(f"vagrant-test: all of it: {time.monotonic() - began:.1f} s, without making the box")

    assert seen(directory) - before == set()
    everybody = {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}
    assert not networks(everybody) & networks_there
    assert clock.moved() < 0.5, "this machine's clock was set"
