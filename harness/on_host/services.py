"""On a host: services by name, each of any number of processes: start, stop, signal, collect.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

A service is described as for :mod:`harness.on_host.agent`. Signals of a fault reach all of its
processes.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host import disk, squeeze
from kraftwreck.harness.on_host.keeper import (
    ending,
    environment,
    keeper_pid,
    members,
    spawn_kept,
)
from kraftwreck.harness.on_host.process import RefusedError, process_state, service_pid

Request = dict[str, Any]
Evidence = dict[str, Any]

KNOWN = Path("/run/kraftwreck-services")
"""The descriptions of all services that were started on this host, for a later run to end."""
POLL_S = 0.005
TRY_S = 5.0
"""How long one attempt of a ready check may take."""
LINE_BYTES = 300


# --- start ------------------------------------------------------------------------------


def open_service(request: Request) -> Evidence:
    """Start the service unless it runs, and wait until it is ready for ``wait_s`` seconds.

    A paused service stays paused, and one that is just ending is started again. Raises
    RefusedError, one line: it cannot be executed, ended, went to the background, filled its disk,
    or is not ready in time.
    """
    service = request["service"]
    pid = service_pid(service)
    if pid is not None:
        try:
            if process_state(pid)[0] != "T":
                _await_ready(service, 0, request["wait_s"])
            return {"pid": pid, "running": True, "started": False}
        except RefusedError:
            if service_pid(service) is not None:
                raise
    _end_all(service)
    for name, port in service["ports"].items():
        if port_open(service["ip"], port):
            where = f"{service['ip']}:{port}"
            raise RefusedError(f"port {where} ({name}) is taken by another process")
    began = time.monotonic()
    with suppress(OSError):
        KNOWN.mkdir(parents=True, exist_ok=True)
        file = KNOWN / (service["name"].replace("/", "--") + ".json")
        file.write_text(json.dumps(service))
    offset = _size(service["log"])
    pid = spawn_kept(service)
    try:
        _await_ready(service, offset, request["wait_s"])
        ready = round((time.monotonic() - began) * 1000)
        time.sleep(service["settle_s"])
        _check_alive(service)
    except RefusedError:
        if service_pid(service) is None:
            _end_all(service)
        raise
    return {"pid": pid, "running": True, "started": True, "ready_after_ms": ready}


def launch_service(request: Request) -> Evidence:
    """Start the service without waiting until it is ready."""
    pid = service_pid(request["service"])
    return {"pid": pid or spawn_kept(request["service"]), "launched": pid is None}


def _await_ready(service: Request, offset: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        _check_alive(service)
        missing = unready(service, offset)
        if not missing:
            return
        if time.monotonic() > deadline:
            raise RefusedError(f"it is not ready after {wait_s:g} s: {missing}; {_last(service)}")
        time.sleep(POLL_S)


def _check_alive(service: Request) -> None:
    """Raise RefusedError with the reason if the main process has ended."""
    if service_pid(service) is not None:
        return
    deadline = time.monotonic() + 1.0
    while "status" not in (told := ending(service)) and time.monotonic() < deadline:
        time.sleep(0.005)  # The keeper is about to record it.
    if "full_mb" in told:
        raise RefusedError(_full(service, told))
    status = told.get("status")
    if status == 0 and members(service):
        raise RefusedError(
            "it went to the background: its main process ended while others run; "
            "start it in the foreground"
        )
    how = "ended" if status is None else f"ended with status {status}"
    if status is not None and status < 0:
        how = f"was killed by signal {-status}"
    raise RefusedError(f"it {how} before it was ready; {_last(service)}")


def _full(service: Request, told: Evidence) -> str:
    return (
        f"it was killed because its files take {told['full_mb']} MB on the disk, "
        f"more than its limit of {service['disk_limit_mb']} MB"
    )


def unready(service: Request, offset: int) -> str:
    """Return why the service is not ready yet, "" if it is."""
    ready = service["ready"]
    kind = ready["kind"]
    if kind == "port":
        port = ready["port"]
        return "" if port_open(service["ip"], port) else f"port {port} is closed"
    if kind == "http":
        return _http(service["ip"], ready)
    if kind == "line":
        return _line(service["log"], ready["pattern"], offset)
    if kind == "command":
        return _command(service, ready["argv"])
    return ""


def port_open(ip: str, port: int) -> bool:
    """Return whether a TCP connection to the port is accepted."""
    try:
        socket.create_connection((ip, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def _http(ip: str, ready: Request) -> str:
    import http.client  # It takes a fifth of an agent's start, and few systems need it.

    where = f"http://{ip}:{ready['port']}{ready['path']}"
    connection = http.client.HTTPConnection(ip, ready["port"], timeout=TRY_S)
    try:
        connection.request("GET", ready["path"])
        answer = connection.getresponse()
        body = answer.read(1 << 20)
    except (OSError, http.client.HTTPException) as error:
        return f"{where}: {error}"
    finally:
        connection.close()
    if answer.status != ready["status"]:
        return f"{where} answers {answer.status}, not {ready['status']}"
    return "" if ready["text"].encode() in body else f"{where} does not answer {ready['text']!r}"


def _line(log: str, pattern: str, offset: int) -> str:
    try:
        with Path(log).open("rb") as file:
            file.seek(offset)
            text = file.read().decode(errors="replace")
    except OSError:
        text = ""
    return "" if re.search(pattern, text, re.MULTILINE) else f"no line of its log has {pattern!r}"


def _command(service: Request, argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, env=environment(service), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=TRY_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{argv[0]}: {error}"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return f"{argv[0]} gives status {done.returncode}: {said[-1] if said else 'no message'}"


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _last(service: Request) -> str:
    """Return the last line of the log, as printable text."""
    try:
        with Path(service["log"]).open("rb") as file:
            file.seek(max(0, _size(service["log"]) - 16_384))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        lines = []
    lines = ["".join(c if c.isprintable() else "?" for c in line).strip() for line in lines]
    found = next((line for line in reversed(lines) if line), "")
    return f"its last line: {found[:LINE_BYTES]}" if found else "its output is empty"


# --- end --------------------------------------------------------------------------------


def close_service(request: Request) -> Evidence:
    """Send the main process its stop signal, after ``wait_s`` SIGKILL to all; harmless when down.

    The evidence has the ``signal`` that ended it, and ``left``: processes that outlived the main
    one and were killed.
    """
    service, wait_s = request["service"], request["wait_s"]
    pid = service_pid(service)
    if pid is None:
        left = len(members(service))
        _end_all(service)
        squeeze.leave()
        told = ending(service)
        found = {"full": _full(service, told)} if "full_mb" in told else {}
        return {"running": False, **({"left": left} if left else {}), **found}
    with suppress(ProcessLookupError):
        os.kill(pid, getattr(signal, service["stop_signal"]))
    for each in members(service):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT)
    deadline = time.monotonic() + wait_s
    while service_pid(service) is not None and time.monotonic() < deadline:
        time.sleep(0.005)
    ignored = service_pid(service) is not None
    left = 0 if ignored else len(members(service))
    _end_all(service)
    squeeze.leave()
    used = "SIGKILL" if ignored else service["stop_signal"]
    return {"pid": pid, "signal": used, "after": "ESRCH", **({"left": left} if left else {})}


def _end_all(service: Request) -> int:
    """SIGKILL all processes of the service until none is left; return their number."""
    killed: set[int] = set()
    deadline = time.monotonic() + 10.0
    while found := members(service):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
        if time.monotonic() > deadline:
            raise RefusedError(f"process {found[0]} still exists 10 s after SIGKILL")
        time.sleep(0.001)
    while keeper_pid(service) is not None:  # It records how the service ended, and ends.
        if time.monotonic() > deadline:
            raise RefusedError("the keeper of the service does not end")
        time.sleep(0.001)
    return len(killed)


def kill_service(request: Request) -> Evidence:
    """kill -9 all processes of the service, prove that they ended, and keep an image if asked."""
    service = request["service"]
    pid = service_pid(service)
    if pid is None:
        raise RefusedError("the service does not run")
    before = process_state(pid)[0]
    began = time.monotonic()
    count = _end_all(service)
    took = round((time.monotonic() - began) * 1e6)
    evidence = {"pid": pid, "before": before, "after": "ESRCH", "gone_after_us": took}
    if count > 1:
        evidence["processes"] = count
    return {**evidence, **(service_image(request) if request.get("label") else {})}


def service_image(request: Request) -> Evidence:
    """Copy the service's folder to ``images/<label>``, several to folders below; sockets and
    devices are left out."""
    service, label = request["service"], request["label"]
    target = Path(service["images"]) / label
    shutil.rmtree(target, ignore_errors=True)
    folders = service["folders"]
    for number, folder in enumerate(folders):
        into = target / f"{number}-{Path(folder).name}" if len(folders) > 1 else target
        shutil.copytree(folder, into, symlinks=True, ignore=_special)
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    return {"image": label, "files": len(sizes), "bytes": sum(sizes)}


def _special(folder: str, names: list[str]) -> list[str]:
    """Return the entries that cannot be copied: sockets, pipes, devices, and what just went."""
    wrong = []
    for name in names:
        try:
            mode = (Path(folder) / name).lstat().st_mode
        except OSError:
            wrong.append(name)
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            wrong.append(name)
    return wrong


def end_services(request: Request) -> Evidence:
    """Kill all services that earlier runs have left on this host; return their names."""
    ended = []
    for file in sorted(KNOWN.glob("*.json")):
        with suppress(OSError, ValueError, KeyError):
            service = json.loads(file.read_text())
            squeeze.release({"service": service})
            if members(service):
                _end_all(service)
                ended.append(service["name"])
        with suppress(OSError):
            file.unlink()
    return {"ended": ended}


def heal_services(request: Request) -> Evidence:
    """SIGCONT the paused processes of all services of this host, remove their limits, and mend
    their disks; return the services' names, and what was undone by name."""
    resumed, released, mended = [], {}, {}
    for file in sorted(KNOWN.glob("*.json")):
        with suppress(OSError, ValueError, KeyError):
            service = json.loads(file.read_text())
            paused = [pid for pid in members(service) if process_state(pid)[0] == "T"]
            for pid in paused:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            if paused:
                resumed.append(service["name"])
            if told := squeeze.release({"service": service}):
                released[service["name"]] = told
            if "disk" in service and (told := disk.heal_disk(service)):
                mended[service["name"]] = told
    return {"resumed": resumed, "released": released, "mended": mended}


# --- signals and state ------------------------------------------------------------------


def pause_service(request: Request) -> Evidence:
    """SIGSTOP all processes of the service and prove that they stopped (state T)."""
    squeeze.end_duty(request["service"])  # It would resume the service.
    return _switch(request["service"], signal.SIGSTOP, "T")


def resume_service(request: Request) -> Evidence:
    """SIGCONT all processes of the service and prove that they run."""
    return _switch(request["service"], signal.SIGCONT, "SRDI")


def _switch(service: Request, number: int, wanted: str) -> Evidence:
    pid = service_pid(service)
    if pid is None:
        raise RefusedError("the service does not run")
    before = process_state(pid)[0]
    deadline = time.monotonic() + 2.0
    while True:
        states = {each: process_state(each)[0] for each in members(service)}
        wrong = [each for each, state in states.items() if state not in wanted + "ZX"]
        if not wrong:
            break
        for each in wrong:
            with suppress(ProcessLookupError):
                os.kill(each, number)
        if time.monotonic() > deadline:
            raise RefusedError(f"process {wrong[0]} is not in state {wanted} after signal {number}")
        time.sleep(0.001)
    evidence = {"pid": pid, "before": before, "after": process_state(pid)[0]}
    return {**evidence, "processes": len(states)} if len(states) > 1 else evidence


def service_status(request: Request) -> Evidence:
    """Return whether the service runs, its pid and state letter, or how it ended."""
    service = request["service"]
    pid = service_pid(service)
    if pid is None:
        told = ending(service)
        why = {"why": _full(service, told)} if "full_mb" in told else {}
        return {"running": False, **told, **why}
    return {"running": True, "pid": pid, "state": process_state(pid)[0]}


# --- files ------------------------------------------------------------------------------


def prepare_folders(request: Request) -> Evidence:
    """Remove and remake ``paths``, owned by ``user``; those that are ``lasting`` survive a crash of
    the host."""
    changed = set()
    for text in request["paths"]:
        path = Path(text)
        if path.is_symlink() or path.is_file():
            path.unlink()
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        if request["user"] != "root":
            account = pwd.getpwnam(request["user"])
            os.chown(path, account.pw_uid, account.pw_gid)
        changed |= {path, path.parent}
    for folder in changed if request["lasting"] else ():
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)
    return {}


def place_files(request: Request) -> Evidence:
    """Write the ``files``, paths and sizes of what is attached for each, compressed by zlib."""
    place = 0
    for text, size in request["files"]:
        path = Path(text)
        content = zlib.decompress(request["attached"][place : place + size])
        place += size
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # Programs that run keep the old file.
        path.write_bytes(content)
        path.chmod(0o644)
    return {}


def choose_files(request: Request) -> Evidence:
    """Return the plain files below ``paths``, smallest first, that fit into ``limit`` bytes, or all
    if it is 0.

    ``left_out`` has the others with their sizes. Names that are not UTF-8 come as Python's
    surrogates.
    """
    sized = []
    for text in request["paths"]:
        path = Path(text)
        if path.is_file() and not path.is_symlink():
            sized.append((path.stat().st_blocks * 512, text))
        for folder, _, files in os.walk(text):
            for file in files:
                full = os.path.join(folder, file)  # noqa: PTH118 - faster, and any name
                with suppress(OSError):
                    told = os.lstat(full)
                    if stat.S_ISREG(told.st_mode):
                        sized.append((min(told.st_size, told.st_blocks * 512), full))
    chosen, left_out, total = [], {}, 0
    for size, name in sorted(set(sized)):
        total += size
        if not request["limit"] or total <= request["limit"]:
            chosen.append(name)
        else:
            left_out[name] = size
    return {"files": chosen, "left_out": left_out}


ACTIONS = {
    action.__name__: action
    for action in (
        open_service, launch_service, close_service, kill_service, service_image, end_services,
        heal_services, pause_service, resume_service, service_status, prepare_folders,
        place_files, choose_files,
    )
}  # fmt: skip
