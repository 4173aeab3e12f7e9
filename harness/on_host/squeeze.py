"""On a host: a service that gets little CPU, memory, or no more files.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

CPU and memory are limited by a control group where the host has one to give, and the service is
in it from its birth on (``service["squeezable"]``). Without one, CPU is taken by stopping the
process most of the time (SIGSTOP and SIGCONT by a child of this agent, which lets it go on when
the agent ends in whatever way); and memory by nothing but the kill an overrun would bring.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.on_host.process import RefusedError, service_pid

Request = dict[str, Any]
Evidence = dict[str, Any]

OURS = Path("/run/kraftwreck-cgroups")
"""Where a host that is a namespace finds its groups."""
SYSTEM = Path("/sys/fs/cgroup")
NAME = "kraftwreck"
PERIOD_US = 50_000
UNLIMITED = 1 << 62
OOM_PATIENCE_S = 10.0
PAGE = 4096
CHUNK = 4 << 20

_files: dict[str, int] = {}
"""By pid file: the limit of open files that was there before."""
_duties: dict[str, tuple[int, int]] = {}
"""By pid file: the child that stops the service most of the time, and the pipe that holds it."""


# --- control groups ---------------------------------------------------------------------


def group(controller: str, *, make: bool = True) -> tuple[Path, int] | None:
    """Return a control group that is ours and its version, None where none can be had, or, unless
    one is to be made, is there."""
    if (OURS / controller / "cgroup.procs").exists():
        return OURS / controller, 1
    if (SYSTEM / controller / "cgroup.procs").exists():
        path, version = SYSTEM / controller / NAME, 1
    else:
        try:
            there = (SYSTEM / "cgroup.subtree_control").read_text().split()
        except OSError:
            return None
        if controller not in there:
            return None
        path, version = SYSTEM / NAME, 2
    if make:
        with suppress(OSError):
            path.mkdir(exist_ok=True)
    return (path, version) if path.is_dir() else None


def leave() -> None:
    """Remove the groups we made on a machine of its own, unless somebody is in there."""
    for path in (SYSTEM / "cpu" / NAME, SYSTEM / "memory" / NAME, SYSTEM / NAME):
        with suppress(OSError):
            path.rmdir()


def squeeze_means(request: Request) -> Evidence:
    """Tell by what means a node's CPU and memory are limited here, and why not at all."""
    found = {controller: group(controller) for controller in ("cpu", "memory")}
    leave()
    means = {name: f"cgroup v{told[1]}" if told else None for name, told in found.items()}
    why = {} if means["memory"] else {"memory": "there is no control group to be had for it"}
    return {"means": means | {"cpu": means["cpu"] or "SIGSTOP"}, "why": why}


def join(service: Request) -> None:
    """Put this process, which becomes the service, into the groups there are."""
    for controller in ("cpu", "memory") if service.get("squeezable") else ():
        found = group(controller)
        if found is not None:
            with suppress(OSError):  # Then the squeeze finds it is not in there.
                (found[0] / "cgroup.procs").write_text(str(os.getpid()))


def member(controller: str, pid: int) -> tuple[Path, int] | None:
    """Return the group of ``controller`` if the process is in it."""
    found = group(controller)
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
    """Let the service have ``percent`` of one CPU."""
    pid = service_pid(service)
    found = member("cpu", pid) if pid is not None else group("cpu")
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
    """End what :func:`limit_cpu` began; tell how often and how long it held the service."""
    evidence = end_duty(service)
    found = group("cpu", make=False)
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
    """Stop the service for most of every 50 ms, by a child; whoever it is by then."""
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
    """Go on until the other end of ``leash`` is closed or lets go; then let the service run."""
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
    """Let the service grow by ``headroom`` bytes and no more: the kernel kills what does.

    Files that it has in the page cache count, and go first.
    """
    pid = service_pid(service)
    found = member("memory", pid) if pid is not None else None
    if found is None:
        raise RefusedError("there is no control group for memory on this host")
    path, version = found
    usage = path / ("memory.usage_in_bytes" if version == 1 else "memory.current")
    used = int(usage.read_text())
    limit = path / ("memory.limit_in_bytes" if version == 1 else "memory.max")
    limit.write_text(str(used + headroom))
    return {"means": f"cgroup v{version}", "used": used, "limit": int(limit.read_text())}


def free_memory(service: Request) -> Evidence:
    """End the limit; tell how often it was met, and how often somebody was killed for it."""
    found = group("memory", make=False)
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
    """Let the kernel kill the service for want of memory: a neighbour takes all there is.

    The neighbour is a child of ours in the same group, and the service is the one to be chosen
    first. Where there is no group it is killed by SIGKILL, which is what it would see of it.
    """
    pid = service_pid(service)
    if pid is None:
        raise RefusedError("the service does not run")
    if member("memory", pid) is None:
        os.kill(pid, signal.SIGKILL)
        return {"pid": pid, "means": "SIGKILL"}
    began = time.monotonic()
    told = limit_memory(service, 4 * CHUNK)
    path, version = member("memory", pid) or (Path(), 1)
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
        raise RefusedError("the service lives although its memory is used up")
    kills = events.get("oom_kills", 0) - before
    return {"pid": pid, **told, "oom_kills": kills, "gone_after_us": gone_after}


def take_memory(path: Path) -> None:
    """Use more and more memory, as a member of the group, until killed; never returns."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # With the agent it ends, too.
        (path / "cgroup.procs").write_text(str(os.getpid()))
        taken = []
        while True:
            chunk = mmap.mmap(-1, CHUNK)
            for place in range(0, CHUNK, PAGE):
                chunk[place] = 1
            taken.append(chunk)
    finally:
        os._exit(1)


# --- files ------------------------------------------------------------------------------


def limit_files(service: Request, headroom: int) -> Evidence:
    """Let the service open ``headroom`` more files or connections, and no more."""
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
    """End the limit, if the process still lives that has it."""
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
    """Take ``what`` from a service; ``amount`` is what it keeps.

    ``cpu``, ``memory``, ``files``, ``oom``; and ``duty``: CPU, as where there are no groups.
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
    """Give back all that was taken from a service; tell what that did."""
    service = request["service"]
    return free_cpu(service) | free_memory(service) | free_files(service)


ACTIONS = {action.__name__: action for action in (squeeze, release, squeeze_means)}
