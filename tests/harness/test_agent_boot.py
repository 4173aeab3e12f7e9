"""How modules of an agent reach a Python on a host: compiled, or as sources for another version."""

from __future__ import annotations

import importlib.util
import json
import marshal
import subprocess
import zlib
from pathlib import Path

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


def test_attached_bytes_are_read_whatever_becomes_of_the_request(tmp_path: Path) -> None:
    """A request after one that was refused is not taken for bytes of that one."""
    old, new = tmp_path / "old", tmp_path / "below/new"
    old.write_text("old")
    old.chmod(0o600)
    contents = {old: b"new\n" * 1000, new: b'{"do": "clock"}\n'}
    packed = {path: zlib.compress(content) for path, content in contents.items()}
    files = [[str(path), len(each)] for path, each in packed.items()]
    attached = b"".join(packed.values())

    def request(do: str, **fields: object) -> bytes:
        return (
            json.dumps({"do": do, "attached": len(attached), **fields}).encode() + b"\n" + attached
        )

    sent = modules(AGENT)
    boot = BOOT.format(size=len(sent), magic=importlib.util.MAGIC_NUMBER)
    asked = request("place_files", files=[["/dev/null/x", files[0][1]]])
    asked += request("unknown") + request("place_files", files=files) + b'{"do": "clock"}\n'
    done = subprocess.run([*PYTHON, boot], input=sent + asked, capture_output=True, check=True)
    refused, unknown, placed, clock = map(json.loads, done.stdout.splitlines())
    assert "Not a directory" in refused["error"] or "File exists" in refused["error"]
    assert "unknown" in unknown["error"]
    assert placed == {}
    assert "mono_us" in clock
    assert {path: path.read_bytes() for path in contents} == contents
    assert [path.stat().st_mode & 0o777 for path in contents] == [0o644, 0o644]
