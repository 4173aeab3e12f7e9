"""Cells of the matrix on machines of Vagrant, in containers: ``python -m tests.vagrant.matrix``.

    sudo .venv/bin/python -m tests.vagrant.matrix STORE [ARGUMENT ...]

Starts a Docker daemon of its own, makes the image of the machines if there is none, brings five
machines up, and runs :mod:`bench.hosts_matrix` with the arguments; three nodes elect a leader. Left
out are families that these machines cannot have: nobody in there may set this machine's clock or
crash a machine or squeeze its memory. Everything is gone afterwards but the store.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.vagrant.apart import DOCKER, ROOT, Apart, ApartError, sweep
from tests.vagrant.rehearsal import BUILD, KRAFTWRECK, made_box
from tests.vagrant.test_by_docker import COMMAND, IMAGE, SCRIPTS, TOOLS

WITHOUT = "host,squeeze"
PATIENCE_S = 3 * 3600.0


def main(arguments: list[str]) -> int:
    """Run the cells; return the exit code of :mod:`bench.hosts_matrix`, 254 without machines."""
    if not arguments:
        print("usage: python -m tests.vagrant.matrix STORE [ARGUMENT ...]", file=sys.stderr)
        return 254
    store = Path(arguments[0]).resolve()
    box = made_box("docker", TOOLS, SCRIPTS, "tar")
    sweep(BUILD)
    apart = Apart(BUILD / "apart-matrix", DOCKER)
    try:
        apart.start()
        return _cells(apart, box, store, arguments[1:])
    except ApartError as error:
        print(error, file=sys.stderr)
        return 254
    finally:
        apart.stop()
        subprocess.run(["rm", "-rf", "--", apart.directory], check=False)


def _cells(apart: Apart, box: Path, store: Path, arguments: list[str]) -> int:
    entry = json.dumps(["/bin/sh", "-c", COMMAND])
    changes = ["--change", f"CMD {entry}", "--change", "EXPOSE 22"]
    read = apart.run(["docker", "import", *changes, str(box), IMAGE])
    if read.returncode != 0:
        raise ApartError(read.stderr.strip().splitlines()[-1])
    environment = {
        "VAGRANT_DOTFILE_PATH": str(apart.directory / "dot"),
        "VAGRANT_HOME": str(apart.directory / "vagrant.d"),
        "VAGRANT_CHECKPOINT_DISABLE": "1",
        "VAGRANT_DEFAULT_PROVIDER": "docker",
        "KRAFTWRECK_IMAGE": IMAGE,
    }

    def does(*command: str) -> int:
        done = apart.run(command, environment=environment, timeout_s=PATIENCE_S, show=True)
        print(done.stdout, flush=True)
        return done.returncode

    if does(*KRAFTWRECK, "cluster", "up", "-c", "vagrant", "--nodes", "5") != 0:
        raise ApartError("the machines do not come up")
    try:
        return does(
            str(ROOT / ".venv/bin/python"), "-m", "bench.hosts_matrix", str(store),
            "--cluster", "vagrant", "--controllers", "3", "--without", WITHOUT, "--jobs", "1",
            *arguments,
        )  # fmt: skip
    finally:
        does("vagrant", "destroy", "--force")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
