"""The node as a service of a host: the paths of its files, and its preloaded libraries.

``/opt/kraftwreck`` (code), ``/etc/kraftwreck`` (configuration), ``/var/lib/kraftwreck/data`` (data
directory; its parent may be a separate disk), ``/var/log/kraftwreck`` (the files for the run
folder, and those that outlive a disk).
"""

from __future__ import annotations

from typing import Any

from kraftwreck.harness.remote.preloads import library

CODE = "/opt/kraftwreck/kraftwreck-nodes.pyz"
OTHER_CODE = "/opt/kraftwreck/kraftwreck-nodes-other.pyz"
CONFIG = "/etc/kraftwreck/node.properties"
DATA = "/var/lib/kraftwreck/data"
LOGS = "/var/log/kraftwreck"
CLOCKWORK = "/opt/kraftwreck/clockwork.so"
CLOCK = "/opt/kraftwreck/clock"
DISKWORK = "/opt/kraftwreck/diskwork.so"
DISK = "/opt/kraftwreck/disk"
PYTHON = "/usr/bin/python3"
SERVICE: dict[str, Any] = {
    "pid_file": "/run/kraftwreck-node.pid",
    "argv": [PYTHON, CODE, "--config", CONFIG],
    "log": f"{LOGS}/stdout.log",
    "data": DATA,
    "trace": f"{LOGS}/trace.jsonl",
    "images": f"{LOGS}/images",
}
"""The service, as :mod:`harness.on_host.agent` expects it."""


def service(*, own_clocks: bool, own_disks: bool, squeezable: bool = False) -> dict[str, Any]:
    """Return the service with the requirements of faults: clocks and disks of its own, from
    preloaded libraries (``clockwork.c``, ``diskwork.c``), and control groups if ``squeezable``."""
    preloaded = libraries(own_clocks=own_clocks, own_disks=own_disks)
    described, env = dict(SERVICE), {"LD_PRELOAD": " ".join(preloaded)}
    if squeezable:
        described["squeezable"] = True
    if own_clocks:
        described["clock"] = env["KRAFTWRECK_CLOCK"] = CLOCK
    if own_disks:
        described["disk"] = env["KRAFTWRECK_DISK"] = DISK
        env["KRAFTWRECK_DISK_FILES"] = DATA
    return {**described, "env": env} if len(env) > 1 else described


def libraries(*, own_clocks: bool, own_disks: bool) -> dict[str, bytes]:
    """Return the libraries that nodes preload, by their path on a host."""
    chosen = {}
    if own_clocks:
        chosen[CLOCKWORK] = library()
    if own_disks:
        chosen[DISKWORK] = library(name="diskwork")
    return chosen
