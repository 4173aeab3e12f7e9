"""Confirm a fix: find the red run, determine how often it failed, and run a night to look for it.

Such a night has only one cell. Otherwise it is like any other: resumable, with journal and outputs.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kraftwreck.nightly.cells import Cell, cells
from kraftwreck.nightly.config import (
    CONFIRM,
    Block,
    Budget,
    Config,
    ConfigError,
    Corpus,
    Limits,
    Outputs,
    Retention,
    stored_block,
)
from kraftwreck.nightly.folder import PLAN, REDS, NightError
from kraftwreck.nightly.known import NIGHTS, Known
from kraftwreck.nightly.plan import Plan, deciding
from kraftwreck.nightly.record import Record, read_records
from kraftwreck.nightly.steering import SEEDS

_RUN_OF_NIGHT = re.compile(r"(.+)#([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Target:
    """A red run of a night: its record, the night's folder and plan, and all records."""

    record: Record
    night: Path
    plan: Plan
    records: list[Record]


def find(text: str) -> Target:
    """Return the run that ``text`` identifies.

    It may be ``NIGHT#N`` (the folder of a night, the number of a run), a case file below a night's
    ``reds``, or a run folder kept by a night. Raises :class:`NightError`, one line.
    """
    named = _RUN_OF_NIGHT.fullmatch(text)
    path = Path(text)
    if named is not None:
        return _target(Path(named[1]), int(named[2]))
    if path.is_file() and path.resolve().parent.parent.name == REDS:
        red = path.resolve().parent
        return _target(red.parent.parent, int(red.name))
    if path.is_dir() and (path / "test.json").is_file():
        store = path.resolve().parent.parent
        wanted = str(path.resolve().relative_to(store))
        for night in sorted((store / NIGHTS).glob("*/"), reverse=True):
            for record in _records(night):
                if record.run == wanted:
                    return _target(night, record.n)
        raise NightError(f"{text}: no night in {store} made this run")
    raise NightError(f"{text}: pass NIGHT#N, a case in a night's folder, or the folder of a run")


def _target(night: Path, n: int) -> Target:
    try:
        plan = msgspec.json.decode((night / PLAN).read_bytes(), type=Plan)
    except OSError as error:
        raise NightError(f"{night}: not a night: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise NightError(f"{night / PLAN}: {' '.join(str(error).split())}") from error
    records = _records(night)
    for record in records:
        if record.n == n:
            if not record.red:
                raise NightError(
                    f"{night}#{n}: this run did not fail, so there is nothing to confirm"
                )
            return Target(record, night, plan, records)
    raise NightError(f"{night}#{n}: no such run")


def _records(night: Path) -> list[Record]:
    try:
        return read_records(night)
    except ValueError as error:
        raise NightError(str(error)) from error


def confirming(
    target: Target, runs: int, *, tree: str | None, jobs: int, seed: int | None
) -> tuple[Config, list[Cell], Plan]:
    """Return a night that repeats the red run, and makes ``runs`` more with other seeds.

    ``tree`` is the build to test; the default is that of the red run. Raises
    :class:`~nightly.config.ConfigError`.
    """
    record = target.record
    store = str(target.night.parent.parent)
    again: list[tuple[str, int]] = []
    corpus: list[str] = []
    if record.kind == "corpus":
        block, runs = Block(runs=1), 1
        corpus.append(record.cell)
    else:
        block = _block(target, runs, tree or record.tree)
        if record.cluster == "sim" and block.trees == ("clean",):
            corpus += [str(target.night / f) for f in (record.case, record.shrunk) if f]
    total = runs + len(corpus) + (record.kind != "corpus")
    config = Config(
        name=CONFIRM,
        store=store,
        jobs=jobs,
        seed=secrets.randbelow(SEEDS) if seed is None else seed,
        budget=Budget(runs=len(corpus) if record.kind == "corpus" else total),
        limits=Limits(),
        corpus=Corpus(cases=tuple(corpus)),
        retention=Retention(days=1e6, failure_days=1e6),
        outputs=Outputs(),
        matrix=(block,),
    )
    found = cells(config)
    if record.kind != "corpus":
        again.append((found[0].key, record.seed))
    assert config.seed is not None
    plan = Plan(
        seed=config.seed, deciding=deciding(config), corpus=corpus, known=Known(again=again)
    )
    return config, found, plan


def _block(target: Target, runs: int, tree: str) -> Block:
    """Return the block of the red run's cell, reduced to that cell."""
    record = target.record
    blocks = [stored_block(each) for each in target.plan.deciding["matrix"]]
    whole = Config(
        name="past", budget=Budget(runs=1), limits=Limits(), corpus=Corpus(),
        retention=Retention(), outputs=Outputs(), matrix=tuple(blocks),
    )  # fmt: skip
    cell = next((cell for cell in cells(whole) if cell.key == record.cell), None)
    if cell is None:
        raise ConfigError(f"{target.night}: its matrix no longer has the cell '{record.cell}'")
    return msgspec.structs.replace(
        blocks[cell.block],
        systems=(cell.system,),
        workloads=(cell.workload,),
        faults=(",".join(cell.faults) or "none",),
        clusters=(cell.cluster,),
        trees=(tree,),
        seeds="new",
        runs=runs,
    )
