"""Cases as JSON files: small, strict, and readable years later or rejected with the reason.

Only values that differ from the defaults are written. An unknown value (a renamed setting, a
removed fault) is an error that names the file and the field: a case must not silently become a
different one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.campaigns.case import Case, Operation, Size
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.triggers import TriggerError, parse
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nemesis.registry import families
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.simulators import simulator

FORMAT = 1


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a case fails: the ``checker``, the ``type`` of anomaly, and the ``roles`` of the nodes in
    it. ``explanation`` is the checker's text, for people."""

    checker: str
    type: str
    roles: tuple[str, ...] = ()
    explanation: str = ""

    def same(self, other: Expected) -> bool:
        """Return whether checker, type and roles are the same."""
        mine, yours = (self.checker, self.type), (other.checker, other.type)
        return mine == yours and self.roles == other.roles

    def __str__(self) -> str:
        roles = f" ({', '.join(self.roles)})" if self.roles else ""
        return f"{self.checker}: {self.type}{roles}"


class SavedCase(msgspec.Struct, kw_only=True):
    """A case, its description, and its result when it was saved.

    ``failure`` is how it fails with the given ``mutant`` (id of a planted bug) or ``patch`` (a
    file, relative to the case's own), and ``digest`` is that of the run. ``about`` describes what
    the case guards, ``before`` is its size before it was shrunk.
    """

    case: Case
    failure: Expected | None = None
    digest: str | None = None
    mutant: str | None = None
    patch: str | None = None
    about: str | None = None
    before: Size | None = None


class _Layout(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The file's fields, in their order."""

    kraftwreck_case: int
    about: str | None = None
    mutant: str | None = None
    patch: str | None = None
    failure: Expected | None = None
    before: Size | None = None
    digest: str | None = None
    system: str = DEFAULT_SYSTEM
    workload: str
    nodes: int
    time_limit_s: float
    rate: float
    concurrency: int
    seed: int
    knobs: dict[str, Any] = {}
    schedule: list[dict[str, Any]] = []
    operations: list[Operation] | None = None


def write_case(path: Path, saved: SavedCase) -> None:
    """Write ``saved`` to ``path``, one fault per line. Raises :class:`OptionError`."""
    case = saved.case
    layout = _Layout(
        kraftwreck_case=FORMAT,
        about=saved.about,
        mutant=saved.mutant,
        patch=_beside(saved.patch, path.parent),
        failure=saved.failure,
        before=saved.before,
        digest=saved.digest,
        system=case.system,
        workload=case.workload,
        nodes=case.nodes,
        time_limit_s=case.time_limit_s,
        rate=case.rate,
        concurrency=case.concurrency,
        seed=case.seed,
        knobs=_differing(case.knobs),
        schedule=[_fault(fault) for fault in case.schedule],
        operations=None if case.operations is None else list(case.operations),
    )
    plain: dict[str, Any] = msgspec.to_builtins(layout)
    lines = [f" {_text(name)}: {_value(name, value)}" for name, value in plain.items()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from error


def _beside(patch: str | None, folder: Path) -> str | None:
    """Return the file name of a patch that is in ``folder``, the full path of any other."""
    if patch is None:
        return None
    whole = Path(patch).resolve()
    return whole.name if whole.parent == folder.resolve() else str(whole)


def _text(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _value(name: str, value: Any) -> str:
    if name == "schedule" and value:
        return "[\n" + ",\n".join(f"  {_text(fault)}" for fault in value) + "\n ]"
    return _text(value)


def _differing(knobs: WorldKnobs) -> dict[str, Any]:
    plain = type(knobs)()
    found = {}
    for name in knobs.__struct_fields__:
        value = getattr(knobs, name)
        if value != getattr(plain, name):
            found[name] = msgspec.to_builtins(value)
    return found


def _fault(fault: Fault) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(fault)
    defaults = {f.name: f.default for f in msgspec.structs.fields(Fault) if not f.required}
    return {
        name: value
        for name, value in plain.items()
        if name not in defaults or getattr(fault, name) != defaults[name]
    }


# --- reading -------------------------------------------------------------------------------------


def read_case(path: Path) -> SavedCase:
    """Return the case in ``path``.

    Raises :class:`OptionError`, one line that names the field, for a file that is not a case or
    that was written for another version of the simulator.
    """
    try:
        layout = msgspec.json.decode(path.read_bytes(), type=_Layout)
        if layout.kraftwreck_case != FORMAT:
            raise OptionError(
                f"kraftwreck_case: version {layout.kraftwreck_case} is not supported, only {FORMAT}"
            )
        case = Case(
            system=layout.system,
            workload=layout.workload,
            nodes=layout.nodes,
            time_limit_s=layout.time_limit_s,
            rate=layout.rate,
            concurrency=layout.concurrency,
            seed=layout.seed,
            knobs=_knobs(layout.knobs, simulator(layout.system).knobs),
            schedule=_schedule(layout.schedule),
            operations=None if layout.operations is None else tuple(layout.operations),
        )
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}; pass a case file") from error
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from error
    except UNDECODABLE as error:
        raise OptionError(f"{path}: not a case: {' '.join(str(error).split())}") from error
    return SavedCase(
        case=case,
        failure=layout.failure,
        digest=layout.digest,
        mutant=layout.mutant,
        patch=None if layout.patch is None else str(path.parent / layout.patch),
        about=layout.about,
        before=layout.before,
    )


def _knobs(plain: Mapping[str, Any], kind: type[WorldKnobs]) -> WorldKnobs:
    _known("knobs", plain, kind.__struct_fields__)
    numbers = kind.names_of_settings()
    for name in ("node", "hasty"):
        values = plain.get(name)
        if isinstance(values, dict) and numbers is not None:
            _known(f"knobs.{name}", values, numbers)
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise OptionError(f"knobs: {error}") from error


def _schedule(plain: Sequence[dict[str, Any]]) -> tuple[Fault, ...]:
    return tuple(_read_fault(f"schedule[{i}]", fault) for i, fault in enumerate(plain))


def _read_fault(where: str, plain: dict[str, Any]) -> Fault:
    _known(where, plain, Fault.__struct_fields__)
    try:
        fault = msgspec.convert(plain, Fault)
        if fault.trigger is not None:
            parse(fault.trigger)
    except (msgspec.ValidationError, TriggerError) as error:
        raise OptionError(f"{where}: {error}") from error
    family = families().get(fault.kind)
    if family is None:
        raise OptionError(f"{where}: unknown kind {fault.kind!r}; known: {', '.join(families())}")
    if fault.shape not in family.shapes:
        known = ", ".join(family.shapes)
        raise OptionError(f"{where}: {fault.kind} has no shape {fault.shape!r}; known: {known}")
    return fault


def _known(where: str, plain: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in plain:
        if name not in known:
            raise OptionError(f"{where}: unknown field {name!r}; was it renamed or removed since?")
