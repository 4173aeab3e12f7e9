"""One process's work on a night: runs in order, in parallel, until something ends it."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from types import TracebackType

from kraftwreck.harness.interrupts import listening
from kraftwreck.histories.store import StoreError, write_json
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.attempt import InterruptedRun
from kraftwreck.nightly.by_test import ByTest
from kraftwreck.nightly.child import Child
from kraftwreck.nightly.config import SIM, Config
from kraftwreck.nightly.folder import NightFolder
from kraftwreck.nightly.known import COVERAGE, read_coverage
from kraftwreck.nightly.one_run import Finished, Runner
from kraftwreck.nightly.plan import Order, Planned, Slot
from kraftwreck.nightly.record import Record
from kraftwreck.nightly.request import Tools
from kraftwreck.nightly.trees import Trees

LOOK_AHEAD = 200
"""How many positions ahead to look for a run while others must wait."""
SKIPPED = 10_000
"""After this many planned runs on abandoned clusters, there is nothing left to do."""
PATIENCE = 5
"""After this many consecutive harness failures, a cluster is abandoned."""
COVERAGE_S = 30.0


class Session:
    """The runs of one process; a context that handles Ctrl-C and SIGTERM while entered."""

    def __init__(
        self,
        config: Config,
        folder: NightFolder,
        trees: Trees,
        tools: Tools,
        *,
        finished: Callable[[Record], None],
        say: Callable[[str], None],
    ) -> None:
        """``finished`` is called for every run, in the main thread, once it is on disk."""
        self._config = config
        self._folder = folder
        self._runner = Runner(config, folder, trees, tools, self)
        self._finished = finished
        self._say = say
        self._begun = time.monotonic()
        self._before_s = max((record.at_s for record in folder.records), default=0.0)
        self._children: set[Child] = set()
        self._lock = threading.Lock()
        self._signals = 0
        self._told = False
        self._listening = ExitStack()
        self._results: queue.Queue[tuple[Planned, Finished | BaseException]] = queue.Queue()
        self._busy: set[str] = set()
        self._under_way = 0
        self._troubles: dict[str, int] = {}
        self._order: Order
        self.coverage = read_coverage(folder.path)
        self._by_test = ByTest.read(folder.path)
        self._covered = time.monotonic()
        self.given_up: dict[str, str] = {}
        self.enough = False
        """Set to end the night after the current runs."""

    # --- children, and who ends them --------------------------------------------------------

    def __enter__(self) -> Session:
        self._listening.enter_context(listening(self._heard))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.stop(at_once=True)
        self._listening.close()

    def _heard(self) -> None:
        self.stop(at_once=self._signals > 0)

    def stop(self, at_once: bool = False) -> None:
        """End the night: runs on hosts heal and release them, unless ``at_once``."""
        self._signals += 1
        for child in tuple(self._children):
            child.stop(at_once)

    @property
    def stopped(self) -> bool:
        """Whether an end was requested."""
        return self._signals > 0

    def add(self, child: Child) -> None:
        """Add a child; after a request to end, stop it at once."""
        self._children.add(child)
        if self.stopped:
            child.stop()

    def remove(self, child: Child) -> None:
        """Remove a child that has ended."""
        self._children.discard(child)

    # --- the loop ---------------------------------------------------------------------------

    def spent_s(self) -> float:
        """Seconds of the night's time spent, including earlier processes."""
        return self._before_s + time.monotonic() - self._begun

    def work(self, order: Order) -> str:
        """Make the unfinished runs of ``order``; return why it ended.

        ``runs``, ``hours``, ``enough``, ``interrupted`` or ``disk``. Raises StoreError.
        """
        self._order, done = order, self._folder.done
        waiting: deque[Slot] = deque()
        rest = (slot for slot in order.slots() if slot.n not in done)
        reason = "runs"
        while True:
            reason = self._over() or "runs"
            if reason == "runs":
                while self._under_way < self._config.jobs + len(self._busy):
                    chosen = self._next(waiting, rest)
                    if chosen is None:
                        break
                    self._begin(chosen)
            if self._under_way == 0:
                break
            self._take()
        self._save_coverage()
        return "interrupted" if self.stopped else reason

    def _over(self) -> str | None:
        hours = self._config.budget.hours
        if self.stopped:
            return "interrupted"
        if self.enough:
            return "enough"
        if hours is not None and self.spent_s() >= hours * 3600:
            return "hours"
        free = shutil.disk_usage(self._folder.path).free
        if free < self._config.free_bytes:
            self._say(f"only {free / 1e9:.1f} GB are free on the store's disk; the night stops")
            return "disk"
        return None

    def _next(self, waiting: deque[Slot], rest: Iterator[Slot]) -> Planned | None:
        """Return the first run that can start; each cluster has one run at a time."""
        simulated = self._under_way - len(self._busy)
        for each in tuple(waiting):
            if self._possible(each, simulated):
                waiting.remove(each)
                return self._order.planned(each)
            if each.cluster in self.given_up:
                waiting.remove(each)
        if len(waiting) >= LOOK_AHEAD:
            return None
        for found in islice(rest, SKIPPED):
            if self._possible(found, simulated):
                return self._order.planned(found)
            if found.cluster not in self.given_up:
                waiting.append(found)
            if len(waiting) >= LOOK_AHEAD:
                break
        return None

    def _possible(self, slot: Slot, simulated: int) -> bool:
        if slot.cluster == SIM:
            free = simulated < self._config.jobs
        else:
            free = slot.cluster not in self._busy and slot.cluster not in self.given_up
        return free and self._order.ready(slot)

    def _begin(self, planned: Planned) -> None:
        self._under_way += 1
        if _cluster(planned) != SIM:
            self._busy.add(_cluster(planned))
        threading.Thread(target=self._run, args=(planned,), name=f"run {planned.n}").start()

    def _run(self, planned: Planned) -> None:
        # The thread lives as long as its children: they die with it, and with this process.
        try:
            self._results.put((planned, self._runner.run(planned)))
        except BaseException as error:
            self._results.put((planned, error))

    def _take(self) -> None:
        """Wait for one run to end, and write it to disk."""
        while True:
            try:
                # A timeout lets signals be handled in between.
                planned, result = self._results.get(timeout=0.5)
                break
            except queue.Empty:
                if self.stopped and not self._told:
                    self._told = True
                    self._say(
                        "interrupted: waiting for current runs to end; interrupt again to kill them"
                    )
        self._under_way -= 1
        self._busy.discard(_cluster(planned))
        if isinstance(result, InterruptedRun):
            self._folder.unmark(planned.n)
            return
        finished = self._finished_run(planned, result)
        record = finished.record
        record.at_s = round(self.spent_s(), 3)
        self._order.finished(record, finished.coverage.follows if finished.coverage else {})
        self._folder.finish(record)
        self._count(record, finished.coverage)
        self._finished(record)

    def _finished_run(self, planned: Planned, result: Finished | BaseException) -> Finished:
        """Return a run's result; an exception costs this run, not the night."""
        if isinstance(result, Finished):
            return result
        if isinstance(result, StoreError) or not isinstance(result, Exception):
            raise result
        return self._runner.failed(planned, result)

    def _count(self, record: Record, reached: Coverage | None) -> None:
        cluster = record.cluster
        if cluster != SIM:
            bad = record.klass in ("harness", "environment")
            self._troubles[cluster] = self._troubles.get(cluster, 0) + 1 if bad else 0
            if self._troubles[cluster] >= PATIENCE:
                self.given_up[cluster] = record.why or "no reason given"
                self._say(f"{cluster}: abandoned after {PATIENCE} harness failures in a row")
        if reached is not None:
            self.coverage.setdefault(cluster.partition(":")[0], Coverage()).merge(reached)
            self._by_test.add(record, reached)
        if time.monotonic() - self._covered >= COVERAGE_S:
            self._save_coverage()

    def _save_coverage(self) -> None:
        self._covered = time.monotonic()
        write_json(self._folder.path / COVERAGE, self.coverage)
        self._by_test.write(self._folder.path)


def _cluster(planned: Planned) -> str:
    return SIM if planned.cell is None else planned.cell.cluster
