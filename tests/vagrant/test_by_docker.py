"""Vagrant for real, from ``up`` to ``destroy``: machines are containers of a daemon of our own.

``make vagrant-test`` runs this. Nothing but the Debian archive is needed, and what is made on
the way (containers, bridges, rules, files) is gone afterwards. The machines share this kernel
and so its clock, which nobody in there may set: the fault ``clock`` is that of the preloaded
library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vagrant.apart import CAP_SYS_TIME, Apart, ApartError, networks, sweep
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
    last_line,
    made_box,
    telling_seed,
)

pytestmark = [pytest.mark.vagrant, pytest.mark.slow]

IMAGE = "kraftwreck/debian12"
COMMAND = "ssh-keygen -A && mkdir -p /run/sshd && exec /usr/sbin/sshd -D"
SCRIPTS = ("rehearsal/box.sh", "rehearsal/debian.sh")
TOOLS = {"vagrant": "vagrant", "dockerd": "docker.io", "mmdebstrap": "mmdebstrap"}


@pytest.fixture(scope="module")
def box() -> Path:
    """The image of the machines, made when there is none or the recipe has changed."""
    recipe = [ROOT / "vagrant" / name for name in (*SCRIPTS, "provision.sh")]
    recipe.append(ROOT / "vagrant/docker/vagrant.pub")
    text = b"".join(file.read_bytes() for file in recipe)
    return made_box("docker", TOOLS, recipe[0], text, "tar")


@contextlib.contextmanager
def daemon(directory: Path, box: Path) -> Iterator[Apart]:
    """A daemon that has the image; nothing of it stays. Skips where containers are refused."""
    sweep(BUILD)
    there = Apart(directory)
    try:
        with Step("daemon started, image read"):
            there.start()
            change = [
                option
                for text in (f"CMD {json.dumps(['/bin/sh', '-c', COMMAND])}", "EXPOSE 22")
                for option in ("--change", text)
            ]
            read = there.run(["docker", "import", *change, box, IMAGE])
        if read.returncode != 0:
            pytest.skip(f"containers are refused here: {last_line(read)}")
        yield there
    except ApartError as error:
        pytest.skip(f"containers are refused here: {error}")
    finally:
        there.stop()
        shutil.rmtree(there.directory, ignore_errors=True)


def test_from_up_to_destroy(box: Path) -> None:
    """Two machines are brought up by hand, the run starts the third and halts it again."""
    directory = BUILD / f"apart-{os.getpid()}"
    before, clock = seen(directory), Clock()
    began = time.monotonic()
    with daemon(directory, box) as apart:
        user = User(apart, {"VAGRANT_DEFAULT_PROVIDER": "docker", "KRAFTWRECK_IMAGE": IMAGE}, 900)
        up = user.kraftwreck("cluster", "up", "-c", "vagrant", "--nodes", "2")
        assert [host["name"] for host in up["hosts"]] == ["n1", "n2"]
        assert all(host["host_key"].startswith("ssh-ed25519 ") for host in up["hosts"])

        verdict = user.kraftwreck(
            "run", "-c", "vagrant", "--nodes", "3", "-n", ",".join(FAULTS),
            "-t", str(SECONDS), "--seed", str(telling_seed(1.5, 4)), "--store", str(user.store),
        )  # fmt: skip
        assert verdict["valid"] is True
        assert not verdict["errors"]
        run = Path(verdict["run"])
        check_that_faults_bit(run)
        assert (run / "report.html").stat().st_size > 0
        print(f"vagrant-test: report: {run / 'report.html'}")

        # Started by the run, halted by it; the others were there before.
        expected = {"n1": "running", "n2": "running", "n3": "stopped"}
        machines = user.kraftwreck("cluster", "status", "-c", "vagrant")["hosts"]
        assert {name: machines[name] for name in expected} == expected
        assert set(user.kraftwreck("cluster", "heal", "-c", "vagrant")["vagrant"]) == {"n1", "n2"}

        unbound = [pid for pid, may in apart.capabilities().items() if may >> CAP_SYS_TIME & 1]
        assert not unbound, "a process of a container might set the machine's clock"
        networks_there = apart.namespaces()
        assert len(networks_there) >= 3, "the daemon's and those of two machines"

        user.does(*KRAFTWRECK, "cluster", "down", "-c", "vagrant")
        user.does("vagrant", "destroy", "--force")
        assert not apart.run(["docker", "ps", "--all", "--quiet"]).stdout
        assert "vagrant" not in apart.run(["docker", "network", "ls"]).stdout
    print(f"vagrant-test: all of it: {time.monotonic() - began:.1f} s, without making the box")

    assert seen(directory) - before == set()
    everybody = {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}
    assert not networks(everybody) & networks_there
    assert clock.moved() < 0.5, "this machine's clock was set"
