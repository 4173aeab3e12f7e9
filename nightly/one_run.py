"""One planned run from its first attempt to its line in the journal.

Red runs are repeated once: the result of a simulated run must be the same, and a failure of the
harness or the machine may not recur. So are runs with suspicions; those that come back are raised.
The first failure of each kind is shrunk.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kraftwreck.harness.command_line import command_line
from kraftwreck.histories.exit_codes import FAILED
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.attempt import CASE, OUTPUT, Attempt, Attempts, ChildRegistry
from kraftwreck.nightly.child import Ended
from kraftwreck.nightly.classify import Judged
from kraftwreck.nightly.config import CLEAN, SIM, Config
from kraftwreck.nightly.folder import NightFolder
from kraftwreck.nightly.plan import Planned
from kraftwreck.nightly.record import Class, Failure, Record
from kraftwreck.nightly.request import Tools
from kraftwreck.nightly.shrinker import Shrinker
from kraftwreck.nightly.trees import Trees

_KIND = tuple[str, str, str]


@dataclass(slots=True)
class Finished:
    """A finished run: its record and its coverage."""

    record: Record
    coverage: Coverage | None


class Runner:
    """Makes the runs of one night; used from several threads."""

    def __init__(
        self,
        config: Config,
        folder: NightFolder,
        trees: Trees,
        tools: Tools,
        children: ChildRegistry,
    ) -> None:
        self._config = config
        self._folder = folder
        self._attempts = Attempts(config, trees, tools, children)
        self._shrinker = Shrinker(config.limits, tools, children)
        self._lock = threading.Lock()
        self._kinds: dict[_KIND, int] = {}
        """The run that represents a kind of failure, by build, checker and type."""
        for record in folder.records:
            if record.klass == "system" and record.failures:
                first = record.n if record.like is None else record.like
                self._kinds.setdefault(_kind(record.tree, record.failures[0]), first)

    def run(self, planned: Planned) -> Finished:
        """Make one run, and handle all its errors.

        Raises :class:`~nightly.attempt.InterruptedRun`, and StoreError if nothing can be written.
        """
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        red = self._folder.red(planned.n)
        tree = CLEAN if planned.cell is None else planned.cell.tree
        simulated = planned.cell is None or planned.cell.cluster == SIM

        def began(process: int) -> None:
            self._folder.mark(planned.n, process)

        self._folder.mark(planned.n)
        attempts = [self._attempts.make(planned, red, keep=False, began=began)]
        klass = attempts[0].judged.klass
        like = self._reserve(planned.n, tree, attempts[0]) if klass == "system" else None
        if klass is not None and (simulated or klass != "system"):
            # One folder is enough for equal failures of planted bugs.
            keep = tree == CLEAN or like is None
            attempts.append(self._attempts.make(planned, red, keep=keep, began=began))
        elif klass is None and _suspicions(attempts[0]):
            attempts.append(self._attempts.make(planned, red, keep=False, began=began))
        record = self._record(planned, attempts, simulated)
        record.started = started
        record.like = like if record.klass == "system" else None
        self._keep(planned, record, red)
        return Finished(record, _coverage(attempts))

    def failed(self, planned: Planned, error: Exception) -> Finished:
        """Return the record of a run that could not be started."""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        klass: Class = "environment" if isinstance(error, OSError | MemoryError) else "harness"
        ended = Ended(FAILED, 0.0, 0.0)
        record = self._record(planned, [Attempt(ended, None, Judged(klass, text))], True)
        record.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Finished(record, None)

    def _reserve(self, n: int, tree: str, attempt: Attempt) -> int | None:
        """Return the run that failed in the same way before; None makes this the first one."""
        assert attempt.answer is not None
        if not attempt.answer.failures:
            return None
        with self._lock:
            first = self._kinds.setdefault(_kind(tree, attempt.answer.failures[0]), n)
        return None if first == n else first

    def _record(self, planned: Planned, attempts: list[Attempt], simulated: bool) -> Record:
        first, last = attempts[0], attempts[-1]
        klass, was, why = conclude(attempts, simulated)
        # A proof stays a proof: a system failure that did not recur is recorded as it was. A
        # suspicion is repeated to learn more: of a repetition that failed nothing is learned.
        in_vain = first.judged.klass is None and last.judged.klass not in (None, "system")
        told = first if in_vain or (klass == "flake" and was == "system") else last
        answer = told.answer
        cell = planned.cell
        record = Record(
            n=planned.n,
            kind=planned.kind,
            cell=cell.key if cell is not None else str(planned.case),
            system=cell.system if cell is not None else DEFAULT_SYSTEM,
            workload=cell.workload if cell is not None else "",
            faults=list(cell.faults) if cell is not None else [],
            cluster=cell.cluster if cell is not None else SIM,
            tree=cell.tree if cell is not None else CLEAN,
            planted=cell is not None and cell.planted,
            seed=planned.seed,
            valid="unknown",
            klass=klass,
            was=was,
            why=why,
            seconds=round(sum(attempt.ended.seconds for attempt in attempts), 3),
            cpu_s=round(sum(attempt.cpu_s for attempt in attempts), 3),
            attempts=len(attempts),
            suspicions=[
                *_suspicions(first),
                *(s for s in _suspicions(last) if not _among(s, _suspicions(first))),
            ],
            raised=raised(attempts),
        )
        if answer is not None:
            record.valid = answer.valid
            record.failures = answer.failures
            record.sim_s = round(answer.sim_s, 3)
            record.digest = answer.digest
            record.repeat = answer.repeat
            record.workload = answer.workload or record.workload
            record.faults = answer.faults if cell is None else record.faults
            record.seed = answer.seed if cell is None else planned.seed
            record.run = _relative((told if in_vain else last).answer_run, self._config)
        return record

    def _keep(self, planned: Planned, record: Record, red: Path) -> None:
        """Shrink what needs shrinking; remove the files of runs that are not red."""
        if not record.red and record.valid is True:
            shutil.rmtree(red, ignore_errors=True)
            return
        case = red / CASE
        if not case.is_file():
            return
        record.case = str(case.relative_to(self._folder.path))
        file = case
        if record.klass == "system" and record.like is None and planned.kind != "corpus":
            found, cpu_s = self._shrinker.shrink(case, record.failures[0], red / OUTPUT)
            record.cpu_s = round(record.cpu_s + cpu_s, 3)
            if found is not None:
                file = found
                record.shrunk = str(found.relative_to(self._folder.path))
        if record.shrunk is not None or record.planted or planned.cell is None:
            # The case is complete; a seed does not include the planted bug.
            record.repeat = command_line("replay", file)


def conclude(
    attempts: list[Attempt], simulated: bool
) -> tuple[Class | None, Class | None, str | None]:
    """Return the class of a run by its attempts, the first class of a flake, and the reason."""
    first, last = attempts[0], attempts[-1]
    klass, why = first.judged.klass, first.judged.why
    if klass is None and last.judged.klass == "system":
        return "system", None, last.judged.why  # The repetition of a suspicion proved more.
    if klass is None and (back := raised(attempts)):
        told = "; ".join(f"{each.checker}: {each.type}: {each.explanation}" for each in back)
        return None, None, f"suspected twice: {told}"
    if len(attempts) == 1 or klass is None:
        return klass, None, why
    if klass == "system":
        assert first.answer is not None
        again = last.answer
        if again is None or again.digest != first.answer.digest:
            digest = "no answer" if again is None else f"digest {again.digest}"
            return "flake", klass, f"{why}; a different run at the second attempt: {digest}"
        if not _same(first.answer.failures, again.failures):
            return "flake", klass, f"{why}; different failures at the second attempt"
        return klass, None, why
    if last.judged.klass is None:
        return "flake", klass, f"{why}; no failure at the second attempt"
    # A second attempt may prove more than the first.
    return last.judged.klass, None, last.judged.why


def raised(attempts: list[Attempt]) -> list[Failure]:
    """Return the suspicions of rules that two attempts at a run suspected."""
    if len(attempts) == 1:
        return []
    again = _suspicions(attempts[-1])
    return [each for each in _suspicions(attempts[0]) if _among(each, again)]


def _suspicions(attempt: Attempt) -> list[Failure]:
    return [] if attempt.answer is None else attempt.answer.suspicions


def _among(one: Failure, others: list[Failure]) -> bool:
    return any(one.same(other) for other in others)


def _same(one: list[Failure], other: list[Failure]) -> bool:
    return {(f.checker, f.type) for f in one} == {(f.checker, f.type) for f in other}


def _kind(tree: str, failure: Failure) -> _KIND:
    return tree, failure.checker, failure.type


def _coverage(attempts: list[Attempt]) -> Coverage | None:
    for attempt in reversed(attempts):
        if attempt.answer is not None and attempt.answer.coverage is not None:
            return attempt.answer.coverage
    return None


def _relative(run: str | None, config: Config) -> str | None:
    """Return a run folder's path relative to the store, if it is in the store."""
    if run is None:
        return None
    path, store = Path(run).resolve(), config.store_path.resolve()
    return str(path.relative_to(store)) if path.is_relative_to(store) else str(path)
