"""The configuration of a night: a TOML file, checked completely before anything runs.

Every mistake is one line that names the key, such as ``matrix[2].faults[1]: unknown fault``. All
mistakes in a file are reported at once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from kraftwreck.harness.options import DEFAULT_FAULTS, MOST_SEED
from kraftwreck.harness.own_options import declared, texts
from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.nightly.mistakes import convert

SIM = "sim"
ALL = "all"
CLEAN = "clean"
NEW = "new"
CONFIRM = "confirm"

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]?B)")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SEEDS = re.compile(r"(\d+)\.\.(\d+)")

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Names = Annotated[tuple[str, ...], Meta(min_length=1)]


class ConfigError(BadInputError):
    """The configuration cannot be used; :attr:`lines` are its mistakes, one line each."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class _Table(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A table of the file; unknown keys are rejected."""


class Budget(_Table, kw_only=True, frozen=True):
    """When the night ends: after ``hours`` of its own time, after ``runs``, or both."""

    hours: Positive | None = None
    runs: Count | None = None


class Limits(_Table, kw_only=True, frozen=True):
    """Limits that keep one run, or shrinking, from taking the whole night.

    ``run_s`` is wall clock time; ``shrink_s`` and ``shrink_total_s`` are CPU seconds; ``again`` is
    a number of earlier failures; ``free_bytes`` must remain free on the store's disk.
    """

    run_s: Positive = 600.0
    shrink_s: NotNegative = 30.0
    shrink_total_s: NotNegative = 1800.0
    again: Annotated[int, Meta(ge=0)] = 50
    free_bytes: int | str = "1 GB"


class Corpus(_Table, kw_only=True, frozen=True):
    """Cases that must pass: files, or folders of them."""

    cases: tuple[str, ...] = ()


class Retention(_Table, kw_only=True, frozen=True):
    """How long runs are kept: in days, with a separate limit for failures, and total bytes."""

    days: NotNegative = 30.0
    failure_days: NotNegative = 365.0
    bytes: int | str | None = None


class Outputs(_Table, kw_only=True, frozen=True):
    """Where copies of the outputs are written, for servers that expect them at fixed paths."""

    junit: str | None = None
    summary: str | None = None
    metrics: str | None = None


class Block(_Table, kw_only=True, frozen=True):
    """One block of the matrix: all combinations of its five lists, with the same settings.

    0 for ``nodes``, ``rate`` and ``concurrency`` has the same meaning as in ``kraftwreck sim``; on
    hosts it gives the defaults of ``kraftwreck run``. ``own`` are the options that its systems
    declare for campaigns, each ``NAME=VALUE``; in the file they are keys like all others.
    """

    systems: Names = (DEFAULT_SYSTEM,)
    workloads: Names = (ALL,)
    faults: Names = (",".join(DEFAULT_FAULTS),)
    clusters: Names = (SIM,)
    trees: Names = (CLEAN,)
    seeds: str = NEW
    time_limit_s: Annotated[float, Meta(ge=1)] = 30.0
    nodes: Annotated[int, Meta(ge=0, le=200)] = 0
    rate: NotNegative = 0.0
    concurrency: Annotated[int, Meta(ge=0, le=1000)] = 0
    snapshots: bool = True
    runs: Count | None = None
    weight: Positive = 1.0
    own: tuple[str, ...] = ()

    def options_of(self, system: str, *, hosts: bool) -> tuple[str, ...]:
        """Return those of ``own`` that ``system`` takes, on hosts or in the simulator."""
        known = declared(system)
        takes = {option.name: option.takes for option in (known.run if hosts else known.campaign)}
        parts = (text.partition("=") for text in self.own)
        return tuple(f"{n}={value}" for n, _, value in parts if n in takes and takes[n](value))


class _Top(_Table, kw_only=True, frozen=True):
    name: str
    store: str = "store"
    jobs: Annotated[int, Meta(ge=1, le=256)] = 2
    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] | None = None
    resume_hours: NotNegative = 20.0
    planted_fail: bool = True


class Config(_Top, kw_only=True, frozen=True):
    """The whole file, see ``docs/nightly.md``."""

    budget: Budget
    limits: Limits
    corpus: Corpus
    retention: Retention
    outputs: Outputs
    matrix: tuple[Block, ...]

    @property
    def store_path(self) -> Path:
        """The store, as a path."""
        return Path(self.store)

    @property
    def free_bytes(self) -> int:
        """``limits.free_bytes`` as a number."""
        return size(self.limits.free_bytes)

    @property
    def retained_bytes(self) -> int | None:
        """``retention.bytes`` as a number; None for no limit."""
        return None if self.retention.bytes is None else size(self.retention.bytes)


_TABLES: dict[str, type[_Table]] = {
    "budget": Budget,
    "limits": Limits,
    "corpus": Corpus,
    "retention": Retention,
    "outputs": Outputs,
}


@dataclass
class Checked:
    """A parsed file and its mistakes.

    ``config`` is None after a mistake. ``blocks`` are all blocks by their position, from 1, with
    defaults for wrong keys.
    """

    wrong: list[str]
    config: Config | None
    blocks: dict[int, Block]
    corpus: Corpus | None


def read(path: Path) -> tuple[Mapping[str, Any], str]:
    """Return the parsed TOML file and its text. Raises :class:`ConfigError`."""
    try:
        text = path.read_text("utf-8")
        return tomllib.loads(text), text
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; pass a configuration file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error


def parse(plain: Mapping[str, Any]) -> Config:
    """Return the configuration of a parsed file. Raises :class:`ConfigError`."""
    checked = check(plain)
    if checked.config is None:
        raise ConfigError(*checked.wrong)
    return checked.config


def check(plain: Mapping[str, Any]) -> Checked:
    """Check every key of a parsed file; each mistake is one line that starts with its key.

    :func:`nightly.cells.mistakes` checks whether the values in blocks exist.
    """
    wrong: list[str] = []
    tables: dict[str, Any] = {}
    for name, kind in _TABLES.items():
        tables[name] = _table(plain.get(name, {}), kind, name, wrong)
    found = plain.get("matrix")
    if not isinstance(found, list) or not found:
        wrong.append("matrix: give at least one block [[matrix]]")
        found = []
    blocks = {
        number: _table(block, Block, f"matrix[{number}]", wrong)
        for number, block in enumerate(found, start=1)
    }
    rest = {k: v for k, v in plain.items() if k not in _TABLES and k != "matrix"}
    top = _table(rest, _Top, "", wrong)
    config = None
    if not wrong:
        fields = {name: getattr(top, name) for name in _Top.__struct_fields__}
        config = Config(**fields, **tables, matrix=tuple(blocks.values()))
    sound = {number: block for number, block in blocks.items() if block is not None}
    return Checked(wrong, config, sound, tables["corpus"])


def _table(plain: Any, kind: type[_Table], where: str, wrong: list[str]) -> Any:
    """Return ``plain`` as a table with defaults for wrong keys, or None if a default is missing.

    Every mistake is appended to ``wrong``.
    """
    if not isinstance(plain, Mapping):
        wrong.append(f"{where}: give a table")
        return None
    hints = get_type_hints(kind, include_extras=True)
    values = {}
    if kind is Block:
        plain, own = _without_own(plain, where, wrong)
        hints.pop("own")
        values = {"own": own} if own else {}
    for name, value in plain.items():
        key = f"{where}.{name}" if where else name
        if name not in hints:
            wrong.append(f"{key}: unknown key; known keys: {', '.join(hints)}")
            continue
        before = len(wrong)
        converted = convert(value, hints[name], key, wrong)
        if len(wrong) == before and (text := _sensible(kind, name, converted)):
            wrong.append(f"{key}: {text}")
        if len(wrong) == before:
            values[name] = converted
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    for name in required:
        if name not in plain:
            wrong.append(f"{where}.{name}: missing" if where else f"{name}: missing")
    if kind is Budget and not plain:
        wrong.append(f"{where}: give hours, runs, or both")
    return kind(**values) if set(required) <= set(values) else None


def _without_own(
    plain: Mapping[str, Any], where: str, wrong: list[str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a block without the options of its systems, and these by name, each
    ``NAME=VALUE``, if they differ from their defaults."""
    systems = plain.get("systems", [DEFAULT_SYSTEM])
    known = {
        option.name: option
        for system in (systems if isinstance(systems, list) else ())
        for option in declared(str(system)).campaign
    }
    rest = dict(plain)
    given = {name: rest.pop(name) for name in sorted(known.keys() & plain.keys())}
    for name, value in list(given.items()):
        if isinstance(value, bool) or not known[name].takes(str(value)):
            given[name] = known[name].default
            wrong.append(f"{where}.{name}: {value!r}: give {known[name].expected}")
    return rest, texts([known[name] for name in given], given)


def stored_block(plain: Mapping[str, Any]) -> Block:
    """Return a block of a stored plan. Those of earlier releases name all options of their systems.

    Raises msgspec.ValidationError.
    """
    rest, own = _without_own(plain, "", [])
    return msgspec.convert({"own": own, **rest}, Block)


def _sensible(kind: type[_Table], name: str, value: Any) -> str | None:
    """Return the mistake in a value that its type does not exclude, None if there is none."""
    try:
        if kind is _Top and name == "name":
            _check_name(value)
        elif (kind is Limits and name == "free_bytes") or (kind is Retention and name == "bytes"):
            if value is not None:
                size(value)
        elif kind is Block and name == "seeds":
            seed_range(value)
    except ValueError as error:
        return str(error)
    return None


def _check_name(name: str) -> None:
    """Raise ValueError, one line, for an invalid name of a night."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r}: use lower-case letters, digits and dashes")
    if name == CONFIRM:
        raise ValueError(
            f"{CONFIRM!r} is reserved for nights made by --confirm; choose another name"
        )


def size(value: int | str) -> int:
    """Return the number of bytes in ``value``. Raises ValueError, one line."""
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{value}: bytes cannot be negative")
        return value
    found = _SIZE.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r}: give bytes, or a size such as '20 GB'")
    return int(float(found[1]) * _UNITS[found[2]])


def seed_range(text: str) -> range | None:
    """Return the seeds in ``A..B``, inclusive; None for ``new``. Raises ValueError."""
    if text == NEW:
        return None
    found = _SEEDS.fullmatch(text)
    if found is None or int(found[2]) < int(found[1]):
        raise ValueError(f"{text!r}: give A..B, such as '0..999', or {NEW!r}")
    return range(int(found[1]), int(found[2]) + 1)
