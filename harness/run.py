"""One complete test on real hosts: deploy, run clients and faults, heal, read, collect.

After any error (an exception, Ctrl-C, a full disk) the cluster is healed, the history is kept, the
available files are collected, and the hosts are released.
"""

from __future__ import annotations

import errno
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.capabilities import Environment
from kraftwreck.harness.clusters.cluster import (
    Cluster,
    ClusterUnavailable,
    Host,
    Machines,
    node_names,
)
from kraftwreck.harness.inspection import GLANCE_S, SETTLE_S
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.interrupts import Interrupted, Interrupts
from kraftwreck.harness.layout import layout_of
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.options import RunOptions, repeat_command
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.planning import final_of, generator_of
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.harness.run_errors import Trouble, merge
from kraftwreck.harness.system import (
    Deployed,
    Disturbed,
    Followed,
    Housed,
    Inspected,
    Preparing,
    Recording,
    Remarkable,
    System,
)
from kraftwreck.harness.threads import FaultInjector, Threads
from kraftwreck.harness.workload import ClientSetting, Load, Workload, floor, owed
from kraftwreck.histories import members as members_file
from kraftwreck.histories.exit_codes import FAILED, BadInputError
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.members import Member
from kraftwreck.histories.reading import convert_run
from kraftwreck.histories.store import JsonLines, RunFolder, StoreError
from kraftwreck.nodes.draw import draw_below

SET_UP_S = 90.0 * PATIENCE
"""How long a new cluster may take to serve clients, on a busy machine."""
READY_S = 30.0 * PATIENCE
"""How long a healed cluster may take to serve clients."""
CLIENT_WAIT_S = 10.0 * PATIENCE
"""How long open operations may take after the last one began."""
OPERATION_LIMIT_S = 60.0 * PATIENCE
"""How long one attempt of an operation may take before its client counts as hanging."""
PROGRESS_S = 1.0

InjectorFactory = Callable[[Environment, Callable[[], int]], FaultInjector]


@dataclass(slots=True)
class Outcome:
    """The result of a test. ``errors`` are errors of the harness, one line each.

    ``judgeable`` is False if there is not enough to judge: the system never ran, or the disk is
    full.
    """

    folder: Path
    errors: list[str] = field(default_factory=list)
    interrupted: bool = False
    judgeable: bool = True
    failure: int = FAILED
    """The exit code for ``errors``: 254 if the user can fix the cause."""


class TestRun:
    """One test. Call :meth:`go` once, from the main thread."""

    __test__ = False

    def __init__(
        self,
        options: RunOptions,
        *,
        system: System,
        workload: Workload,
        schedule: Sequence[Fault],
        injector: InjectorFactory,
        cluster: Cluster,
        say: Callable[[str], None],
        tree: Path = PROJECT_TREE,
        began: Callable[[Path], None] = lambda folder: None,
        collected: Callable[[Path], None] = lambda folder: None,
        complete: Callable[[Path], None] = lambda folder: None,
    ) -> None:
        """``say`` prints a line for people. The others are called with the folder: ``began`` when
        clients are about to begin, ``collected`` when it has the recordings of all nodes.
        ``complete`` follows when it has its final name; the hosts are being released meanwhile.

        ``tree`` is the node code to deploy. Raises
        :class:`~histories.store.StoreError` when the store cannot be written.
        """
        self._options = options
        self._system = system
        self._workload = workload
        self._schedule = schedule
        self._make_injector = injector
        self._cluster = cluster
        self._say = say
        self._tree = tree
        self._began, self._collected, self._complete = began, collected, complete
        self._folder = RunFolder(options.store, options.name, options.seed)
        self._layout = layout_of(system, options)
        self._nodes = tuple(node_names(len(self._layout.roles)))
        self._errors: list[Trouble] = []
        self._disk_full = False
        self._failure = FAILED
        self._interrupts = Interrupts()
        self._deployed: Deployed | None = None
        self._driver: Threads | None = None
        self._lines = [
            JsonLines(self._folder.path / name) for name in ("history.jsonl", "faults.jsonl")
        ]
        self._start_ns = time.monotonic_ns()
        self._test = self._describe()
        self._folder.write_json("test.json", self._test)

    def go(self) -> Outcome:
        """Run the test; never raises errors of the run."""
        with self._interrupts as interrupts:
            try:
                self._phase("set-up", self._set_up)
                if self._deployed is not None and not self._errors:
                    interrupts.gentle = True
                    self._phase("run", self._run)
                interrupts.gentle = True
                self._phase("wind-down", self._wind_down)
            except Interrupted:
                self._say("interrupted: tearing down")
            interrupts.deaf = True
            self._tear_down()
            interrupted = interrupts.count > 0
        self._test["interrupted"] = interrupted
        self._store()
        judgeable = self._deployed is not None and not self._disk_full
        with ThreadPoolExecutor(1, "release") as pool:
            released = pool.submit(self._cluster.down)
            if judgeable:
                self._complete(self._folder.path)
            self._phase("cluster down", released.result)
        if merge(self._errors) != self._test["errors"]:
            self._describe_result()
        return Outcome(
            self._folder.path, merge(self._errors), interrupted, judgeable, self._failure
        )

    # --- phases ---------------------------------------------------------------------------

    def _set_up(self) -> None:
        options = self._options
        begun = time.monotonic()
        hosts = self._bring_up()
        self._say(f"{len(hosts)} hosts are up after {time.monotonic() - begun:.1f} s")
        if [host.node_id for host in hosts] != list(range(1, len(hosts) + 1)):
            raise ValueError("the hosts' node ids must be 1, 2, ... in the order of the hosts")
        self._nodes = tuple(host.name for host in hosts)
        if len(hosts) != len(self._layout.roles):
            raise ValueError(f"{len(hosts)} hosts for {len(self._layout.roles)} nodes")
        self._test |= self._layout.members(self._nodes)
        self._deployed = self._system.deploy(hosts, options, self._tree)
        if isinstance(self._deployed, Housed) and isinstance(self._cluster, Machines):
            self._deployed.use(self._cluster)
        leader = self._deployed.ready(SET_UP_S)
        self._say(f"{options.system} is ready after {time.monotonic() - begun:.1f} s: {leader}")
        self._began(self._folder.path)
        offsets = self._deployed.clocks()
        self._start_ns = time.monotonic_ns()
        start_us = self._start_ns // 1000
        self._test["started_wall"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._test["start_mono_us"] = start_us
        self._test["clock"] = {
            node: {"offset_us": offset + start_us} for node, offset in offsets.items()
        }
        self._folder.write_json("test.json", self._test)

    def _bring_up(self) -> list[Host]:
        """Bring the hosts up, while the system prepares its deployment.

        An error in preparing also occurs in deploying, which reports it.
        """
        with ThreadPoolExecutor(1, "prepare") as pool:
            if isinstance(self._system, Preparing):
                pool.submit(self._system.prepare, self._tree)
            return self._cluster.up()

    def _run(self) -> None:
        """Run clients and faults until the time limit, an interrupt or a full disk."""
        deployed = self._deployed
        assert deployed is not None
        self._driver = driver = self._make_driver(deployed)
        self._follow(deployed, driver)
        watch = _Watch(deployed)
        watch.start()
        driver.start()
        try:
            self._wait(driver, watch)
        finally:
            watch.stop()

    def _make_driver(self, deployed: Deployed) -> Threads:
        options, (history, faults) = self._options, self._lines
        injector = self._make_injector(deployed.env, self._clock)
        operations = Operations(
            generator_of(
                self._workload, Load(options.concurrency, options.rate, options.transaction)
            ),
            seed=options.seed,
            concurrency=options.concurrency,
            limit=int(OPERATION_LIMIT_S * 1e9),
        )
        gateways = self._gateways()
        return Threads(
            Interpreter(
                operations,
                self._schedule,
                self._nodes,
                lambda: injector.out,
                compares=isinstance(deployed, Inspected),
            ),
            client_of=lambda thread: deployed.client(
                self._workload, self._setting(thread, gateways)
            ),
            connect=deployed.connect,
            concurrency=options.concurrency,
            injector=injector,
            history=history,
            faults=faults,
            clock=self._clock,
            compare=partial(self._compare, deployed),
        )

    def _follow(self, deployed: Deployed, driver: Threads) -> None:
        """Pass the nodes' trace events to faults that wait for transitions."""
        if not self._schedule:
            return
        if isinstance(deployed, Followed):
            deployed.follow(lambda event, us: driver.see(event, us * 1000 - self._start_ns))
        elif driver.needs_traces:
            raise ValueError("faults wait for transitions, but this system has no traces")

    def _setting(self, thread: int, gateways: Sequence[str]) -> ClientSetting:
        electing = self._nodes[: self._layout.electing]
        return ClientSetting(thread, self._options.seed, electing, gateways)

    def _gateways(self) -> tuple[str, ...]:
        """Return the nodes to which writes go: the gateways in half of the runs."""
        drawn = draw_below(2, self._options.seed, "gateways") == 1
        return self._layout.gateways(self._nodes) if drawn else self._needed_gateways()

    def _needed_gateways(self) -> tuple[str, ...]:
        """Return the gateways if the workload sends everything to them."""
        needed = getattr(self._workload, "through_gateways", False)
        return self._layout.gateways(self._nodes) if needed else ()

    def _wait(self, driver: Threads, watch: _Watch) -> None:
        limit = self._options.time_limit_s
        shown = 0.0
        while (now := self._clock() / 1e9) < limit:
            if self._interrupts.asked.wait(min(0.1, limit - now)):
                self._say(
                    "interrupted: ending the test early; interrupt again to tear down at once"
                )
                return
            if driver.failure is not None:
                raise driver.failure
            if driver.differ:
                self._say(f"members differ after {now:.1f} s: ending the test early")
                return
            if now - shown >= PROGRESS_S:
                shown = now
                active = ", ".join(driver.injector.active) or "no faults"
                if driver.waiting:
                    active += f", {driver.waiting} armed"
                parts = filter(None, (driver.summary, watch.position, active))
                self._say(f"{now:5.0f} s  {'  |  '.join(parts)}")

    def _wind_down(self) -> None:
        """Heal, let clients finish, read everything again, stop, collect."""
        driver, deployed = self._driver, self._deployed
        if deployed is None:
            return
        if driver is not None:
            self._say("healing")
            self._phase("heal", driver.heal)
            self._errors.extend(trouble.during("fault") for trouble in driver.errors)
        if isinstance(deployed, Followed):
            self._phase("traces", deployed.unfollow)
        self._phase("restore", lambda: self._restore(deployed))
        self._test["healed"] = self._clock()
        if driver is not None:
            self._phase("clients", lambda: driver.stop(CLIENT_WAIT_S))
            self._phase("recovery", lambda: self._recovered(deployed))
            if not self._disk_full:
                self._phase("final operations", self._final_operations)
                if isinstance(deployed, Inspected):
                    self._phase("inspect", partial(self._inspect, driver, deployed))
        # From here on the harness ends the nodes, which is not judged.
        self._test["judged_until"] = self._clock()
        if isinstance(deployed, Disturbed):
            self._phase("clocks", partial(self._sample_clocks, deployed))
        self._phase("stop", deployed.stop)
        if isinstance(deployed, Remarkable):
            self._test["notes"] = list(deployed.notes)
            for note in deployed.notes:
                self._say(f"note: {note}")
        if not self._disk_full:
            self._say("collecting")
            self._phase("collect", lambda: self._collect(deployed))

    def _collect(self, deployed: Deployed) -> None:
        """Copy the nodes' recordings; record which are missing: without them no record of other
        nodes proves anything about them (see :func:`checkers.registry.check`)."""
        try:
            deployed.collect(self._folder.path)
        except RemoteError as error:
            self._test["uncollected"] = sorted(error.hosts)
            raise
        self._collected(self._folder.path)

    def _sample_clocks(self, deployed: Disturbed) -> None:
        """Record samples of the clocks that were set, for checkers to translate times."""
        for node, samples in deployed.clock_samples().items():
            clock = self._test["clock"][node]
            clock["samples"] = [[host - clock["offset_us"], own] for host, own in samples]

    def _restore(self, deployed: Deployed) -> None:
        """Undo all faults again, in case their own healing failed."""
        self._errors.extend(trouble.during("restore") for trouble in deployed.restore())

    def _recovered(self, deployed: Deployed) -> None:
        """Wait until the healed cluster serves again; if it does not, that is a finding."""
        begun = time.monotonic()
        try:
            leader = deployed.ready(READY_S)
        except TimeoutError as error:
            self._test["recovered_s"] = None
            self._test["unrecovered"] = str(error)
            self._say(f"the healed cluster did not recover: {error}")
            return
        self._test["recovered_s"] = round(time.monotonic() - begun, 3)
        self._say(f"recovered: {leader}")

    def _final_operations(self) -> None:
        assert self._driver is not None
        assert self._deployed is not None
        planned = final_of(self._workload, self._nodes)
        if not planned:
            return
        self._say("final operations")
        # A new client: the first thread's own may have been cut off during an operation.
        client = self._deployed.client(self._workload, self._setting(0, self._needed_gateways()))
        self._driver.final(planned, client)

    def _compare(self, deployed: Deployed) -> bool:
        """Return whether members differ, after a storm; record the first states that do."""
        assert isinstance(deployed, Inspected)
        members = deployed.members(GLANCE_S)
        if not any(members_file.differing(members)):
            return False
        self._record(members)
        return True

    def _inspect(self, driver: Threads, deployed: Inspected) -> None:
        """Record what each member holds by its own account, for the checker ``members``.

        States that differed during the test stay recorded: no later ones disprove them.
        """
        if not driver.differ:
            self._record(deployed.members(SETTLE_S))

    def _record(self, members: Mapping[str, Member]) -> None:
        if members:
            self._folder.write_json(members_file.FILE, msgspec.to_builtins(dict(members)))

    def _tear_down(self) -> None:
        if self._driver is not None:
            # After a second interrupt clients may still be running.
            driver = self._driver
            self._phase("clients", lambda: driver.stop(0.0))
            self._phase("clients", driver.close)
        for lines in self._lines:
            self._phase("store", lines.close)
        if self._deployed is not None:
            self._phase("close", self._deployed.close)

    def _store(self) -> None:
        """Give the folder its last files and its final name."""
        self._describe_result()
        if not self._disk_full:
            self._phase("convert", lambda: convert_run(self._folder.path))
        self._phase("store", self._folder.complete)

    def _describe_result(self) -> None:
        """Write ``test.json`` with the errors so far, unless the disk is full."""
        self._test["errors"] = merge(self._errors)
        if not self._disk_full:
            self._phase("store", lambda: self._folder.write_json("test.json", self._test))

    # --- small things ---------------------------------------------------------------------

    def _phase(self, name: str, action: Callable[[], object]) -> None:
        """Do one step; print and keep an error, and let later steps run."""
        try:
            action()
        except Exception as error:
            self._disk_full |= _is_full_disk(error)
            if isinstance(error, ClusterUnavailable | BadInputError):
                self._failure = error.exit_code
            text = " ".join(str(error).split()) or type(error).__name__
            if not isinstance(error, StoreError | OSError) and type(error).__module__ == "builtins":
                text = f"{type(error).__name__}: {text}"
            trouble = Trouble.of(error, text, name)
            if trouble not in self._errors:
                self._errors.append(trouble)
                self._say(f"error: {trouble}")

    def _clock(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def _describe(self) -> dict[str, Any]:
        options, system = self._options, self._system
        return {
            **(system.facts(options) if isinstance(system, Recording) else {}),
            **options.as_json(),
            "name": options.name,
            **self._layout.members(self._nodes),
            "options": options.as_json(),
            "repeat": repeat_command(options),
            "simulated": False,
            "started_wall": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "schedule": msgspec.to_builtins(list(self._schedule)),
            "checkers": list(dict.fromkeys([*self._workload.checkers, *self._system.checkers])),
            "owed": owed(self._workload),
            "floor": floor(self._workload, options.floor),
            "versions": {
                "kraftwreck": version("kraftwreck"),
                "python": platform.python_version(),
                "kernel": platform.release(),
                **self._system.describe(self._tree),
            },
        }


def _is_full_disk(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is a full disk of the control node."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return True
        error = error.__cause__
    return False


class _Watch:
    """Keeps the leader and epoch of the progress line up to date, on a separate thread."""

    def __init__(self, deployed: Deployed) -> None:
        self.position = ""
        self._deployed = deployed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(PROGRESS_S):
            try:
                self.position = self._deployed.position()
            except Exception as error:
                # Only for display: the run continues without it.
                self.position = f"leader unknown ({type(error).__name__})"
