"""What a night is asked to be: a TOML file, checked to the last key before anything runs.

Every mistake is one line that names the key, such as ``matrix[2].faults[1]: unknown fault``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from harness.options import DEFAULT_FAULTS
from histories.exit_codes import BadInputError

SIM = "sim"
ALL = "all"
CLEAN = "clean"
NEW = "new"
CONFIRM = "confirm"
MOST_BROKERS = 200

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]?B)")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SEEDS = re.compile(r"(\d+)\.\.(\d+)")
_AT = re.compile(r" - at `\$\.?(.*)`$")

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
    """A table of the file: what is not known is refused."""


class Budget(_Table, kw_only=True, frozen=True):
    """When the night is over: after ``hours`` of its own time, after ``runs``; either or both."""

    hours: Positive | None = None
    runs: Count | None = None


class Limits(_Table, kw_only=True, frozen=True):
    """Bounds that keep one run, or the shrinking of many, from eating the night.

    ``run_s`` is wall clock, ``shrink_s`` and ``shrink_total_s`` are CPU seconds, ``again`` is a
    number of earlier failures, ``free_bytes`` what must be left on the store's disk.
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
    """How long runs are kept: in days, those that failed apart, and how many bytes at most."""

    days: NotNegative = 30.0
    failure_days: NotNegative = 365.0
    bytes: int | str | None = None


class Outputs(_Table, kw_only=True, frozen=True):
    """Where copies of the outputs go, for a server that looks for them at one place."""

    junit: str | None = None
    summary: str | None = None
    metrics: str | None = None


class Block(_Table, kw_only=True, frozen=True):
    """One block of the matrix: all combinations of its five lists, run in the same way.

    0 for ``nodes``, ``rate`` and ``concurrency``, ``seed`` for ``brokers`` and ``mixed`` for
    ``quorum`` mean what they mean to ``kraftwreck sim``; on hosts the defaults of ``kraftwreck
    run``.
    """

    systems: Names = ("kraft",)
    workloads: Names = (ALL,)
    faults: Names = (",".join(DEFAULT_FAULTS),)
    clusters: Names = (SIM,)
    trees: Names = (CLEAN,)
    seeds: str = NEW
    time_limit_s: Annotated[float, Meta(ge=1)] = 30.0
    nodes: Annotated[int, Meta(ge=0, le=200)] = 0
    brokers: Annotated[int, Meta(ge=0, le=MOST_BROKERS)] | Literal["seed"] = "seed"
    quorum: Literal["static", "dynamic", "mixed"] = "mixed"
    rate: NotNegative = 0.0
    concurrency: Annotated[int, Meta(ge=0, le=1000)] = 0
    snapshots: bool = True
    runs: Count | None = None
    weight: Positive = 1.0


class _Top(_Table, kw_only=True, frozen=True):
    name: str
    store: str = "store"
    jobs: Annotated[int, Meta(ge=1, le=256)] = 2
    seed: Annotated[int, Meta(ge=0)] | None = None
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


def load(path: Path) -> Config:
    """Return the configuration in ``path``. Raises :class:`ConfigError` with every mistake.

    Whether what it names exists is the matter of :func:`nightly.cells.cells`.
    """
    try:
        plain = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; give a configuration file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {' '.join(str(error).split())}") from error
    try:
        return parse(plain)
    except ConfigError as error:
        raise ConfigError(*(f"{path}: {line}" for line in error.lines)) from error


def parse(plain: Mapping[str, Any]) -> Config:
    """Return the configuration of a parsed file. Raises :class:`ConfigError`."""
    wrong: list[str] = []
    tables: dict[str, Any] = {}
    for name, kind in _TABLES.items():
        tables[name] = _convert(plain.get(name, {}), kind, name, wrong)
    blocks = plain.get("matrix")
    if not isinstance(blocks, list) or not blocks:
        wrong.append("matrix: give at least one block [[matrix]]")
        blocks = []
    matrix = tuple(
        _convert(block, Block, f"matrix[{number}]", wrong)
        for number, block in enumerate(blocks, start=1)
    )
    rest = {k: v for k, v in plain.items() if k not in _TABLES and k != "matrix"}
    top = _convert(rest, _Top, "", wrong)
    if not wrong:
        fields = {name: getattr(top, name) for name in _Top.__struct_fields__}
        config = Config(**fields, **tables, matrix=matrix)
        wrong.extend(_mistakes(config))
        if not wrong:
            return config
    raise ConfigError(*wrong)


def _convert(plain: Any, kind: type[_Table], where: str, wrong: list[str]) -> Any:
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        text = " ".join(str(error).split())
        found = _AT.search(text)
        inner = found.group(1) if found else ""
        said = _AT.sub("", text)
        said = re.sub(r"^Object contains unknown field", "unknown key", said)
        said = re.sub(r"^Object missing required field", "missing key", said)
        key = ".".join(part for part in (where, inner) if part)
        wrong.append(f"{key}: {said}" if key else said)
        return None


def _mistakes(config: Config) -> list[str]:
    """Return what a table's types cannot say."""
    wrong = []
    if not _NAME.fullmatch(config.name):
        wrong.append(f"name: {config.name!r}: use lower-case letters, digits and dashes")
    if config.name == CONFIRM:
        wrong.append(f"name: {CONFIRM!r} is the name of nights made by --confirm; choose another")
    if config.budget.hours is None and config.budget.runs is None:
        wrong.append("budget: give hours, runs, or both")
    for key, value in (
        ("limits.free_bytes", config.limits.free_bytes),
        ("retention.bytes", config.retention.bytes),
    ):
        if value is not None:
            try:
                size(value)
            except ValueError as error:
                wrong.append(f"{key}: {error}")
    for number, block in enumerate(config.matrix, start=1):
        try:
            seed_range(block.seeds)
        except ValueError as error:
            wrong.append(f"matrix[{number}].seeds: {error}")
    return wrong


def size(value: int | str) -> int:
    """Return the bytes that ``value`` stands for. Raises ValueError, one line."""
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{value}: bytes cannot be negative")
        return value
    found = _SIZE.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r}: give bytes, or a size such as '20 GB'")
    return int(float(found[1]) * _UNITS[found[2]])


def seed_range(text: str) -> range | None:
    """Return the seeds of ``A..B``, both included; None for ``new``. Raises ValueError."""
    if text == NEW:
        return None
    found = _SEEDS.fullmatch(text)
    if found is None or int(found[2]) < int(found[1]):
        raise ValueError(f"{text!r}: give A..B, such as '0..999', or {NEW!r}")
    return range(int(found[1]), int(found[2]) + 1)
