"""The runs of one campaign: where they come from, the processes that make them, the results."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from kraftwreck.campaigns.campaign import Tested, run_proposal, run_seed
from kraftwreck.campaigns.corpus import Corpus
from kraftwreck.campaigns.shrinking import Say
from kraftwreck.campaigns.steering import Proposal, Steering
from kraftwreck.histories.exit_codes import FAILED
from kraftwreck.nemesis import coverage as counters
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.systems.campaign import Campaign

MOST_KINDS = 10
"""A campaign stops after this many different failures."""

_PROGRESS_S = 1.0


class Source(Protocol):
    """The source of the runs of a campaign."""

    covered: Coverage
    """The coverage of all runs, including earlier campaigns."""

    def task(self, seed: int) -> Callable[[], Tested]:
        """Return a function that makes the run with this number, in any process."""

    def done(self, tested: Tested) -> None:
        """Learn from the coverage of a run."""

    def save(self) -> None:
        """Save the state for later campaigns. Raises :class:`OptionError`."""


class BySeed:
    """Each run is derived from its seed; counters are saved in ``file``, if one is given."""

    def __init__(self, campaign: Campaign, file: Path | None) -> None:
        """Raises :class:`OptionError` when ``file`` is not a file of counters."""
        self.covered = counters.load(file) if file is not None else Coverage()
        self._campaign = campaign
        self._file = file

    def task(self, seed: int) -> Callable[[], Tested]:
        return partial(run_seed, self._campaign, seed, cover=True)

    def done(self, tested: Tested) -> None:
        if tested.coverage is not None:
            self.covered.merge(tested.coverage)

    def save(self) -> None:
        if self._file is not None:
            counters.store(self._file, self.covered)


class Steered:
    """Runs are proposed by :class:`~campaigns.steering.Steering`, with the corpus in ``folder``."""

    def __init__(self, campaign: Campaign, folder: Path, file: Path | None) -> None:
        """Raises :class:`OptionError` when ``folder`` is not a corpus."""
        self.corpus = Corpus(folder)
        self.covered = self.corpus.counted
        self.kept = 0
        self.steering = Steering(
            self.corpus,
            lambda seed: (campaign.options(seed), campaign.knobs(seed)),
            snapshots=campaign.snapshots,
        )
        self._file = file
        self._open: dict[int, Proposal] = {}

    def task(self, seed: int) -> Callable[[], Tested]:
        proposal = self._open[seed] = self.steering.propose(seed)
        return partial(run_proposal, proposal)

    def done(self, tested: Tested) -> None:
        proposal = self._open.pop(tested.seed)
        if tested.coverage is not None:
            self.kept += self.steering.learn(proposal, tested.coverage, tested.events)

    def save(self) -> None:
        self.corpus.save()
        if self._file is not None:
            counters.store(self._file, self.covered)


def source_of(campaign: Campaign, corpus: Path | None, file: Path | None) -> Source:
    """Return the runs by seed, or those that coverage guidance proposes with a ``corpus``.

    ``file`` has the coverage counters of earlier campaigns. Raises :class:`OptionError`.
    """
    if corpus is None:
        return BySeed(campaign, file)
    return Steered(campaign, corpus, file)


class Progress:
    """Counts the runs, keeps failures by kind, and prints progress with ``say`` once a second."""

    def __init__(self, source: Source, total: int | None, say: Say) -> None:
        self.source = source
        self.tested: list[Tested] = []
        self.kinds: dict[tuple[str, str], Tested] = {}
        self._total = total
        self._say = say
        self._begun = self._shown = time.monotonic()

    def add(self, tested: Tested) -> None:
        """Count one test and print new failures."""
        self.source.done(tested)
        tested.coverage = None  # It was counted; keeping thousands would fill the memory.
        self.tested.append(tested)
        for checker, kind, text in tested.found:
            if (checker, kind) not in self.kinds:
                self.kinds[checker, kind] = tested
                self._say(f"seed {tested.seed}: {checker}: {kind}: {text}")
                if tested.run is not None:
                    self._say(f"  kept in {tested.run}")
        if time.monotonic() - self._shown >= _PROGRESS_S:
            self.show()

    @property
    def sim_s(self) -> float:
        """Virtual seconds simulated so far."""
        return sum(t.sim_s for t in self.tested)

    @property
    def cpu_s(self) -> float:
        """CPU seconds used so far, checking included."""
        return sum(t.cpu_s for t in self.tested)

    def show(self) -> None:
        """Print one line of progress."""
        self._shown = time.monotonic()
        of = f"/{self._total}" if self._total else ""
        speed = self.sim_s / self.cpu_s if self.cpu_s else 0.0
        failed = sum(1 for t in self.tested if t.found)
        weak = sum(1 for t in self.tested if t.weak)
        self._say(
            f"{len(self.tested)}{of} runs, {self.sim_s:.0f} simulated s, {self.cpu_s:.0f} CPU s"
            f" ({speed:.0f} per CPU s), {failed} failed, {weak} below their floor"
        )


@contextmanager
def _sigint_deferred() -> Iterator[None]:
    """Defer SIGINT until the end: another process is then started completely or not at all.

    A process that is started meanwhile blocks SIGINT (:func:`_end_with_others`).
    """
    before = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not here or before is signal.SIG_IGN:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _end_with_others() -> None:
    """Let this process end when its parent does, however it ended, and without a traceback by
    Ctrl-C, also one that came during its start."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_parent() -> None:
    """End this process when its parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(FAILED)


def run_all(seeds: Iterable[int], jobs: int, deadline: float | None, progress: Progress) -> None:
    """Run the tests of ``seeds`` in ``jobs`` processes until all are done or time is up."""
    task = progress.source.task

    def enough() -> bool:
        late = deadline is not None and time.monotonic() >= deadline
        return late or len(progress.kinds) >= MOST_KINDS

    todo: Iterator[int] = iter(seeds)
    if jobs == 1:
        for seed in todo:
            progress.add(task(seed)())
            if enough():
                return
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_others) as pool:
        with _sigint_deferred():  # The first tests start the processes, which inherit this.
            open_: set[Future[Tested]] = {pool.submit(task(s)) for s in islice(todo, 3 * jobs)}
        while open_:
            done, open_ = wait(open_, return_when=FIRST_COMPLETED)
            for future in done:
                progress.add(future.result())
            if enough():
                for future in open_:
                    future.cancel()
                return
            with _sigint_deferred():
                open_ |= {pool.submit(task(seed)) for seed in islice(todo, len(done))}
