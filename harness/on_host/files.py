"""On a host: facts from a node's files.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host.clock import last_traced

BATCH = struct.Struct(">qi11xi")
"""The start of a record batch: base offset, length of the rest, last offset minus the first."""
Request = dict[str, Any]


def told_log_end(service: Request) -> int:
    """Return ``leo`` in the last complete line of the trace."""
    try:
        return int(last_traced(service["trace"])[0]["leo"])
    except (OSError, ValueError, LookupError):
        return -1


def disk_log_end(service: Request) -> int:
    """Return the end offset of the metadata log, from the headers of its last segment."""
    segments = sorted(Path(service["data"]).glob("__cluster_metadata-0/*.log"))
    if not segments:
        return -1
    content, position, end = segments[-1].read_bytes(), 0, int(segments[-1].stem)
    while position + BATCH.size <= len(content):
        base, length, last_delta = BATCH.unpack_from(content, position)
        position += 12 + length
        if position > len(content) or length <= 0:
            break
        end = base + last_delta + 1
    return end


def exchange(request: Request) -> dict[str, Any]:
    """Exchange two files; return the SHA-256 of the first one before and afterwards."""
    first, second = map(Path, request["paths"])
    if not second.exists():
        raise FileNotFoundError(f"{second}: there is no other version on this host")
    before, between = digest_of(first), first.with_name(first.name + ".exchanged")
    first.replace(between)
    second.replace(first)
    between.replace(second)
    return {"code_before": before, "code": digest_of(first)}


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums(request: Request) -> dict[str, Any]:
    """Return size and SHA-256 of files, by name; missing ones are left out."""
    told = {}
    for text in request["paths"]:
        path = Path(text)
        if path.is_file():
            content = path.read_bytes()
            told[path.name] = {
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
    return {"sums": told}
