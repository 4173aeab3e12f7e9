"""The record of a run, a line of ``runs.jsonl``, and how to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from kraftwreck.histories.store import whole_lines
from kraftwreck.histories.undecodable import UNDECODABLE

Kind = Literal["corpus", "again", "cell"]
Class = Literal["system", "harness", "environment", "flake"]
Valid = Literal["unknown"] | bool

RUNS = "runs.jsonl"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A violation found by a checker: the first anomaly, or the first suspicion, of a type."""

    checker: str
    type: str
    explanation: str = ""

    def same(self, other: Failure) -> bool:
        """Return whether both have the same checker and the same type."""
        return (self.checker, self.type) == (other.checker, other.type)


class Record(msgspec.Struct, kw_only=True, rename={"klass": "class"}):
    """A finished run; the fields are explained in ``docs/nightly.md``."""

    n: int
    kind: Kind
    cell: str
    system: str
    workload: str
    faults: list[str]
    cluster: str
    tree: str
    planted: bool
    seed: int
    valid: Valid
    klass: Class | None = None
    was: Class | None = None
    why: str | None = None
    failures: list[Failure] = []
    suspicions: list[Failure] = []
    raised: list[Failure] = []
    run: str | None = None
    case: str | None = None
    shrunk: str | None = None
    like: int | None = None
    repeat: str = ""
    started: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    sim_s: float = 0.0
    digest: str | None = None
    attempts: int = 1
    at_s: float = 0.0
    met: list[str] = []

    @property
    def red(self) -> bool:
        """Whether anything failed, the system or the harness."""
        return self.klass is not None


def read_records(folder: Path) -> list[Record]:
    """Return the runs of the night in ``folder``, in the order in which they ended.

    A torn last line is ignored. Raises ValueError, one line, for other files.
    """
    path = folder / RUNS
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    decoder = msgspec.json.Decoder(Record)
    found = []
    for number, line in enumerate(data[: whole_lines(data)].splitlines(), start=1):
        try:
            found.append(decoder.decode(line))
        except UNDECODABLE as error:
            text = " ".join(str(error).split())
            raise ValueError(f"{path}: line {number}: not a record of a run: {text}") from error
    return found
