"""Errors in the plan of a workload: one line that names the workload's file and line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import kraftwreck.harness
from kraftwreck.harness.generator import Generator, Planned
from kraftwreck.harness.workload import Load, Workload
from kraftwreck.histories.exit_codes import BadInputError, CommandError

_ROOT = Path(str(kraftwreck.harness.__file__)).resolve().parents[1]
_OURS = (_ROOT / "harness", _ROOT / "workloads")


class PlanError(BadInputError):
    """A workload raised an error where it should have planned operations."""


@contextmanager
def planning() -> Iterator[None]:
    """Turn an error of a workload's code into a :class:`PlanError`."""
    try:
        yield
    except CommandError:
        raise
    except Exception as error:
        raise _plan_error(error) from error


def generator_of(workload: Workload, load: Load) -> Generator | None:
    """Return the generator of ``workload``; raises :class:`PlanError` if that fails."""
    with planning():
        return workload.generator(load)


def final_of(workload: Workload, nodes: Sequence[str]) -> list[Planned]:
    """Return the final operations of ``workload``; raises :class:`PlanError` if that fails."""
    with planning():
        return list(workload.final(nodes))


def _plan_error(error: Exception) -> PlanError:
    """Return what ends the run: ``error``, and the line of the workload that raised it.

    Generators call each other through our code. So the line is the innermost one in the folder of
    the first file that is not part of it.
    """
    frames = [
        (Path(frame.filename).resolve(), frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    foreign = [path for path, _ in frames if not any(map(path.is_relative_to, _OURS))]
    home = foreign[0].parent if foreign else frames[-1][0].parent
    path, line = [each for each in frames if each[0].is_relative_to(home)][-1]
    shown = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return PlanError(f"the workload cannot plan its operations: {text} ({shown}:{line})")
