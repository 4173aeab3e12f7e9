"""A night from its configuration to its outputs, started or resumed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from kraftwreck.histories.exit_codes import INTERRUPTED
from kraftwreck.histories.store import StoreError, write_json
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.histories.verdict import WORDS
from kraftwreck.nightly.cells import Cell, case_files, missing_cases
from kraftwreck.nightly.config import Config
from kraftwreck.nightly.folder import NIGHT, TREES, NightError, NightFolder, night_folders
from kraftwreck.nightly.junit import junit
from kraftwreck.nightly.known import gather
from kraftwreck.nightly.metrics import metrics
from kraftwreck.nightly.plan import Order, Plan, deciding, length
from kraftwreck.nightly.record import Record
from kraftwreck.nightly.request import Tools
from kraftwreck.nightly.retention import retain
from kraftwreck.nightly.session import Session
from kraftwreck.nightly.steering import ROUND, SEEDS
from kraftwreck.nightly.summary import headline, summary
from kraftwreck.nightly.totals import Night, exit_code, total
from kraftwreck.nightly.trees import Trees

Say = Callable[[str], None]

MOST_NIGHTS = 60
"""This many earlier nights are considered; older ones say little about the present code."""


def corpus_files(config: Config) -> list[str]:
    """Return the case files of the corpus, in order. Raises :class:`NightError`."""
    if missing := missing_cases(config.corpus):
        raise NightError(missing[0])
    found = [str(file) for name in config.corpus.cases for file in case_files(name)]
    return list(dict.fromkeys(found))


def make_plan(config: Config, cells: Sequence[Cell]) -> Plan:
    """Return the plan of a night that starts now. Raises :class:`NightError`."""
    nights = night_folders(config.store_path)[-MOST_NIGHTS:]
    return Plan(
        seed=secrets.randbelow(SEEDS) if config.seed is None else config.seed,
        deciding=deciding(config),
        corpus=corpus_files(config),
        known=gather(nights, cells, config.limits.again),
        # A slow run must not keep others from being chosen.
        round=max(ROUND, 4 * config.jobs),
    )


def unfinished(config: Config) -> Path | None:
    """Return the newest night of this name if it can be resumed."""
    for path in reversed(night_folders(config.store_path)):
        if path.name.partition("-")[2] != config.name:
            continue
        night = read_night(path)
        if night is not None and night.state == "complete":
            return None
        began = datetime.strptime(path.name.partition("-")[0], "%Y%m%dT%H%M%S.%fZ")
        age = datetime.now(UTC) - began.replace(tzinfo=UTC)
        return path if age < timedelta(hours=config.resume_hours) else None
    return None


def read_night(folder: Path) -> Night | None:
    """Return ``night.json`` of a night, None if it is missing or unreadable."""
    try:
        return msgspec.json.decode((folder / NIGHT).read_bytes(), type=Night)
    except (OSError, *UNDECODABLE):
        return None


def open_night(config: Config, cells: Sequence[Cell], *, new: bool) -> NightFolder:
    """Start a night, or open the unfinished one.

    Raises :class:`NightError` if that one has a different configuration, and StoreError.
    """
    path = None if new else unfinished(config)
    if path is None:
        return NightFolder.create(config.store_path, config.name, make_plan(config, cells))
    folder = NightFolder(path)
    now = deciding(config)
    changed = [key for key in now if folder.plan.deciding.get(key) != now[key]]
    if changed:
        folder.close()
        raise NightError(
            f"{path}: this night was started with a different {', '.join(changed)};"
            " restore it to resume, or start a new night with --new"
        )
    return folder


class Work:
    """One process's work on a night, and its outputs."""

    def __init__(
        self,
        config: Config,
        cells: Sequence[Cell],
        folder: NightFolder,
        tools: Tools,
        say: Say,
        until: Callable[[Record], bool] = lambda record: False,
    ) -> None:
        """The night also ends after a run for which ``until`` is true."""
        self._config = config
        self._cells = cells
        self._folder = folder
        self._tools = tools
        self._say = say
        self._until = until
        before = read_night(folder.path)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.night = Night(
            id=folder.id,
            name=config.name,
            seed=folder.plan.seed,
            state="running",
            began=before.began if before is not None else now,
            sessions=before.sessions + 1 if before is not None else 1,
            interrupted_runs=before.interrupted_runs if before is not None else 0,
            planned=length(folder.plan, config, cells),
        )
        self.session: Session | None = None

    def go(self) -> int:
        """Work until the night ends or is interrupted; return its exit code.

        Raises StoreError, and OptionError for a build that cannot be created.
        """
        folder, night = self._folder, self.night
        again = folder.interrupted()
        night.interrupted_runs += len(again)
        if again:
            self._say(
                f"{len(again)} runs were in progress when the night was stopped; they are repeated"
            )
        total(night, folder.records, {})
        write_json(folder.path / NIGHT, night)
        trees = Trees(folder.path / TREES)
        trees.prepare(cell.tree for cell in self._cells)
        session = self.session = Session(
            self._config, folder, trees, self._tools, finished=self._tell, say=self._say
        )
        with session:
            order = Order(folder.plan, self._config, self._cells, folder.records)
            reason = session.work(order)
            self._finish(session, reason, trees)
        assert night.exit_code is not None
        return night.exit_code

    def _finish(self, session: Session, reason: str, trees: Trees) -> None:
        night, records = self.night, self._folder.records
        over = reason in ("runs", "hours", "enough")
        night.state = "complete" if over else "interrupted"
        night.reason, night.spent_s = reason, round(session.spent_s(), 3)
        night.given_up = session.given_up
        night.ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        total(night, records, session.coverage)
        night.exit_code = exit_code(
            records,
            planted_fail=self._config.planted_fail,
            failed=bool(session.given_up) or reason == "disk",
        )
        if reason == "interrupted":
            night.exit_code = INTERRUPTED
        if over:
            trees.clear()
        self._write()
        removed = retain(self._config, keep=self._folder.path)
        if removed.folders:
            self._say(f"retention: {removed.folders} runs, {removed.bytes / 1e6:.0f} MB removed")
        for line in removed.errors:
            self._say(f"retention: {line}")

    def _write(self) -> None:
        """Write the outputs; a copy that fails is reported and has no other effect."""
        night, records = self.night, self._folder.records
        outputs = self._config.outputs
        for name, text, copy in (
            ("summary.md", summary(night, records).encode(), outputs.summary),
            ("junit.xml", junit(night, records), outputs.junit),
            ("metrics.txt", metrics(night, records).encode(), outputs.metrics),
        ):
            replace_file(self._folder.path / name, text)
            if copy is not None:
                try:
                    replace_file(Path(copy), text)
                except StoreError as error:
                    self._say(f"error: outputs: {error}")
        write_json(self._folder.path / NIGHT, night)
        self._say(f"{headline(night)}: {self._folder.path / 'summary.md'}")

    # --- for people -------------------------------------------------------------------------

    def _tell(self, record: Record) -> None:
        """Print one line about a finished run."""
        assert self.session is not None
        if self._until(record):
            self.session.enough = True
        done = len(self._folder.records)
        of = "" if self.night.planned is None else f"/{self.night.planned}"
        verdict = WORDS[record.valid] if not record.red else f"{record.klass}".upper()
        what = record.cell if record.kind == "corpus" else f"{record.cell} seed {record.seed}"
        self._say(f"{done}{of} {verdict:<9} {what} {record.seconds:.1f} s; {self._left(done)}")
        if record.red:
            self._say(f"  {record.why}")
            if record.repeat:
                self._say(f"  repeat: {record.repeat}")
        elif record.suspicions:
            rules = ", ".join(f"{each.checker}: {each.type}" for each in record.suspicions)
            self._say(f"  {record.why if record.raised else f'suspected once: {rules}'}")

    def _left(self, done: int) -> str:
        """Return how long the night may still take."""
        assert self.session is not None
        spent, hours = self.session.spent_s(), self._config.budget.hours
        bounds = []
        if hours is not None:
            bounds.append(hours * 3600 - spent)
        if self.night.planned is not None and done:
            bounds.append((self.night.planned - done) * spent / done)
        left = timedelta(seconds=round(max(0.0, min(bounds)))) if bounds else "?"
        return f"{left} left"


def replace_file(path: Path, content: bytes) -> None:
    """Write ``path`` atomically. Raises StoreError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
