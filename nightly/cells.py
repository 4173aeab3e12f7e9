"""The cells of a night's matrix: every combination to run, each with a name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import msgspec

from kraftwreck.harness.clusters.cluster import ClusterError
from kraftwreck.harness.clusters.providers import choose_cluster
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.patched_nodes import patch_of
from kraftwreck.nemesis import possible
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.registry import parse as parse_faults
from kraftwreck.nightly.config import (
    ALL,
    CLEAN,
    SIM,
    Block,
    Config,
    ConfigError,
    Corpus,
    check,
    read,
)
from kraftwreck.nightly.mistakes import key_lines, with_line
from kraftwreck.systems.registry import find as find_system
from kraftwreck.workloads.generic import GENERIC
from kraftwreck.workloads.registry import find as find_workload

MUTANT, PATCH, TREE = "mutant", "patch", "tree"
_MOST_CELLS = 100_000
_TOLD = ("nodes", "own", "rate", "concurrency", "snapshots")


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One combination; ``block`` is its position in the matrix, from 0."""

    key: str
    block: int
    system: str
    workload: str
    faults: tuple[str, ...]
    cluster: str
    tree: str

    @property
    def planted(self) -> bool:
        """Whether a build other than the clean one is tested."""
        return self.tree != CLEAN

    @property
    def kind(self) -> str:
        """The kind of cluster, which limits the reachable coverage."""
        return self.cluster.partition(":")[0]


def load(path: Path) -> tuple[Config, list[Cell]]:
    """Return the configuration in ``path`` and its cells.

    Raises :class:`ConfigError` with every mistake in the file, each with its line.
    """
    plain, text = read(path)
    checked = check(plain)
    found, wrong = _cells(checked.blocks, sound=checked.config is not None)
    if checked.corpus is not None:
        wrong += missing_cases(checked.corpus)
    if checked.config is not None and not wrong:
        return checked.config, found
    lines = key_lines(text)
    raise ConfigError(*(f"{path}: {with_line(each, lines)}" for each in [*checked.wrong, *wrong]))


def cells(config: Config) -> list[Cell]:
    """Return the cells of ``config`` in the order of its matrix.

    Raises :class:`ConfigError` that names each key whose value is unknown or not possible there.
    """
    found, wrong = _cells(dict(enumerate(config.matrix, start=1)))
    if wrong:
        raise ConfigError(*wrong)
    return found


def missing_cases(corpus: Corpus) -> list[str]:
    """Return a line for each entry of the corpus without a case."""
    wrong = []
    for number, name in enumerate(corpus.cases, start=1):
        files = case_files(name)
        if not files or not all(file.is_file() for file in files):
            wrong.append(f"corpus.cases[{number}]: {name}: no such case file")
    return wrong


def case_files(name: str) -> list[Path]:
    """Return the files of a corpus entry: one file, or all cases in a folder."""
    path = Path(name)
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


def _cells(blocks: Mapping[int, Block], *, sound: bool = True) -> tuple[list[Cell], list[str]]:
    """Return the cells of ``blocks``, given by position, and the mistakes.

    Only ``sound`` blocks are compared with each other: others have defaults for wrong values.
    """
    wrong: list[str] = []
    found: dict[str, Cell] = {}
    for place, block in blocks.items():
        where = f"matrix[{place}]"
        wrong.extend(_unknown(where, block))
        lists = (block.systems, block.workloads, block.faults, block.clusters, block.trees)
        if len(found) + math.prod(map(len, lists)) > _MOST_CELLS:
            wrong.append(f"{where}: more than {_MOST_CELLS} cells; make it smaller")
            break
        for values in product(*lists):
            system, workload, faults, cluster, tree = values
            key = " ".join([*_key(values), *_told(block)])
            if key in found and sound:
                before = found[key].block + 1
                wrong.append(f"{where}: repeats the cell '{key}' of matrix[{before}]")
                break
            kinds = tuple(f.strip() for f in faults.split(",") if f.strip() not in ("", "none"))
            found[key] = Cell(
                key=key,
                block=place - 1,
                system=system,
                workload=workload,
                faults=tuple(dict.fromkeys(kinds)),
                cluster=cluster,
                tree=tree,
            )
    return list(found.values()), wrong


def _key(values: tuple[str, ...]) -> list[str]:
    system, workload, faults, cluster, tree = (value.replace(" ", "") for value in values)
    return [system, workload, faults, cluster, tree]


def _told(block: Block) -> list[str]:
    """Return the properties of a block's cells that differ from the defaults."""
    plain = Block()
    told: list[str] = []
    for name in _TOLD:
        value = getattr(block, name)
        if name == "own":
            told.extend(value)
        elif value != getattr(plain, name):
            told.append(f"{name}={value}")
    return told


def _unknown(where: str, block: Block) -> list[str]:
    """Return the mistakes of one block, one line each."""
    wrong: list[str] = []

    def check(key: str, test: object, *arguments: object) -> None:
        assert callable(test)
        try:
            test(*arguments)
        except (OptionError, ClusterError, ValueError) as error:
            wrong.append(f"{where}.{key}: {error}")

    simulated = SIM in block.clusters
    on_hosts = [cluster for cluster in block.clusters if cluster != SIM]
    for number, system in enumerate(block.systems, start=1):
        check(f"systems[{number}]", find_system, system)
    for number, workload in enumerate(block.workloads, start=1):
        if workload != ALL:
            if simulated or workload not in GENERIC:
                check(f"workloads[{number}]", find_workload, workload)
        elif on_hosts:
            wrong.append(f"{where}.workloads[{number}]: {ALL!r} is for the simulator only")
    for number, text in enumerate(block.faults, start=1):
        check(f"faults[{number}]", _faults, text, block, simulated, bool(on_hosts))
    for number, cluster in enumerate(block.clusters, start=1):
        if cluster != SIM:
            check(f"clusters[{number}]", choose_cluster, cluster)
    for number, tree in enumerate(block.trees, start=1):
        check(f"trees[{number}]", tree_source, tree)
    return wrong


def _faults(text: str, block: Block, simulated: bool, on_hosts: bool) -> None:
    names = parse_faults(text)
    if simulated:
        possible.check_simulator(names)
    if on_hosts:
        for system in block.systems:
            own = block.options_of(system, hosts=True)
            options = RunOptions(system=system, system_options=own)
            known = families(system)
            lacking = possible.lacking_of(find_system(system), options, known)
            possible.check(names, known, lacking, system)


def tree_source(tree: str) -> Path | None:
    """Return the patch file or folder of node code for ``tree``; None for the clean build.

    Raises :class:`OptionError`, one line.
    """
    if tree == CLEAN:
        return None
    kind, _, rest = tree.partition(":")
    if kind == MUTANT and rest:
        return patch_of(rest)
    if kind == PATCH and rest:
        if not Path(rest).is_file():
            raise OptionError(f"{rest}: no such file; pass a unified diff of nodes/")
        return Path(rest)
    if kind == TREE and rest:
        if not (Path(rest) / "__main__.py").is_file():
            raise OptionError(f"{rest}: not a tree of node code: __main__.py is missing")
        return Path(rest)
    raise OptionError(f"unknown tree {tree!r}; use clean, mutant:ID, patch:FILE or tree:FOLDER")
