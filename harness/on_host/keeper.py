"""On a host: a keeper process for each service; no descendant of the service escapes it.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

The keeper is a child subreaper (prctl(2)): a process that its service leaves behind by a double
fork becomes the keeper's child, whatever its session and process group. The keeper records how the
service ended, enforces the limit of its disk space, and ends with the last descendant.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host import squeeze
from kraftwreck.harness.on_host.process import (
    RefusedError,
    process_state,
    recorded_pid,
    service_pid,
)

Service = dict[str, Any]

PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 1.0
"""Seconds between two measurements of the disk space of a service, at least."""
MEGABYTE = 1 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def kept_file(service: Service, kind: str) -> Path:
    """Return the path of a record about the service: ``keeper``, ``end``."""
    return Path(service["pid_file"] + "." + kind)


def spawn_kept(service: Service) -> int:
    """Start the service below a new keeper; return its pid once it has executed its program.

    Raises RefusedError with the reason if the program cannot be executed.
    """
    kept_file(service, "end").unlink(missing_ok=True)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.close(read)
            _keep(service, write)
        finally:
            os._exit(127)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    if not said.isdigit():
        raise RefusedError(said or "its keeper could not be started")
    return int(said)


def _keep(service: Service, report: int) -> None:
    """Be the keeper: start the service, report its pid or an error, and stay until it is gone."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    Path(service["log"]).parent.mkdir(parents=True, exist_ok=True)  # A crash may have lost it.
    log = os.open(service["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    failed, failing = os.pipe()  # Closed by a successful exec.
    main = os.fork()
    if main == 0:
        try:
            _become(service)
        except BaseException as error:
            os.write(failing, f"{service['argv'][0]}: {error}".encode())
        finally:
            os._exit(127)
    os.close(failing)
    refusal = os.read(failed, 4096)
    os.write(report, refusal or str(main).encode())
    if not refusal:
        record(service["pid_file"], f"{main} {process_state(main)[1]}\n")
        mine = os.getpid()
        record(kept_file(service, "keeper"), f"{mine} {process_state(mine)[1]}\n")
    os.close(report)
    os.closerange(3, 64)
    _watch(service, main)
    os._exit(0)


def _become(service: Service) -> None:
    """Become the service; returns only by an exception."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    squeeze.join(service)
    os.chdir(service.get("cwd", "/"))
    _drop_to(service.get("user", "root"))
    os.execve(service["argv"][0], service["argv"], environment(service))  # noqa: S606 - a vector


def _drop_to(user: str) -> None:
    account = pwd.getpwnam(user) if user != "root" else None
    if account is not None:
        os.initgroups(user, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)


def environment(service: Service) -> dict[str, str]:
    """Return the whole environment of a service: nothing of the SSH session is in it."""
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **service.get("env", {})}


def record(path: Any, text: str) -> None:
    """Write a small file atomically."""
    part = Path(f"{path}.part")
    part.write_text(text)
    part.replace(path)


def _watch(service: Service, main: int) -> None:
    """Reap descendants and measure disk space until no descendant is left."""
    end: dict[str, Any] = {}
    pause = LOOK_S
    looked = time.monotonic()
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, pause)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if not end.get("left"):
                    return
                _save(service, end, left=False)
                return
            if pid == 0:
                break
            if pid == main:
                _save(service, end, status=os.waitstatus_to_exitcode(status), left=True)
        limit = service.get("disk_limit_mb")
        if limit and time.monotonic() - looked >= pause:
            began = time.monotonic()
            used = disk_use([*service.get("folders", ()), service["log"]])
            if used > limit * MEGABYTE:
                _save(service, end, full_mb=used // MEGABYTE)
                for pid in descendants(os.getpid()):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            looked = time.monotonic()
            pause = max(LOOK_S, 20 * (looked - began))


def _save(service: Service, end: dict[str, Any], **fields: Any) -> None:
    end.update(fields)
    with suppress(OSError):  # A full disk must not end the keeper.
        record(kept_file(service, "end"), json.dumps(end))


def disk_use(paths: list[str]) -> int:
    """Return the bytes that files below ``paths`` take on the disk, without their holes."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += os.lstat(path).st_blocks * 512
        for folder, _, files in os.walk(path):
            for file in files:
                with suppress(OSError):
                    total += os.lstat(os.path.join(folder, file)).st_blocks * 512  # noqa: PTH118
    return total


# --- seen from an agent -----------------------------------------------------------------


def ending(service: Service) -> dict[str, Any]:
    """Return what the keeper has recorded: ``status`` of the main process (negative: a signal),
    ``left`` (descendants remained), ``full_mb`` (killed because of its disk space)."""
    try:
        told: dict[str, Any] = json.loads(kept_file(service, "end").read_text())
    except (OSError, ValueError):
        return {}
    return told


def keeper_pid(service: Service) -> int | None:
    """Return the pid of the service's keeper, None if there is none."""
    return recorded_pid(kept_file(service, "keeper"))


def members(service: Service) -> list[int]:
    """Return all processes of the service: the main one first, then its descendants."""
    main, keeper = service_pid(service), keeper_pid(service)
    below = descendants(keeper) if keeper is not None else []
    if main is not None and keeper is None:
        below = descendants(main)
    return [*([main] if main is not None else []), *(pid for pid in below if pid != main)]


def descendants(ancestor: int) -> list[int]:
    """Return the living processes below ``ancestor``, from one look at /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    left = [ancestor]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found
