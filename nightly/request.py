"""What the process of one run is asked, and what it answers: JSON on both sides.

The process gets a :class:`Request` on standard input and writes its :class:`Answer` to the file
that names; what it prints is for people. No answer means that it crashed or was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from nemesis.coverage import Coverage
from nightly.config import Block
from nightly.record import Failure, Valid

Do = Literal["sim", "case", "cluster", "heal"]


class Request(msgspec.Struct, kw_only=True):
    """One run: a run of a cell (``sim`` or ``cluster``), a ``case``, or a cluster to ``heal``.

    ``answer`` is the file to write, ``given`` the case to run, ``case`` where to write the run
    as a case if it is red; ``keep`` says whether a red simulated run leaves a run folder.
    ``mutant`` or ``patch`` name what is planted in the node code; simulated runs import it already.
    """

    do: Do
    answer: str
    system: str = "kraft"
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
    """What came of it. ``exit_code`` is that of ``kraftwreck run``; ``trouble`` says in one line
    what kept the run from being judged, or what the judging lacked."""

    valid: Valid
    exit_code: int = 0
    failures: list[Failure] = []
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
    """Commands of the top floor: ``worker`` makes one run, ``shrink`` is ``kraftwreck shrink``;
    ``environment`` returns that of a process which imports ``nodes`` from a folder."""

    worker: Sequence[str]
    shrink: Sequence[str]
    environment: Callable[[Path], dict[str, str]]
