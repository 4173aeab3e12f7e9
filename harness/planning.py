"""Errors in the plan of a workload: one line that names the workload's file and line.

Combinators, too, check what a workload's code returns when they call it. So a wrong value is an
error of that code and not of a combinator.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from kraftwreck.harness.code_places import ROOT, code_place
from kraftwreck.harness.generator import (
    Context,
    Due,
    Event,
    Generator,
    Pending,
    Planned,
    Split,
    Step,
)
from kraftwreck.harness.workload import Load, Workload
from kraftwreck.histories.exit_codes import BadInputError, CommandError
from kraftwreck.histories.undecodable import is_json

_OURS = (ROOT / "harness", ROOT / "workloads")
_CANNOT = "the workload cannot plan its operations"
_A_STEP = "a tuple (Due or Pending, generator or None), or None"
_A_GENERATOR = "a generator, which has the methods op and update"
_AN_OPERATION = "Planned(f, key, value) with a name of an operation, and JSON for key and value"
_PLAIN = frozenset({type(None), bool, int, str})
"""Types of keys and values that are JSON for sure."""

P = ParamSpec("P")
T = TypeVar("T")


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
        return _checked(workload.generator, _is_left, _A_GENERATOR, load)


def final_of(workload: Workload, nodes: Sequence[str]) -> list[Planned]:
    """Return the final operations of ``workload``; raises :class:`PlanError` if that fails."""
    with planning():
        final = list(workload.final(nodes))
        for each in final:
            if not _is_planned(each):
                raise _returned(workload.final, each, f"each operation as {_AN_OPERATION}")
        return final


def parts_of(
    generator: Generator, threads: Sequence[int]
) -> Sequence[tuple[tuple[int, ...], Generator]]:
    """Return the parts of ``generator`` that share no thread: itself unless it is split."""
    if not isinstance(generator, Split):
        return [(tuple(threads), generator)]
    with planning():
        parts = [(tuple(own), part) for own, part in generator.parts(threads)]
        left = set(threads)
        for own, part in parts:
            if not (left >= set(own) and _is_generator(part)):
                raise _returned(generator.parts, (own, part), "threads of its own and a generator")
            left -= set(own)
        return parts


def next_step(generator: Generator, context: Context) -> Step:
    """Return ``generator.op(context)``; raises :class:`PlanError` if that is not a step."""
    step = generator.op(context)
    if step is None:
        return None
    if not (isinstance(step, tuple) and len(step) == 2 and _is_left(step[1])):
        raise _returned(generator.op, step, _A_STEP)
    due = step[0]
    if isinstance(due, Pending):
        if not (due.until is None or isinstance(due.until, int)):
            raise _returned(generator.op, due, "Pending(until) in whole nanoseconds")
    elif not isinstance(due, Due):
        raise _returned(generator.op, step, _A_STEP)
    elif due.thread not in context.free:
        raise _returned(generator.op, due, f"a free thread of {list(context.free)}")
    elif not isinstance(due.time, int):
        raise _returned(generator.op, due, "Due(time, ...) in whole nanoseconds")
    elif not _is_planned(due.planned):
        raise _returned(generator.op, due, _AN_OPERATION)
    return step


def updated(generator: Generator, context: Context, event: Event) -> Generator:
    """Return ``generator.update(context, event)``; raises :class:`PlanError` if that is not a
    generator."""
    after = generator.update(context, event)
    if not _is_generator(after):
        raise _returned(generator.update, after, _A_GENERATOR)
    return after


def planned_by(plan: Callable[[int, int, int], Planned], *place: int) -> Planned:
    """Return ``plan(*place)``; raises :class:`PlanError` if that is not an operation."""
    return _checked(plan, _is_planned, _AN_OPERATION, *place)


def made_by(make: Callable[[Any], Generator], key: Any) -> Generator:
    """Return ``make(key)``; raises :class:`PlanError` if that is not a generator."""
    return _checked(make, _is_generator, _A_GENERATOR, key)


def _checked(
    function: Callable[P, T],
    right: Callable[[object], bool],
    wanted: str,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    made = function(*args, **kwargs)
    if not right(made):
        raise _returned(function, made, wanted)
    return made


def _is_generator(value: object) -> bool:
    return hasattr(value, "op") and hasattr(value, "update")


def _is_left(value: object) -> bool:
    return value is None or _is_generator(value)


def _is_planned(value: object) -> bool:
    """Whether it is an operation that the history can hold."""
    return (
        isinstance(value, Planned)
        and isinstance(value.f, str)
        and all(type(each) in _PLAIN or is_json(each) for each in (value.key, value.value))
    )


def _returned(function: Callable[..., object], value: object, wanted: str) -> PlanError:
    """Return the error of ``function``, which returned ``value`` instead of ``wanted``."""
    name = getattr(function, "__qualname__", repr(function))
    told = f"{name} returned {value!r:.80}, not {wanted}"
    try:
        path = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").resolve()
        line = inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        return PlanError(f"{_CANNOT}: {told}")
    return PlanError(f"{_CANNOT}: {told} ({code_place(path, line)})")


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
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return PlanError(f"{_CANNOT}: {text} ({code_place(path, line)})")
