"""A simulated run as a run folder, with the same files as a real run."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.own_options import in_present_shape
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload, owed
from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.reading import convert_run
from kraftwreck.histories.store import RunFolder, StoreError, link_latest, write_json
from kraftwreck.histories.system_name import system_of
from kraftwreck.histories.undecodable import UNDECODABLE, UNENCODABLE
from kraftwreck.histories.verdict import Verdict
from kraftwreck.simulation.knobs import WorldKnobs

K = TypeVar("K", bound=WorldKnobs)

More = Callable[[RunFolder, SimResult], None]
"""Writes further files of a run."""


def save(
    options: RunOptions,
    workload: Workload,
    result: SimResult,
    *,
    verdict: Verdict | None = None,
    repeat: str | None = None,
    more: More | None = None,
) -> Path:
    """Write ``result`` as a run folder below ``options.store``; return the folder.

    ``verdict`` becomes ``results.json``; ``repeat`` is the command that repeats the run. ``more``
    writes the files of the system's own. Raises :class:`~histories.store.StoreError`.
    """
    folder = RunFolder(options.store, options.name, options.seed)
    try:
        _write(folder, workload, result, repeat, more)
        if verdict is None:
            return folder.complete()
        write_json(folder.path / "results.json", verdict)
        link_latest(folder.complete())
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise StoreError(f"{folder.path}: {reason}; choose another --store") from error
    return folder.path


def _write(
    folder: RunFolder,
    workload: Workload,
    result: SimResult,
    repeat: str | None,
    more: More | None,
) -> None:
    """Write the files of a simulated run. Raises OSError and StoreError."""
    test: dict[str, Any] = {
        **result.test,
        "digest": result.digest,
        "sim_s": result.sim_s,
        "checkers": list(workload.checkers),
        "owed": owed(workload),
        "errors": [],
        "interrupted": False,
        "simulator_failures": msgspec.to_builtins(result.failures),
        "versions": {"kraftwreck": version("kraftwreck"), "python": platform.python_version()},
    }
    if repeat is not None:
        test["repeat"] = repeat
    folder.write_json("test.json", test)
    _write_lines(folder.path / "history.jsonl", result.ops)
    _write_lines(folder.path / "faults.jsonl", result.faults)
    names = [str(name) for name in result.test["nodes"]]
    for name in names:
        events = [event for event in result.events if event.node == name]
        _write_lines(folder.node(name) / "trace.jsonl", events)
    if more is not None:
        more(folder, result)
    convert_run(folder.path)


def load(folder: Path, kind: type[K]) -> tuple[RunOptions, list[Fault], K, str]:
    """Return options, schedule, knobs (of type ``kind``) and digest of the simulated run in
    ``folder``.

    Raises :class:`OptionError`, one line, if it is not the folder of a simulated run.
    """
    path = folder / "test.json"
    test = read_test(folder)
    try:
        if not test.get("simulated"):
            raise OptionError(f"{path}: not a simulated run")
        schedule = msgspec.convert(test["schedule"], list[Fault])
        knobs = msgspec.convert(test["knobs"], kind, str_keys=True)
        return options_of(test["options"]), schedule, knobs, str(test["digest"])
    except KeyError as missing:
        raise OptionError(
            f"{path}: {missing.args[0]} is missing, so it cannot be run again"
        ) from missing
    except (*UNDECODABLE, TypeError) as error:
        raise OptionError(f"{path}: {' '.join(str(error).split())}") from error


def read_test(folder: Path) -> dict[str, Any]:
    """Return ``test.json`` of the run in ``folder``, simulated or not.

    Raises :class:`OptionError`, one line, if it is not a run folder.
    """
    path = folder / "test.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as refused:
        raise OptionError(f"{path}: {refused.strerror}; pass a run folder") from refused
    except UNDECODABLE as error:
        raise OptionError(f"{path}: {' '.join(str(error).split())}") from error


def options_of(plain: dict[str, Any]) -> RunOptions:
    """Return the options from the result of :meth:`RunOptions.as_json`; ignore unknown ones.

    In folders of earlier releases a system's own options are fields like all others. Raises
    :class:`msgspec.ValidationError` for values of other types.
    """
    known = {field.name for field in fields(RunOptions)}
    plain = in_present_shape(plain, system_of(plain))
    values = {name: value for name, value in plain.items() if name in known}
    return msgspec.convert(values, RunOptions, dec_hook=_path)


def _path(kind: type, value: object) -> Path:
    """Return a field of :class:`RunOptions` that JSON has no type for."""
    if kind is not Path or not isinstance(value, str):
        raise msgspec.ValidationError("Expected `str` for a path")
    return Path(value)


def _write_lines(path: Path, records: Sequence[object]) -> None:
    """Write ``records``, one a line. Raises :class:`BadInputError`: a core may trace anything."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for record in records:
            try:
                file.write(encoder.encode(record) + b"\n")
            except UNENCODABLE as error:
                reason = " ".join(str(error).split())
                raise BadInputError(
                    f"{path.name} cannot hold what the system says: {reason}: {record!r:.120}"
                ) from error
