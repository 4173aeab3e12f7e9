"""Processes of a system by name, as plain values: command, files, folders, ports, readiness.

A process of a host is called after it: ``n2`` is the main process of the host ``n2``, and
``n2/sentinel`` its process ``sentinel``. Its paths on the host come from :class:`Place`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.options import OptionError

MAIN = "main"
ARTEFACTS = "/opt/kraftwreck/artefacts"
CONFIGURATION = "/etc/kraftwreck"
DATA = "/var/lib/kraftwreck"
LOGS = "/var/log/kraftwreck"
IMAGES = "/var/log/kraftwreck-images"
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class PortOpen:
    """Ready when a TCP connection to ``port`` of the host is accepted."""

    port: int


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Ready when ``GET path`` answers with ``status`` and ``text`` is in the body."""

    port: int
    path: str = "/"
    status: int = 200
    text: str = ""


@dataclass(frozen=True, slots=True)
class OutputLine:
    """Ready when a line of the output since the start matches the regular expression ``pattern``
    (:func:`re.search`)."""

    pattern: str


@dataclass(frozen=True, slots=True)
class CommandSucceeds:
    """Ready when ``argv``, run on the host with the process's environment, exits with 0."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """Ready as soon as it runs."""


Ready = PortOpen | HttpAnswer | OutputLine | CommandSucceeds | Running
_KINDS: Mapping[type[Ready], str] = {
    PortOpen: "port",
    HttpAnswer: "http",
    OutputLine: "line",
    CommandSucceeds: "command",
    Running: "running",
}


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a host. It must stay in the foreground, and may start others.

    - ``argv``: the command; its first word is an absolute path on the host
    - ``name``: ``""`` for the host's main process
    - ``environment``: variables besides ``PATH``, ``HOME`` and ``LANG``; nothing is inherited
    - ``files``: contents by absolute path, written before the first start
    - ``folders``: folders that are made empty before the first start; they count for
      ``disk_limit_mb``, and belong to ``user``
    - ``ports``: TCP ports by name; they must be free when it starts
    - ``ready``: how to see that it serves, within ``ready_s`` seconds
    - ``settle_s``: how long it must live once it is ready, as one that goes to the background ends
    - ``stop_signal``: the signal of an orderly shutdown, SIGKILL follows after ``stop_s`` seconds
    - ``user``: the account on the host under which it runs
    - ``collect``: files and folders for the run folder, besides its output; ``collect_mb`` limits
      their size (0: no limit)
    - ``disk_limit_mb``: it is killed when its folders and its output take more (0: no limit)
    - ``images``: keep a copy of ``folders`` whenever a fault ends it
    """

    argv: tuple[str, ...]
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    ready: Ready = field(default_factory=Running)
    ready_s: float = 30.0
    settle_s: float = 0.1
    stop_signal: str = "SIGTERM"
    stop_s: float = 10.0
    user: str = "root"
    collect: tuple[str, ...] = ()
    collect_mb: int = 64
    disk_limit_mb: int = 2048
    images: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A host as a system sees it: ``number`` counts from 1, ``role`` is of the system's own."""

    name: str
    number: int
    ip: str
    role: str
    gateway: Path | None = None

    def artefact(self, name: str) -> str:
        """Return the folder of the artefact ``name`` on the host."""
        return f"{ARTEFACTS}/{name}"

    def data(self, process: str = "") -> str:
        """Return a data folder of the process; declare it in ``folders``. It is on the disk that
        loses power with the host."""
        return f"{DATA}/{process or MAIN}"

    def configuration(self, process: str = "") -> str:
        """Return the folder for configuration files of the process."""
        return f"{CONFIGURATION}/{process or MAIN}"

    @classmethod
    def of(cls, host: Host, role: str) -> Place:
        """Return the place of a host."""
        return cls(host.name, host.node_id, host.ip, role, host.gateway)


def full_name(host: str, process: Process) -> str:
    """Return the name of a process among all: ``n2`` or ``n2/sentinel``."""
    return f"{host}/{process.name}" if process.name else host


def check(host: str, processes: Iterable[Process]) -> tuple[Process, ...]:
    """Return the processes of a host, the main one first.

    Raises :class:`~kraftwreck.harness.options.OptionError`: one line with the process, what is
    wrong and what is expected.
    """
    checked = sorted(processes, key=lambda process: bool(process.name))
    names = [process.name for process in checked]
    if not checked or names[0]:
        raise OptionError(f"{host}: exactly one process must have no name, the main one")
    for process in checked:
        what = _mistake(process)
        if names.count(process.name) > 1:
            what = "another process has the same name"
        if what:
            raise OptionError(f"{full_name(host, process)}: {what}")
    return tuple(checked)


def _mistake(process: Process) -> str:
    """Return what is wrong with a declaration, "" for nothing."""
    texts = [*process.argv, *process.environment, *process.environment.values()]
    paths = [*process.files, *process.folders, *process.collect]
    if process.name and (not _NAME.fullmatch(process.name) or process.name == MAIN):
        return f"{process.name!r} is not a process name (a-z, 0-9, hyphens; not {MAIN!r})"
    if not process.argv or not all(isinstance(text, str) for text in texts):
        return "argv and environment must be texts, and argv not empty"
    if not process.argv[0].startswith("/"):
        return f"the program {process.argv[0]!r} must be an absolute path on the host"
    if any("\0" in text for text in [*texts, *paths]):
        return "a text has a NUL character"
    for path in paths:
        pure = PurePosixPath(path)
        if not pure.is_absolute() or ".." in pure.parts or len(pure.parts) < 3:
            return f"{path!r} must be an absolute path, at least two folders deep, without '..'"
    if process.stop_signal not in STOP_SIGNALS:
        return f"stop_signal {process.stop_signal!r} must be one of {', '.join(STOP_SIGNALS)}"
    if not _USER.fullmatch(process.user):
        return f"{process.user!r} is not a user name"
    if any(not 0 < port < 65536 for port in process.ports.values()):
        return "ports must be from 1 to 65535"
    if isinstance(process.ready, OutputLine):
        try:
            re.compile(process.ready.pattern)
        except re.error as error:
            return f"ready: {process.ready.pattern!r} is not a regular expression: {error}"
    return ""


def service(place: Place, process: Process, *, squeezable: bool = False) -> dict[str, object]:
    """Return the process as a service of the host's agent (:mod:`harness.on_host.services`)."""
    short = process.name or MAIN
    logs = f"{LOGS}/{short}"
    ready: dict[str, object] = {"kind": _KINDS[type(process.ready)]}
    for attribute in ("port", "path", "status", "text", "pattern", "argv"):
        if hasattr(process.ready, attribute):
            ready[attribute] = getattr(process.ready, attribute)
    return {
        "name": full_name(place.name, process),
        "pid_file": f"/run/kraftwreck-{short}.pid",
        "argv": list(process.argv),
        "env": dict(process.environment),
        "log": f"{logs}/stdout.log",
        "trace": f"{logs}/trace.jsonl",
        "data": (process.folders or (logs,))[0],
        "images": f"{IMAGES}/{short}",
        "folders": list(process.folders),
        "ip": place.ip,
        "ports": dict(process.ports),
        "ready": ready,
        "settle_s": process.settle_s,
        "user": process.user,
        "stop_signal": process.stop_signal,
        "disk_limit_mb": process.disk_limit_mb,
        **({"squeezable": True, "group": short} if squeezable else {}),
    }
