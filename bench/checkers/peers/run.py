"""Runs another checker on history files, with limits of time and memory."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.checkers.peers.build import ADYA, PORCUPINE, program

MEMORY = 8 << 30
"""Limit of a checker's address space in bytes."""


def porcupine(paths: Sequence[Path], seconds: float) -> list[dict[str, Any]]:
    """Return Porcupine's verdict on every history in the files; see ``porcupine/main.go``."""
    command = [program(PORCUPINE), "-timeout", str(seconds), *map(str, paths)]
    return _run(command, 2 * seconds * len(paths) + 600)


def adya(model: str, consistency: str, paths: Sequence[Path], seconds: float) -> list[Any]:
    """Return adya's verdict on every history in the files; see ``adya/src/main.rs``."""
    return _run([program(ADYA), model, consistency, *map(str, paths)], seconds)


def _run(command: list[str], seconds: float) -> list[dict[str, Any]]:
    """Return its lines, and ``{"valid": why}`` if it did not finish."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=bound,  # no threads here
    )
    why = ""
    try:
        out, err = process.communicate(timeout=seconds)
        if process.returncode:
            text = err.decode(errors="replace")
            why = "out of memory" if "memory" in text else text.strip().splitlines()[0]
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        why = f"no answer in {seconds:g} s"
    found = [msgspec.json.decode(line) for line in out.splitlines()]
    return [*found, {"valid": why}] if why else found
