"""Vagrant for real with LXC's containers, from ``up`` to ``destroy``.

``make vagrant-test PROVIDER=lxc`` runs this. They share this kernel and its clock, as Docker's do,
but are started by a systemd each, and LXC would let root in them do nearly everything: so it is
looked at what it may.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.vagrant.apart import LXC, Apart
from tests.vagrant.rehearsal import User, made_box, started

pytestmark = [pytest.mark.vagrant, pytest.mark.slow]

BOX = "kraftwreck/container"
SCRIPTS = ("container.sh", "systemd.sh", "debian.sh")
TOOLS = {"vagrant": "vagrant", "lxc-start": "lxc", "mmdebstrap": "mmdebstrap"}
PLUGIN = Path("/usr/share/vagrant-plugins/plugins.d/vagrant-lxc.json")
MEMORY_MB = 512
KEPT = 0x200435FB
"""chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_admin,
net_raw, sys_chroot, audit_write."""


@pytest.fixture(scope="module")
def box() -> Path:
    """The box of the machines, made when there is none or the recipe has changed."""
    if not PLUGIN.exists():
        pytest.skip("vagrant-lxc is missing: scripts/setup --lxc, or apt-get install vagrant-lxc")
    return made_box("lxc", TOOLS, SCRIPTS, "box")


HIDDEN = ("/dev/.lxc/", "/sys/fs/pstore")
"""Where Debian's LXC and vagrant-lxc would let containers see, and change, this machine's."""


def check_what_they_may(apart: Apart) -> None:
    may = apart.contained()
    assert max(may.values()) == KEPT, "what systemd starts may be given less"
    assert not [pid for pid, each in may.items() if each & ~KEPT]
    for pid in may:
        mounts = []
        with contextlib.suppress(OSError):  # It has ended.
            mounts = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
        assert not [mount for mount in mounts if mount.split()[4].startswith(HIDDEN)]
    assert limits(apart) == [MEMORY_MB << 20] * 2


def limits(apart: Apart) -> list[int]:
    """The memory that each container may have at most, by groups that it does not see."""
    found = []
    for group in apart.groups():
        if group.parent.name == apart.group and group.name.startswith("lxc.payload."):
            for name in ("memory.limit_in_bytes", "memory.max"):
                if (group / name).exists():
                    found.append(int((group / name).read_text()))
    return found


def test_from_up_to_destroy(box: Path) -> None:
    with started(LXC) as apart:
        user = User(apart, {"VAGRANT_DEFAULT_PROVIDER": "lxc"}, 900)
        user.add_box(BOX, box)
        user.two_and_one_more()

        found = user.kraftwreck("cluster", "doctor", "-c", "vagrant")["vagrant"]
        assert set(found) == {"n1", "n2"}
        assert {each["means"]["clock"] for each in found.values()} == {"library"}
        check_what_they_may(apart)
        user.looks_around(3)  # The outer one and those of two machines.

        user.takes_down()
        assert not apart.run(["lxc-ls"]).stdout.strip()
        links = apart.run(["ip", "-brief", "link"]).stdout.split("\n")
        assert [line.split()[0] for line in links if line] == ["lo"], "the bridge is gone, too"
