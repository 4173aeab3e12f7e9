"""On a host: the agent, one process that carries out requests, one per line.

The control node sends this source over SSH to ``python3`` and then exchanges JSON lines with it, so
that a fault costs one round trip and no start of an interpreter. Standard library only, for any
Python >= 3.9. A request is ``{"do": name, ...}``; the response is the evidence, or
``{"error": "one line"}``.

A service is described by ``{"pid_file", "argv", "log", "data", "trace", "images"}``, optionally
with ``"env"``, ``"clock"``, ``"disk"`` and ``"squeezable"``. Signals go only to the process that
the pid file identifies (:mod:`harness.on_host.process`).
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host import disk, services, squeeze
from kraftwreck.harness.on_host.clock import create_clock, read_clock, right_clock, set_clock
from kraftwreck.harness.on_host.daemon import DaemonError
from kraftwreck.harness.on_host.date import boot_id, clock_means, right_date
from kraftwreck.harness.on_host.files import disk_log_end, exchange, sums, told_log_end
from kraftwreck.harness.on_host.links import set_links
from kraftwreck.harness.on_host.names import set_names
from kraftwreck.harness.on_host.network import heal_network, network_means, settled
from kraftwreck.harness.on_host.process import RefusedError, process_state, service_pid
from kraftwreck.harness.on_host.program import run_program
from kraftwreck.harness.on_host.relay import set_relay

TABLE = "kraftwreck"
CAP_NET_ADMIN = 12
Request = dict[str, Any]
Evidence = dict[str, Any]

os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# --- processes --------------------------------------------------------------------------


def send(service: Request, number: int) -> tuple[int, str]:
    """Signal the service and no other process; return its pid and its state before."""
    pid = service_pid(service)
    if pid is None:
        raise RefusedError("the service does not run")
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        raise RefusedError("the service has just ended") from error
    try:
        # The handle always refers to this process; its pid could be reused.
        if service_pid(service) != pid:
            raise RefusedError("the service has just ended")
        before = process_state(pid)[0]
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError as error:
        raise RefusedError("the service has just ended") from error
    finally:
        os.close(handle)
    return pid, before


def wait_for_state(pid: int, wanted: str, timeout_s: float) -> str:
    """Wait until the process is in one of the states ``wanted``; return the last state seen."""
    deadline = time.monotonic() + timeout_s
    while True:
        state, _ = process_state(pid)
        if state in wanted or state == "gone" or time.monotonic() > deadline:
            return state
        time.sleep(0.001)


def gone(pid: int, timeout_s: float) -> bool:
    """Wait until no process, not even a zombie, has this pid (kill(2) says ESRCH)."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)


def status(request: Request) -> Evidence:
    """Return whether the service runs, its pid and state letter."""
    pid = service_pid(request["service"])
    if pid is None:
        return {"running": False}
    return {"running": True, "pid": pid, "state": process_state(pid)[0]}


def start(request: Request) -> Evidence:
    """Start the service as a daemon unless it runs; wait until ``port`` of ``ip`` is open."""
    service, ip, port = request["service"], request["ip"], request["port"]
    pid = service_pid(service)
    started = pid is None
    if started and port_open(ip, port):
        raise RefusedError(f"port {ip}:{port} is taken by another process")
    if pid is not None and process_state(pid)[0] == "T":
        return {"pid": pid, "running": True, "started": False}
    began = time.monotonic()
    pid = pid or spawn(service)
    deadline = began + request["wait_s"]
    while not port_open(ip, port):
        if service_pid(service) is None:
            if started:
                raise RefusedError(f"the service ended at once: {last_line(service['log'])}")
            # It was already ending, because of a disk that failed until now.
            pid, started = spawn(service), True
        if time.monotonic() > deadline:
            raise RefusedError(f"port {ip}:{port} is not open after {request['wait_s']:g} s")
        time.sleep(0.005)
    open_after = round((time.monotonic() - began) * 1000)
    if not started:
        return {"pid": pid, "running": True, "started": False}
    return {"pid": pid, "running": True, "started": True, "port_open_after_ms": open_after}


def launch(request: Request) -> Evidence:
    """Start the service without waiting for it."""
    pid = service_pid(request["service"])
    return {"pid": pid or spawn(request["service"]), "launched": pid is None}


def spawn(service: Request) -> int:
    """Start ``argv`` in its own session, as a child of PID 1; write the pid file."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            daemon = os.fork()
            if daemon:
                os._exit(0)
            log = os.open(service["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            pid = os.getpid()
            squeeze.join(service)
            Path(service["pid_file"]).write_text(f"{pid} {process_state(pid)[1]}\n")
            os.write(write, str(pid).encode())
            os.closerange(3, 64)
            os.chdir("/")
            env = {**os.environ, **service.get("env", {})}
            os.execve(service["argv"][0], service["argv"], env)  # noqa: S606 - a vector
        except BaseException as error:
            os.write(2, f"{service['argv'][0]}: {error}\n".encode())
        finally:
            os._exit(127)
    os.close(write)
    os.waitpid(child, 0)
    pid = int(os.read(read, 32) or b"0")
    os.close(read)
    if not pid:
        raise RefusedError("the service could not be started")
    # Between fork and exec the command line is still that of this agent.
    deadline = time.monotonic() + 2
    while service_pid(service) is None and process_state(pid)[0] not in ("gone", "Z"):
        if time.monotonic() > deadline:
            break
        time.sleep(0.001)
    return pid


def port_open(ip: str, port: int) -> bool:
    try:
        socket.create_connection((ip, port), timeout=0.5).close()
        return True
    except OSError:
        return False


def last_line(path: str) -> str:
    try:
        lines = Path(path).read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "its log is empty"


def kill(request: Request) -> Evidence:
    """kill -9 the service, prove that it has ended, and keep an image of its data."""
    service = request["service"]
    began = time.monotonic()
    pid, before = send(service, signal.SIGKILL)
    if not gone(pid, 5.0):
        raise RefusedError(f"process {pid} still exists 5 s after SIGKILL")
    took = round((time.monotonic() - began) * 1e6)
    image = save_image(service, request["label"])
    return {"pid": pid, "before": before, "after": "ESRCH", "gone_after_us": took, **image}


def cut_power(request: Request) -> Evidence:
    """Kill a service that buffers unsynced writes; return how much its disk lost.

    ``log_end_told`` is the log end in the last line of the trace, ``log_end`` that of the log on
    disk; -1 if there is none.
    """
    return {**kill(request), **log_ends(request)}


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


def stop(request: Request) -> Evidence:
    """End the service (SIGTERM, after ``wait_s`` SIGKILL); harmless when it is down."""
    service = request["service"]
    pid = service_pid(service)
    if pid is None:
        squeeze.leave()
        return {"running": False}
    for name, wait_s in (("SIGTERM", request["wait_s"]), ("SIGKILL", 5.0)):
        try:
            send(service, getattr(signal, name))
            send(service, signal.SIGCONT)
        except RefusedError:
            wait_s = max(wait_s, 1.0)  # it is ending already
        if gone(pid, wait_s):
            squeeze.leave()
            return {"pid": pid, "signal": name, "after": "ESRCH"}
    raise RefusedError(f"process {pid} still exists 5 s after SIGKILL")


def pause(request: Request) -> Evidence:
    """SIGSTOP the service and prove that it stopped (state T)."""
    squeeze.end_duty(request["service"])  # It would resume the service.
    return switch_state(request, signal.SIGSTOP, "T")


def resume(request: Request) -> Evidence:
    """SIGCONT the service and prove that it runs (any state but T)."""
    return switch_state(request, signal.SIGCONT, "SRDI")


def switch_state(request: Request, number: int, wanted: str) -> Evidence:
    pid, before = send(request["service"], number)
    after = wait_for_state(pid, wanted, 2.0)
    if after not in wanted:
        raise RefusedError(f"process {pid} is in state {after} after signal {number}")
    return {"pid": pid, "before": before, "after": after}


def image(request: Request) -> Evidence:
    """Copy the data directory to ``images/<label>``."""
    return save_image(request["service"], request["label"])


def save_image(service: Request, label: str) -> Evidence:
    if not re.fullmatch(r"[a-z0-9-]+", label):
        raise RefusedError(f"{label!r} is not a label")
    target = Path(service["images"]) / label
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(service["data"], target, symlinks=True)
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    return {"image": label, "files": len(sizes), "bytes": sum(sizes)}


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


def wipe(request: Request) -> Evidence:
    """Remove and remake directories."""
    for path in request["paths"]:
        shutil.rmtree(path, ignore_errors=True)
        Path(path).mkdir(parents=True)
    return {}


ACTIONS = {
    action.__name__: action
    for action in (
        clock, hello, wipe, status, start, stop, kill, cut_power, directory, format_disk,
        replace_disk, pause, resume, image, drop, heal, dropped, create_clock, read_clock,
        right_clock, set_clock, sums, launch, exchange, log_ends, set_links, set_relay,
        set_names, network_means, heal_network, settled, clock_means, right_date,
    )
} | disk.ACTIONS | squeeze.ACTIONS | services.ACTIONS  # fmt: skip


def answer(line: bytes) -> Evidence:
    """Carry out one request; a failure becomes a response."""
    try:
        request = json.loads(line)
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
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(answer(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
