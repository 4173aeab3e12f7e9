"""On a host: the agent, one process that carries out requests, one per line.

The control node sends this source over SSH to ``python3`` and then exchanges JSON lines with it, so
that a fault costs one round trip and no start of an interpreter. Standard library only, for any
Python >= 3.9. A request is ``{"do": name, ...}``, and the bytes whose number is ``"attached"``
follow it; the response is the evidence, or ``{"error": "one line"}``.

A service is described by ``{"name", "pid_file", "argv", "log", "data", "trace", "images",
"folders", "ports", "ip", "ready", "settle_s", "user", "stop_signal", "disk_limit_mb"}``, optionally
with ``"env"``, ``"clock"``, ``"disk"``, ``"squeezable"`` and ``"group"``; ``"data"`` is the first
of its folders. Signals go only to what the pid file identifies (:mod:`harness.on_host.process`).
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from kraftwreck.harness.on_host import disk, services, squeeze
from kraftwreck.harness.on_host.clock import create_clock, read_clock, right_clock, set_clock
from kraftwreck.harness.on_host.daemon import DaemonError
from kraftwreck.harness.on_host.date import boot_id, clock_means, right_date
from kraftwreck.harness.on_host.files import disk_log_end, exchange, sums, told_log_end
from kraftwreck.harness.on_host.links import set_links
from kraftwreck.harness.on_host.names import set_names
from kraftwreck.harness.on_host.network import heal_network, network_means, settled
from kraftwreck.harness.on_host.process import RefusedError, service_pid
from kraftwreck.harness.on_host.program import run_program
from kraftwreck.harness.on_host.relay import set_relay

TABLE = "kraftwreck"
CAP_NET_ADMIN = 12
Request = dict[str, Any]
Evidence = dict[str, Any]

os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# --- the disks of nodes ---------------------------------------------------------------


def cut_power(request: Request) -> Evidence:
    """Kill a service that buffers unsynced writes; return how much its disk lost.

    ``log_end_told`` is the log end in the last line of the trace, ``log_end`` that of the log on
    disk; -1 if there is none.
    """
    return {**services.kill_service(request), **log_ends(request)}


def log_ends(request: Request) -> Evidence:
    """Return the log end that a stopped service last reported, and the one on its disk."""
    told, end = told_log_end(request["service"]), disk_log_end(request["service"])
    return {"log_end_told": told, "log_end": end, "records_lost": max(0, told - end)}


def directory(request: Request) -> Evidence:
    """Return the directory id of the service's data directory."""
    path = Path(request["service"]["data"]) / "meta.properties"
    found = re.search(r"^directory\.id=(.+)$", path.read_text(), re.MULTILINE)
    if found is None:
        raise RefusedError(f"{path} directory.id is missing")
    return {"directory": found[1]}


def format_disk(request: Request) -> Evidence:
    """Format the data directory of a service with its own command, ``format``."""
    try:
        run_program(request["format"])
    except RefusedError as refusal:
        raise RefusedError(f"the disk could not be formatted: {refusal}") from None
    return {}


def replace_disk(request: Request) -> Evidence:
    """Remove the data of a stopped service, and format the directory again."""
    service = request["service"]
    if service_pid(service) is not None:
        raise RefusedError("the service is running; stop it before its disk is replaced")
    data, before = Path(service["data"]), directory(request)["directory"]
    removed = sum(path.is_file() for path in data.rglob("*"))
    shutil.rmtree(data)
    data.mkdir(parents=True)
    format_disk(request)
    evidence = {"wiped": True, "files_removed": removed, "directory_before": before}
    return evidence | directory(request)


# --- packets ----------------------------------------------------------------------------


def nft(arguments: list[str], script: str = "") -> str:
    """Run nft and return what it prints."""
    done = subprocess.run(
        ["nft", *arguments], input=script, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RefusedError(f"nft: {(done.stderr.strip().splitlines() or ['no message'])[0]}")
    return done.stdout


def ruleset() -> str:
    """Return the agent's table as the kernel lists it, "" if there is none."""
    try:
        return nft(["list", "table", "inet", TABLE])
    except RefusedError as refusal:
        if "No such file" in str(refusal):
            return ""
        raise


def counters(rules: str) -> dict[str, int]:
    """Return the packets dropped, by source address, from a listed table."""
    found = re.findall(r"([0-9]+(?:\.[0-9]+){3}) counter packets ([0-9]+)", rules)
    return {address: int(packets) for address, packets in found}


def drop(request: Request) -> Evidence:
    """Drop every packet that arrives from ``sources``, instead of those dropped so far.

    This is one nft transaction, so the rules are never missing or incomplete. The evidence is the
    ruleset that the kernel lists afterwards, and the packets that the old one dropped.
    """
    sources = request["sources"]
    before = counters(ruleset())
    replacement = f"table inet {TABLE}\ndelete table inet {TABLE}\n"
    if sources:
        replacement += (
            f"table inet {TABLE} {{\n"
            " set dropped {\n  type ipv4_addr\n  counter\n"
            f"  elements = {{ {', '.join(sources)} }}\n }}\n"
            " chain arriving {\n"
            "  type filter hook input priority -300; policy accept;\n"
            "  ip saddr @dropped counter drop\n }\n}\n"
        )
    nft(["-f", "-"], replacement)
    rules = ruleset()
    if sorted(counters(rules)) != sorted(sources):
        raise RefusedError(f"requested to drop {sources}, in force: {sorted(counters(rules))}")
    return {"sources": sources, "ruleset": rules, "dropped_before": before}


def heal(request: Request) -> Evidence:
    """Stop dropping; return how many packets were dropped, by source."""
    rules = ruleset()
    if rules:
        nft(["delete", "table", "inet", TABLE])
    packets = counters(rules)
    left = ruleset() if rules else ""
    return {"dropped": packets, "packets": sum(packets.values()), "ruleset": left}


def dropped(request: Request) -> Evidence:
    """Return the current drops, and how many packets were dropped."""
    rules = ruleset()
    packets = counters(rules)
    return {"dropped": packets, "packets": sum(packets.values()), "ruleset": rules}


# --- the host ---------------------------------------------------------------------------


def clock(request: Request) -> Evidence:
    """Return the host's clocks in microseconds."""
    return {"mono_us": time.monotonic_ns() // 1000, "wall_us": time.time_ns() // 1000}


def privileged() -> bool:
    """Return whether this process may change the host like root, by id or capability."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return os.geteuid() == 0 or bool(found and int(found[1], 16) >> CAP_NET_ADMIN & 1)


def hello(request: Request) -> Evidence:
    """Return the properties of the host."""
    return {
        "hostname": socket.gethostname(),
        "pid": os.getpid(),
        "boot_id": boot_id(),
        "python": list(sys.version_info[:3]),
        "privileged": privileged(),
        "tools": {tool: shutil.which(tool) is not None for tool in ("nft", "tar")},
    }


ACTIONS = {
    action.__name__: action
    for action in (
        clock, hello, cut_power, directory, format_disk, replace_disk, drop, heal, dropped,
        create_clock, read_clock, right_clock, set_clock, sums, exchange, log_ends, set_links,
        set_relay, set_names, network_means, heal_network, settled, clock_means, right_date,
    )
} | disk.ACTIONS | squeeze.ACTIONS | services.ACTIONS  # fmt: skip


def answer(line: bytes, stream: BinaryIO) -> Evidence:
    """Carry out one request, whose attached bytes follow in ``stream``; a failure becomes a
    response."""
    try:
        request = json.loads(line)
        if "attached" in request:
            request["attached"] = stream.read(request["attached"])
        return ACTIONS[request["do"]](request)
    except (RefusedError, DaemonError) as refusal:
        return {"error": str(refusal)}
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return {"error": f"the host's disk is full: {error}" if full else str(error)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer requests until the control node disconnects."""
    stream = sys.stdin.buffer
    for line in stream:
        sys.stdout.write(json.dumps(answer(line, stream)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
