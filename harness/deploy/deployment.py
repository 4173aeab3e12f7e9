"""Any server on hosts, over SSH: install artefacts and files, run processes by name, collect files.

Paths on every host: ``/opt/kraftwreck/artefacts/<artefact>``, ``/etc/kraftwreck/<process>``,
``/var/lib/kraftwreck/<process>`` (data), ``/var/log/kraftwreck/<process>`` (output), where the main
process is called ``main``. In the run folder the files of ``n2`` are in ``nodes/n2``, and those of
``n2/sentinel`` in ``nodes/n2/sentinel``.
"""

from __future__ import annotations

import json
import os
import shlex
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from kraftwreck.harness.archive import compressed
from kraftwreck.harness.capabilities import Evidence
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.state import control_boot_id
from kraftwreck.harness.deploy.cache import Fetched
from kraftwreck.harness.deploy.declaration import (
    ARTEFACTS,
    CONFIGURATION,
    DATA,
    IMAGES,
    LOGS,
    MAIN,
    Place,
    Process,
    check,
    full_name,
    service,
)
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.remote.agent import ANSWER_TIMEOUT_S, Agent
from kraftwreck.harness.remote.preloads import CLOCK, libraries, preloading
from kraftwreck.harness.remote.session import (
    TREE_TIMEOUT_S,
    Remote,
    RemoteError,
    Result,
    UnreachableError,
    on_all,
    unpack,
)
from kraftwreck.harness.remote.ssh import invoke

SETTLE_S = 3.0
"""How long deploying waits for pending operations of a killed run on a host."""
SLACK_S = 10.0 * PATIENCE
"""How much longer than the host itself the control node waits for its answer."""
INSTALL_TIMEOUT_S = 120 * PATIENCE
MEGABYTE = 1 << 20
_AT_ONCE = 1 + (os.cpu_count() or 1)
"""How many hosts that share the processors of this machine are installed at once: a small number
lets the first processes start earlier and the last ones no later."""
PYTHON = "/usr/bin/python3"
_WALL = (PYTHON, "-c", "import time; print(time.time_ns() // 1000)")
_LOADS = (PYTHON, "-c", "import sys, time; sys.stdout.write(str(time.monotonic_ns()))")
LEFT_OUT = "left-out.json"
"""In the run folder: declared files that were too large to collect, with their sizes."""


class PlainDeployment:
    """The processes of one run. Methods raise :class:`RemoteError` with one line.

    ``declared`` has the processes by host. ``squeezable`` lets each process join control groups of
    its own; ``own_clocks`` and ``own_disks`` preload the libraries that change the clocks of each
    and break the first one of its folders.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        places: Mapping[str, Place],
        declared: Mapping[str, Sequence[Process]],
        artefacts: Sequence[Fetched],
        *,
        squeezable: bool = False,
        own_clocks: bool = False,
        own_disks: bool = False,
    ) -> None:
        self.own_clocks = own_clocks
        self.own_disks = own_disks
        self.hosts = {host.name: host for host in hosts}
        self.processes: dict[str, Process] = {}
        self.services: dict[str, dict[str, Any]] = {}
        self.host_of: dict[str, str] = {}
        for host, processes in declared.items():
            for process in check(host, processes):
                name = full_name(host, process)
                self.processes[name] = process
                self.host_of[name] = host
                own = preloading(
                    process.environment, process.folders, clocks=own_clocks, disks=own_disks
                )
                made = service(places[host], process, squeezable=squeezable)
                self.services[name] = {**made, **own}
        self.artefacts = tuple(artefacts)
        self.remotes = {name: Remote(host) for name, host in self.hosts.items()}
        self.agents = {name: Agent(remote) for name, remote in self.remotes.items()}
        self._slow = {name: Agent(remote) for name, remote in self.remotes.items()}
        """Agents for operations that take seconds, so that no fault waits for them."""
        self._fresh = False
        """Whether no earlier run can have used the hosts (:class:`FirstUse`)."""
        self.notes: list[str] = []
        """Remarkable events of this run, one line each."""

    def on_host(self, host: str) -> list[str]:
        """Return the names of a host's processes, the main one first."""
        return [name for name, place in self.host_of.items() if place == host]

    # --- installing -----------------------------------------------------------------------

    def install(self) -> None:
        """Install everything, and end what earlier runs have left."""
        self._on_checked(self._install)

    def start_all(self) -> None:
        """Start all processes that do not run, those of a host in their order."""
        on_all(list(self.hosts), self._start_host)

    def install_and_start(self) -> None:
        """Install everything, and start the processes of each host as soon as it is installed."""
        self._on_checked(self._install_and_start)

    def _install_and_start(self, host: str) -> None:
        self._install(host)
        for name in self.on_host(host):
            # There is no fault yet that would wait for this agent.
            self._start(name, self.agents)

    def _on_checked(self, install: Callable[[str], None]) -> None:
        """Check and install every host; unless all are fresh, end what is left on any of them
        before the first is installed."""
        uses = {host.first_use for host in self.hosts.values()}
        first_use = uses.pop() if len(uses) == 1 else None
        self._fresh = first_use is not None and first_use.take()
        if not self._fresh:
            on_all(list(self.hosts), install, at_once=self._begin())
            return

        def check_and_install(host: str) -> None:
            self._check_host(host)
            install(host)

        on_all(list(self.hosts), check_and_install, at_once=_AT_ONCE)

    def _begin(self) -> int:
        """Check all hosts, and end what earlier runs have left on any of them, before something
        starts that it could reach; return how many to install at once."""
        at_once = self.check_hosts()
        on_all(list(self.hosts), self._end_earlier)
        return at_once

    def _end_earlier(self, host: str) -> None:
        # An earlier run may have been killed during an operation on its host.
        self.agents[host].ask("settled", wait_s=SETTLE_S)
        self.agents[host].ask("end_services")

    def check_hosts(self) -> int:
        """Check that hosts have what is needed; return how many to install at once.

        If hosts share the processors of this machine, a small number lets the first processes start
        earlier and the last ones no later.
        """
        found = on_all(list(self.hosts), self._check_host).values()
        shared = {str(each["boot_id"]) for each in found} == {control_boot_id()}
        return _AT_ONCE if shared else len(self.hosts)

    def _check_host(self, name: str) -> Evidence:
        """Raise an error with what is missing; return what the host says of itself."""
        found = self.agents[name].ask("hello")
        if not found["privileged"]:
            raise RemoteError(name, "commands do not run as root: log in as root or set become")
        for tool, there in found["tools"].items():
            if not there:
                package = {"nft": "nftables"}.get(tool, tool)
                raise RemoteError(name, f"{tool} is missing: apt-get install {package}")
        return found

    def _install(self, host: str) -> None:
        if not self._fresh:
            agent = self.agents[host]
            agent.ask("heal")
            agent.ask("heal_network")
            agent.ask("right_date", control=control_boot_id())
        self._prepare_folders(host)
        for artefact in self.artefacts:
            self._send(host, artefact.tar, f"{ARTEFACTS}/{artefact.name}", artefact.name)
        files = {
            path: content.encode() if isinstance(content, str) else content
            for name in self.on_host(host)
            for path, content in self.processes[name].files.items()
        }
        files |= libraries(clocks=self.own_clocks, disks=self.own_disks)
        if files:
            self._place(host, files)
        self._check_libraries(host)

    def _prepare_folders(self, host: str) -> None:
        """Empty the folders of a host; only those of data must outlive a crash right afterwards."""
        own, data = [ARTEFACTS, CONFIGURATION, LOGS, IMAGES], dict[str, list[str]]()
        for name in self.on_host(host):
            process = self.processes[name]
            short = process.name or MAIN
            own += [f"{each}/{short}" for each in (LOGS, IMAGES, CONFIGURATION)]
            data.setdefault(process.user, []).extend(process.folders or [f"{DATA}/{short}"])
        ask = self.agents[host].ask
        ask("prepare_folders", paths=own, user="root", lasting=False)
        for user, folders in data.items():
            ask("prepare_folders", paths=folders, user=user, lasting=True)

    def _check_libraries(self, host: str) -> None:
        """Reset clocks and disks, and check that the preloaded libraries work on the host."""
        if self.own_clocks:
            self.ask(host, "create_clock")
        if self.own_disks:
            self.ask(host, "create_disk")
        if self.own_clocks or self.own_disks:
            done = self._run_preloaded(host, _LOADS)
            if done.stderr:
                said = done.stderr.decode(errors="replace").strip().splitlines()[-1]
                raise RemoteError(host, f"a preloaded library cannot be loaded: {said}")

    def _run_preloaded(self, host: str, argv: Sequence[str]) -> Result:
        """Run a command with the libraries that the host's processes preload."""
        own = preloading(
            {}, self.processes[host].folders, clocks=self.own_clocks, disks=self.own_disks
        )
        env = [f"{key}={value}" for key, value in own["env"].items()]
        return self.remotes[host].run(["env", *env, *argv])

    def _place(self, host: str, files: Mapping[str, bytes]) -> None:
        """Write a few MB of files by absolute path, by the agent: another channel would cost a
        process and several round trips more."""
        packed = {path: compressed(content) for path, content in files.items()}
        sizes = [[path, len(content)] for path, content in packed.items()]
        attached = b"".join(packed.values())
        try:
            self.agents[host].send("place_files", attached, INSTALL_TIMEOUT_S, files=sizes)
        except UnreachableError:
            raise
        except RemoteError as failure:
            raise RemoteError(host, f"files could not be installed: {failure.said}") from failure

    def _send(self, host: str, source: Path, target: str, what: str) -> None:
        """Copy a tar to the host and unpack it below ``target``."""
        remote = self.remotes[host]
        parcel = f"/tmp/kraftwreck-{host}-{what}.tar"  # noqa: S108 - on the host, our session
        make = remote.command(["mkdir", "-p", target])
        extract = remote.command(["tar", "-xf", parcel, "-C", target, "--no-same-owner"])
        connection = remote.fabric()
        try:
            connection.put(str(source), parcel)
            line = f"{make} && {extract} && rm -f {shlex.quote(parcel)}"
            connection.run(line, hide=True, in_stream=False, timeout=INSTALL_TIMEOUT_S)
        except (OSError, EOFError, invoke.exceptions.Failure) as failure:
            result = getattr(failure, "result", None)
            said = (result.stderr or result.stdout).strip().splitlines() if result else []
            reason = said[-1] if said else f"{failure or type(failure).__name__}"
            raise RemoteError(host, f"{what} could not be installed: {reason}") from failure

    def _start_host(self, host: str) -> None:
        for name in self.on_host(host):
            self.start(name)

    # --- processes ------------------------------------------------------------------------

    def _ask(self, name: str, do: str, agents: Mapping[str, Agent], **fields: Any) -> Evidence:
        host = self.host_of[name]
        try:
            return agents[host].ask(do, service=self.services[name], **fields)
        except RemoteError as error:
            if name == host or error.host != host:
                raise
            said = str(error).removeprefix(f"{host}: ")
            raise type(error)(host, f"{self.processes[name].name}: {said}") from error

    def start(self, name: str) -> Evidence:
        """Start a process and wait until it is ready; do nothing if it runs."""
        return self._start(name, self._slow)

    def _start(self, name: str, agents: Mapping[str, Agent]) -> Evidence:
        wait_s = self.processes[name].ready_s * PATIENCE
        return self._ask(name, "open_service", agents, wait_s=wait_s, timeout_s=wait_s + SLACK_S)

    def launch(self, name: str) -> Evidence:
        """Start a process without waiting until it is ready."""
        return self.ask(name, "launch_service")

    def stop(self, name: str, wait_s: float | None = None) -> Evidence:
        """End a process by its stop signal, after ``wait_s`` seconds by SIGKILL."""
        return self._stop(name, self._slow, wait_s)

    def _stop(self, name: str, agents: Mapping[str, Agent], wait_s: float | None) -> Evidence:
        wait_s = self.processes[name].stop_s if wait_s is None else wait_s
        evidence = self._ask(
            name, "close_service", agents, wait_s=wait_s, timeout_s=wait_s + SLACK_S
        )
        signal = self.processes[name].stop_signal
        if evidence.get("signal") == "SIGKILL" and wait_s > 0:
            self.note(f"{name} did not end within {wait_s:g} s of {signal}; it was killed")
        if evidence.get("left"):
            self.note(f"{name} left {evidence['left']} processes behind, which were killed")
        if "full" in evidence:
            self.note(f"{name}: {evidence['full']}")
        return evidence

    def note(self, line: str) -> None:
        """Add a line to :attr:`notes`, once."""
        if line not in self.notes:
            self.notes.append(line)

    def stop_all(self, wait_s: float | None = None) -> None:
        """End every process, those of a host in the reverse of their order."""

        def stop_host(host: str) -> None:
            for name in reversed(self.on_host(host)):
                # No fault waits for this agent any longer.
                self._stop(name, self.agents, wait_s)

        on_all(list(self.hosts), stop_host)

    def kill(self, name: str, label: str = "") -> Evidence:
        """kill -9 all of a process; with a ``label`` keep an image of its folders, if declared."""
        return self.ask(name, "kill_service", label=label if self.processes[name].images else "")

    def image(self, name: str, label: str, timeout_s: float = ANSWER_TIMEOUT_S) -> Evidence:
        """Keep an image of the folders of a process that is down, if it declares images."""
        if not self.processes[name].images:
            return {}
        return self.ask(name, "service_image", label=label, timeout_s=timeout_s)

    def pause(self, name: str) -> Evidence:
        """SIGSTOP a process and all it has started."""
        return self.ask(name, "pause_service")

    def resume(self, name: str) -> Evidence:
        """SIGCONT a process and all it has started."""
        return self.ask(name, "resume_service")

    def status(self, name: str) -> Evidence:
        """Return whether a process runs, its pid and state, or how it ended."""
        return self.ask(name, "service_status")

    def ask(self, name: str, do: str, **fields: Any) -> Evidence:
        """Carry out another action of the agent on a process."""
        return self._ask(name, do, self.agents, **fields)

    # --- clocks ---------------------------------------------------------------------------

    def clock_offsets(self) -> dict[str, int]:
        """Return every host's monotonic clock minus this machine's, in microseconds."""
        return dict(on_all(list(self.hosts), lambda name: self.agents[name].clock_offset()))

    def wall_ahead_us(self, host: str) -> int:
        """Return how far the wall clock of the host's processes is ahead of the host's own, in µs,
        as a program there reads both."""
        own = self._run_preloaded(host, _WALL).text
        offset = int(self.agents[host].ask("clock")["wall_us"]) - int(own)
        return -offset

    def right_clock(self, host: str) -> Evidence:
        """Undo the setting of the clock of the host's processes, if it was ever set."""
        return self.agents[host].ask("right_clock", path=CLOCK)

    # --- files ----------------------------------------------------------------------------

    def collect(self, run: Path) -> None:
        """Copy output and declared files of every process to ``run/nodes``, whatever its state.

        The error names unreachable hosts, after all others were collected.
        """
        on_all(list(self.hosts), lambda host: self._collect_host(host, run / "nodes" / host))

    def _collect_host(self, host: str, target: Path) -> None:
        problems = []
        for name in self.on_host(host):
            process = self.processes[name]
            short = process.name or MAIN
            into = target / process.name if process.name else target
            into.mkdir(parents=True, exist_ok=True)
            paths = [f"{LOGS}/{short}", f"{IMAGES}/{short}", *process.collect]
            try:
                limit = process.collect_mb * MEGABYTE
                told = self.agents[host].ask("choose_files", paths=paths, limit=limit)
                if told["left_out"]:
                    (into / LEFT_OUT).write_text(json.dumps(told["left_out"], indent=1) + "\n")
                self._fetch(host, told["files"], into, short)
            except RemoteError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def _fetch(self, host: str, files: Sequence[str], into: Path, short: str) -> None:
        """Copy files of a host by their names, which may be any bytes."""
        for prefix, below in (
            (f"{LOGS}/{short}/", into),
            (f"{IMAGES}/{short}/", into / "images"),
            ("/", into / "files"),
        ):
            mine = [name for name in files if name.startswith(prefix)]
            files = [name for name in files if not name.startswith(prefix)]
            if mine:
                names = b"".join(os.fsencode(name.removeprefix(prefix)) + b"\0" for name in mine)
                self._fetch_below(host, prefix, names, below)

    def _fetch_below(self, host: str, folder: str, names: bytes, into: Path) -> None:
        argv = ["tar", "-C", folder, "--sparse", "--warning=no-file-changed", "--null"]
        argv += ["--verbatim-files-from", "--ignore-failed-read", "-T", "-", "-cf", "-"]
        with self.remotes[host].channel(argv, TREE_TIMEOUT_S) as channel:

            def feed() -> None:
                channel.sendall(names)
                channel.shutdown_write()

            feeder = threading.Thread(target=feed, daemon=True)
            feeder.start()
            try:
                unpack(cast(IO[bytes], channel.makefile("rb", 1 << 16)), into)
            except (OSError, EOFError, tarfile.TarError) as failure:
                reason = f"the files below {folder} could not be read: {failure}"
                raise RemoteError(host, reason) from failure
            feeder.join(1.0)

    # --- sessions -------------------------------------------------------------------------

    def disconnect(self, host: str) -> None:
        """Close the sessions with a host that has crashed; the next use reconnects."""
        self.remotes[host].close()
        for agent in (self.agents[host], self._slow[host]):
            agent.close()

    def close(self) -> None:
        """End all sessions."""
        for agent in (*self.agents.values(), *self._slow.values()):
            agent.close()
        for remote in self.remotes.values():
            remote.close()
