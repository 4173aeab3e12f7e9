"""Builds the other checkers that ours are compared with.

    python -m bench.checkers.peers.build [FOLDER]

Porcupine (a Go module) needs ``go``, adya (a Rust crate) ``cargo``; both come from their
registries, pinned by ``go.sum`` and ``Cargo.lock``. They are not part of the product, and no test
needs them. The programs are put into FOLDER, by default ``build/peers``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
FOLDER = Path("build/peers")
PORCUPINE, ADYA = "porcupine", "adya-peer"


def build(folder: Path = FOLDER) -> None:
    """Build both. Raises SystemExit with one line when a tool is missing or a build fails."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    _run(["go", "build", "-trimpath", "-o", str(folder / PORCUPINE), "."], _HERE / "porcupine", {})
    target = folder / "cargo"
    command = ["cargo", "build", "--release", "--locked"]
    _run(command, _HERE / "adya", {"CARGO_TARGET_DIR": str(target)})
    shutil.copy2(target / "release" / ADYA, folder / ADYA)


def _run(command: list[str], folder: Path, more: dict[str, str]) -> None:
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is not there: install it to build {folder.name}")
    done = subprocess.run(command, cwd=folder, env=os.environ | more, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {folder}")


def program(name: str) -> str:
    """Return the path of a peer. Raises SystemExit when it is not built."""
    folder = Path(os.environ.get("KRAFTWRECK_PEERS", FOLDER))
    if not (folder / name).is_file():
        raise SystemExit(f"{folder / name}: not built; run python -m bench.checkers.peers.build")
    return str((folder / name).resolve())


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
