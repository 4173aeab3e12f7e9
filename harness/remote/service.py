"""The node as a service of a host: where its files are, and what it has preloaded.

``/opt/kraftwreck`` (code), ``/etc/kraftwreck`` (configuration), ``/var/lib/kraftwreck/data``
(data directory; what is above it may be a disk of its own), ``/var/log/kraftwreck`` (what a run
folder keeps of it, and what outlives a disk).
"""

from __future__ import annotations

from typing import Any

from harness.remote.preloads import library

CODE = "/opt/kraftwreck/kraftwreck-nodes.pyz"
OTHER_CODE = "/opt/kraftwreck/kraftwreck-nodes-other.pyz"
CONFIG = "/etc/kraftwreck/controller.properties"
DATA = "/var/lib/kraftwreck/data"
LOGS = "/var/log/kraftwreck"
CLOCKWORK = "/opt/kraftwreck/clockwork.so"
CLOCK = "/opt/kraftwreck/clock"
DISKWORK = "/opt/kraftwreck/diskwork.so"
DISK = "/opt/kraftwreck/disk"
PYTHON = "/usr/bin/python3"
SERVICE: dict[str, Any] = {
    "pid_file": "/run/kraftwreck-controller.pid",
    "argv": [PYTHON, CODE, "--config", CONFIG],
    "log": f"{LOGS}/stdout.log",
    "data": DATA,
    "trace": f"{LOGS}/trace.jsonl",
    "images": f"{LOGS}/images",
}
"""The service as :mod:`harness.on_host.agent` wants it described."""


def service(*, own_clocks: bool, own_disks: bool, squeezable: bool = False) -> dict[str, Any]:
    """Return the service with what faults need: clocks and disks of its own, by libraries that
    are preloaded (``clockwork.c``, ``diskwork.c``), control groups if it is ``squeezable``."""
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
    """Return the libraries that nodes have preloaded, by their path on a host."""
    chosen = {}
    if own_clocks:
        chosen[CLOCKWORK] = library()
    if own_disks:
        chosen[DISKWORK] = library(name="diskwork")
    return chosen
