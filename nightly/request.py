"""The request to the process of one run, and its answer, both as JSON.

The process gets a :class:`Request` on standard input and writes its :class:`Answer` to the file
named there; its output is for people. A missing answer means that it crashed or was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.config import Block
from kraftwreck.nightly.record import Failure, Valid

Do = Literal["sim", "case", "cluster", "heal"]


class Request(msgspec.Struct, kw_only=True):
    """One run: of a cell (``sim`` or ``cluster``), a ``case``, or a cluster to ``heal``.

    ``answer`` is the file to write, ``given`` the case to run, ``case`` where to write a red run as
    a case. ``keep`` says whether a red simulated run keeps its run folder. ``mutant`` or ``patch``
    name the planted bug; simulated runs import the patched code already.
    """

    do: Do
    answer: str
    system: str = DEFAULT_SYSTEM
    workload: str = ""
    faults: tuple[str, ...] = ()
    cluster: str = "sim"
    seed: int = 0
    block: Block = Block()
    store: str = "store"
    given: str | None = None
    case: str | None = None
    keep: bool = False
    mutant: str | None = None
    patch: str | None = None


class Answer(msgspec.Struct, kw_only=True):
    """The result of a run. ``exit_code`` is that of ``kraftwreck run``; ``trouble`` is one line
    about what prevented the verdict, or what it lacked."""

    valid: Valid
    exit_code: int = 0
    failures: list[Failure] = []
    suspicions: list[Failure] = []
    unknown: list[str] = []
    trouble: str | None = None
    workload: str = ""
    digest: str | None = None
    sim_s: float = 0.0
    cpu_s: float = 0.0
    run: str | None = None
    repeat: str = ""
    seed: int = 0
    faults: list[str] = []
    coverage: Coverage | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    """Commands of the top layer: ``worker`` makes one run, ``shrink`` is ``kraftwreck shrink``.
    ``environment`` returns the environment of a process that imports ``nodes`` from a folder."""

    worker: Sequence[str]
    shrink: Sequence[str]
    environment: Callable[[Path], dict[str, str]]
