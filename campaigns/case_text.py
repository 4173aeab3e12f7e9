"""A case in plain words: the cluster, its settings, and a timeline of its faults."""

from __future__ import annotations

from collections.abc import Iterator

from kraftwreck.campaigns.case import SECOND, Case, settings
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.registry import families


def describe(case: Case) -> Iterator[str]:
    """Yield the lines of the description."""
    if case.operations is None:
        work = f"{case.rate:g} operations per second by {_plural(case.concurrency, 'client')}"
    else:
        clients = len({thread for thread, _ in case.operations})
        work = f"{_plural(len(case.operations), 'operation')} by {_plural(clients, 'client')}"
    yield f"{case.knobs.cluster(case.nodes)}, seed {case.seed}"
    yield f"{case.time_limit_s:g} s of the workload {case.workload}: {work}"
    changed = ", ".join(_settings(case)) or "nothing"
    yield f"settings that differ from the defaults: {changed}"
    yield f"{_plural(len(case.schedule), 'fault')}" + (":" if case.schedule else "")
    for fault in sorted(case.schedule, key=_order):
        yield f"  {_when(fault):<28} {_what(fault)}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {what}s"


def _settings(case: Case) -> Iterator[str]:
    for name, key in settings(case.knobs):
        value = getattr(case.knobs, name)
        yield f"{name}={value}" if key is None else f"{name}.{key}={value[key]}"


def _order(fault: Fault) -> tuple[int, int]:
    return (0 if fault.storm is None else fault.storm.number, fault.at)


def _when(fault: Fault) -> str:
    at = f"{fault.at / SECOND:.9f}".rstrip("0").rstrip(".")
    storm = "" if fault.storm is None else f"storm {fault.storm.number}, "
    if fault.trigger is None:
        return f"{storm}{at} s"
    name, _, count = fault.trigger.partition("#")
    return f"{storm}after {at} s, at {name} no. {count or 1}"


def _what(fault: Fault) -> str:
    targets = _whom(fault.targets) or f"(by shape {fault.shape}, draw {fault.draw})"
    duration = _duration(fault.duration)
    family = families().get(fault.kind)
    if family is None or fault.shape not in family.shapes:
        return f"{targets}: {fault.kind} {fault.shape}, for {duration}"
    return family.describe(fault.shape, targets, duration)


def _whom(targets: tuple[str, ...]) -> str:
    words = {"@": "the triggering node", "@leader": "its leader"}
    return ", ".join(words.get(target, target) for target in targets)


def _duration(nanoseconds: int) -> str:
    if nanoseconds < SECOND:
        return f"{nanoseconds / 1e6:g} ms"
    return f"{nanoseconds / SECOND:g} s"
