"""Vagrant for real, from ``up`` to ``destroy``: machines are containers of a daemon of our own.

``make vagrant-test`` runs this. Nothing but the Debian archive is needed, and what is made on
the way (containers, bridges, rules, files) is gone afterwards. The machines share this kernel
and so its clock, which nobody in there may set: the fault ``clock`` is that of the preloaded
library.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vagrant.apart import DOCKER
from tests.vagrant.rehearsal import Step, User, last_line, made_box, started

pytestmark = [pytest.mark.vagrant, pytest.mark.slow]

IMAGE = "kraftwreck/debian12"
COMMAND = "ssh-keygen -A && mkdir -p /run/sshd && exec /usr/sbin/sshd -D"
SCRIPTS = ("image.sh", "debian.sh")
TOOLS = {"vagrant": "vagrant", "dockerd": "docker.io", "mmdebstrap": "mmdebstrap"}


@pytest.fixture(scope="module")
def box() -> Path:
    """The image of the machines, made when there is none or the recipe has changed."""
    return made_box("docker", TOOLS, SCRIPTS, "tar")


def test_from_up_to_destroy(box: Path) -> None:
    with started(DOCKER) as apart:
        change = [
            option
            for text in (f"CMD {json.dumps(['/bin/sh', '-c', COMMAND])}", "EXPOSE 22")
            for option in ("--change", text)
        ]
        with Step("image read"):
            read = apart.run(["docker", "import", *change, box, IMAGE])
        if read.returncode != 0:
            pytest.skip(f"containers are refused here: {last_line(read)}")
        user = User(apart, {"VAGRANT_DEFAULT_PROVIDER": "docker", "KRAFTWRECK_IMAGE": IMAGE}, 900)
        user.two_and_one_more()
        user.looks_around(3)  # The daemon's and those of two machines.
        user.takes_down()
        assert not apart.run(["docker", "ps", "--all", "--quiet"]).stdout
        assert "vagrant" not in apart.run(["docker", "network", "ls"]).stdout
