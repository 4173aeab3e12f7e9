"""How modules of an agent reach a Python on a host: compiled, or as sources for another version."""

from __future__ import annotations

import importlib.util
import json
import marshal
import subprocess
import zlib

import pytest

from kraftwreck.harness.remote.agent import AGENT, BOOT, PYTHON, modules


def answer_of(sent: bytes, magic: bytes) -> dict[str, object]:
    boot = BOOT.format(size=len(sent), magic=magic)
    done = subprocess.run(
        [*PYTHON, boot], input=sent + b'{"do": "clock"}\n', capture_output=True, check=True
    )
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def broken(which: int) -> bytes:
    """Return the agent's modules with all sources (1) or all compiled forms (2) unusable."""
    parts = [list(part) for part in marshal.loads(zlib.decompress(modules(AGENT)))]  # noqa: S302 - our own
    for part in parts:
        part[which] = "no Python" if which == 1 else b"no code"
    return zlib.compress(marshal.dumps(parts))


def test_an_agent_runs_from_either_form() -> None:
    for magic in (importlib.util.MAGIC_NUMBER, b"\0\0\r\n"):
        assert "mono_us" in answer_of(modules(AGENT), magic)


def test_another_version_of_python_compiles_the_sources() -> None:
    assert "mono_us" in answer_of(broken(2), b"\0\0\r\n")
    with pytest.raises(subprocess.CalledProcessError):
        answer_of(broken(1), b"\0\0\r\n")
