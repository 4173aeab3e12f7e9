"""On a host: limit the CPU, memory or open files of a service.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

A control group limits CPU and memory if the host has one, and the service joins it at its start
(``service["squeezable"]``). Services with a ``"group"`` have a group each, of that name, so that a
limit hits one of several services of a host. Otherwise CPU is limited by stopping the process most
of the time: a child of this agent sends SIGSTOP and SIGCONT, and resumes the service when the agent
ends. Without a group, memory cannot be limited, only ``oom`` can be imitated by a kill.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host.process import RefusedError, service_pid

Request = dict[str, Any]
Evidence = dict[str, Any]

OURS = Path("/run/kraftwreck-cgroups")
"""Where a namespace host finds its groups."""
SYSTEM = Path("/sys/fs/cgroup")
NAME = "kraftwreck"
PERIOD_US = 50_000
UNLIMITED = 1 << 62
OOM_PATIENCE_S = 10.0
CHUNK = 4 << 20

_files: dict[str, int] = {}
"""The previous limit of open files, by pid file."""
_duties: dict[str, tuple[int, int]] = {}
"""The child that stops the service most of the time, and the pipe that controls it, by pid file."""


# --- control groups ---------------------------------------------------------------------


def group(subsystem: str, name: str = "", *, make: bool = True) -> tuple[Path, int] | None:
    """Return a control group for services with the group ``name``, and its version. Return None if
    there is none, which without ``make`` includes groups not created yet."""
    own = f"{NAME}.{name}" if name else NAME
    if (OURS / subsystem / "cgroup.procs").exists():
        path, version = OURS / subsystem / name, 1
    elif (SYSTEM / subsystem / "cgroup.procs").exists():
        path, version = SYSTEM / subsystem / own, 1
    else:
        try:
            there = (SYSTEM / "cgroup.subtree_control").read_text().split()
        except OSError:
            return None
        if subsystem not in there:
            return None
        path, version = SYSTEM / own, 2
    if make:
        with suppress(OSError):
            path.mkdir(exist_ok=True)
    return (path, version) if path.is_dir() else None


def leave() -> None:
    """Remove the groups created on a real machine, unless they contain processes."""
    for top in (SYSTEM / "cpu", SYSTEM / "memory", SYSTEM):
        for path in (top / NAME, *top.glob(f"{NAME}.*")):
            with suppress(OSError):
                path.rmdir()


def squeeze_means(request: Request) -> Evidence:
    """Return how a node's CPU and memory can be limited here, or why they cannot."""
    found = {subsystem: group(subsystem) for subsystem in ("cpu", "memory")}
    leave()
    means = {name: f"cgroup v{told[1]}" if told else None for name, told in found.items()}
    why = {} if means["memory"] else {"memory": "no control group is available"}
    return {"means": means | {"cpu": means["cpu"] or "SIGSTOP"}, "why": why}


def join(service: Request) -> None:
    """Move this process, which becomes the service, into the existing groups."""
    for subsystem in ("cpu", "memory") if service.get("squeezable") else ():
        found = group(subsystem, service.get("group", ""))
        if found is not None:
            with suppress(OSError):  # The squeeze will detect that it is missing.
                (found[0] / "cgroup.procs").write_text(str(os.getpid()))


def member(service: Request, subsystem: str, pid: int) -> tuple[Path, int] | None:
    """Return the service's group of ``subsystem`` if the process is in it."""
    found = group(subsystem, service.get("group", ""))
    if found is not None and str(pid) in (found[0] / "cgroup.procs").read_text().split():
        return found
    return None


def counts(path: Path) -> dict[str, int]:
    """Return the numbers in a file of lines such as ``nr_throttled 4``."""
    try:
        pairs = [line.split() for line in path.read_text().splitlines()]
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    except (OSError, ValueError):
        return {}


# --- CPU --------------------------------------------------------------------------------


def limit_cpu(service: Request, percent: int) -> Evidence:
    """Limit the service to ``percent`` of one CPU."""
    pid = service_pid(service)
    found = None
    if pid is not None:
        found = member(service, "cpu", pid)
    elif service.get("squeezable"):
        found = group("cpu", service.get("group", ""))
    if found is None:
        return begin_duty(service, percent)
    path, version = found
    quota = max(1000, PERIOD_US * percent // 100)
    before = throttled(path)
    if version == 1:
        (path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (path / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (path / "cpu.max").write_text(f"{quota} {PERIOD_US}")
    return {"means": f"cgroup v{version}", "percent": percent, **before}


def free_cpu(service: Request) -> Evidence:
    """Undo :func:`limit_cpu`; return how often and how long it held the service."""
    evidence = end_duty(service)
    found = group("cpu", service.get("group", ""), make=False)
    if found is None:
        return evidence
    path, version = found
    file = path / ("cpu.cfs_quota_us" if version == 1 else "cpu.max")
    if file.exists() and file.read_text().split()[0] not in ("-1", "max"):
        evidence |= throttled(path)
        file.write_text("-1" if version == 1 else "max")
    return evidence


def throttled(path: Path) -> Evidence:
    found = counts(path / "cpu.stat")
    us = found.get("throttled_usec", found.get("throttled_time", 0) // 1000)
    return {"throttled": found.get("nr_throttled", 0), "throttled_us": us}


def begin_duty(service: Request, percent: int) -> Evidence:
    """Start a child that stops the service for most of every 50 ms, across its restarts."""
    end_duty(service)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(write)
            duty(service, percent, read)
        finally:
            os._exit(0)
    os.close(read)
    _duties[service["pid_file"]] = (child, write)
    return {"means": "SIGSTOP", "percent": percent}


def duty(service: Request, percent: int, leash: int) -> None:
    """Run until the other end of ``leash`` is closed; then resume the service."""
    run_s = PERIOD_US * percent / 100 / 1e6
    stop_s = PERIOD_US / 1e6 - run_s
    while True:
        pid = service_pid(service)
        for number, wait_s in ((signal.SIGSTOP, stop_s), (signal.SIGCONT, run_s)):
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if select.select([leash], [], [], wait_s)[0]:
                if pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                return


def end_duty(service: Request) -> Evidence:
    held = _duties.pop(service["pid_file"], None)
    if held is None:
        return {}
    child, write = held
    os.close(write)
    _, _, usage = os.wait4(child, 0)
    return {"stopped_by": child, "stopper_cpu_us": round(usage.ru_utime * 1e6)}


# --- memory -----------------------------------------------------------------------------


def limit_memory(service: Request, headroom: int) -> Evidence:
    """Let the service grow by at most ``headroom`` bytes; beyond, the kernel kills it.

    Its files in the page cache count, and are evicted first.
    """
    pid = service_pid(service)
    found = member(service, "memory", pid) if pid is not None else None
    if found is None:
        raise RefusedError("this host has no control group for memory")
    path, version = found
    usage = path / ("memory.usage_in_bytes" if version == 1 else "memory.current")
    used = int(usage.read_text())
    limit = path / ("memory.limit_in_bytes" if version == 1 else "memory.max")
    limit.write_text(str(used + headroom))
    return {"means": f"cgroup v{version}", "used": used, "limit": int(limit.read_text())}


def free_memory(service: Request) -> Evidence:
    """Remove the limit; return how often it was reached, and how often a process was killed."""
    found = group("memory", service.get("group", ""), make=False)
    if found is None:
        return {}
    path, version = found
    limit = path / ("memory.limit_in_bytes" if version == 1 else "memory.max")
    if not limit.exists():
        return {}
    text = limit.read_text().strip()
    if text == "max" or int(text) >= UNLIMITED:
        return {}
    limit.write_text("-1" if version == 1 else "max")
    return memory_events(path, version)


def memory_events(path: Path, version: int) -> Evidence:
    if version == 1:
        with suppress(OSError):
            failed = int((path / "memory.failcnt").read_text())
            return {"met": failed, "oom_kills": counts(path / "memory.oom_control")["oom_kill"]}
        return {}
    found = counts(path / "memory.events")
    return {"met": found.get("max", 0), "oom_kills": found.get("oom_kill", 0)}


def out_of_memory(service: Request) -> Evidence:
    """Let the kernel kill the service because a neighbour uses all memory.

    The neighbour is a child of the agent in the same group, and the service is the preferred
    victim. Without a group it is killed with SIGKILL, which looks the same to it.
    """
    pid = service_pid(service)
    if pid is None:
        raise RefusedError("the service does not run")
    if member(service, "memory", pid) is None:
        os.kill(pid, signal.SIGKILL)
        return {"pid": pid, "means": "SIGKILL"}
    began = time.monotonic()
    told = limit_memory(service, 4 * CHUNK)
    path, version = member(service, "memory", pid) or (Path(), 1)
    before = memory_events(path, version)["oom_kills"]
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    hog = os.fork()
    if hog == 0:
        take_memory(path)
    try:
        while service_pid(service) == pid and time.monotonic() - began < OOM_PATIENCE_S:
            time.sleep(0.002)
        gone_after = round((time.monotonic() - began) * 1e6)
    finally:
        os.kill(hog, signal.SIGKILL)
        os.waitpid(hog, 0)
    events = free_memory(service)
    if service_pid(service) == pid:
        raise RefusedError("the service still runs although its memory is exhausted")
    kills = events.get("oom_kills", 0) - before
    return {"pid": pid, **told, "oom_kills": kills, "gone_after_us": gone_after}


def take_memory(path: Path) -> None:
    """Allocate memory, as a member of the group, until killed; never returns."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # It ends with the agent.
        (path / "cgroup.procs").write_text(str(os.getpid()))
        # Its own mapped memory stays small, so that a small service is the victim.
        taken, chunk = os.memfd_create("taken"), bytes(CHUNK)
        while True:
            with suppress(OSError):
                os.write(taken, chunk)
    finally:
        os._exit(1)


# --- files ------------------------------------------------------------------------------


def limit_files(service: Request, headroom: int) -> Evidence:
    """Let the service open at most ``headroom`` more files or connections."""
    pid = service_pid(service)
    if pid is None:
        raise RefusedError("the service does not run")
    used = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1  # noqa: PTH208 - names only
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    limit = min(used + headroom, hard)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
    _files[service["pid_file"]] = soft
    return {"pid": pid, "used": used, "limit": limit, "before": soft}


def free_files(service: Request) -> Evidence:
    """Remove the limit if its process still runs."""
    before = _files.pop(service["pid_file"], None)
    pid = service_pid(service)
    if pid is None:
        return {"ended": True} if before is not None else {}
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    usual = before if before is not None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft >= min(usual, hard):
        return {}
    used = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names only
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(usual, hard), hard))
    return {"open": used, "limit": soft}


# --- all of them ------------------------------------------------------------------------


def squeeze(request: Request) -> Evidence:
    """Limit the resource ``what`` of a service to ``amount``.

    ``what`` is ``cpu``, ``memory``, ``files``, ``oom``, or ``duty``: CPU, without a group.
    """
    service, what = request["service"], request["what"]
    if what == "cpu":
        return limit_cpu(service, request["amount"])
    if what == "duty":
        return begin_duty(service, request["amount"])
    if what == "memory":
        return limit_memory(service, request["amount"])
    if what == "files":
        return limit_files(service, request["amount"])
    return out_of_memory(service)


def release(request: Request) -> Evidence:
    """Remove all limits of a service; return their effects."""
    service = request["service"]
    return free_cpu(service) | free_memory(service) | free_files(service)


ACTIONS = {action.__name__: action for action in (squeeze, release, squeeze_means)}
