"""A case in plain words: the cluster, its settings, and a timeline of its faults."""

from __future__ import annotations

from collections.abc import Iterator

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.case import SECOND, Case, settings
from kraftwreck.nemesis.membership import MembershipShape
from kraftwreck.nemesis.registry import families

_CHANGES = {"remove": "loses its vote", "add": "is made a voter", "wipe": "is replaced"}


def describe(case: Case) -> Iterator[str]:
    """Yield the lines of the description."""
    quorum = "dynamic" if case.knobs.dynamic else "static"
    brokers = case.knobs.brokers
    beside = f" and {_plural(brokers, 'broker')}" if brokers else ""
    if case.operations is None:
        work = f"{case.rate:g} operations per second by {_plural(case.concurrency, 'client')}"
    else:
        clients = len({thread for thread, _ in case.operations})
        work = f"{_plural(len(case.operations), 'operation')} by {_plural(clients, 'client')}"
    yield f"{_plural(case.nodes, 'controller')} of a {quorum} quorum{beside}, seed {case.seed}"
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
    family = families().get(fault.kind)
    action = family.action if family is not None else None
    whom = _whom(fault.targets) or f"(by shape {fault.shape}, draw {fault.draw})"
    for_ = _duration(fault.duration)
    if action == "cut":
        return f"{whom}: partition {fault.shape}, for {for_}"
    if action == "kill":
        return f"{whom}: killed, started again {for_} later"
    if action == "terminate":
        return f"{whom}: terminated, started again {for_} later"
    if action == "power":
        return f"{whom}: loses power and unflushed data, started again {for_} later"
    if action == "pause":
        return f"{whom}: paused for {for_}"
    shape = family.shapes.get(fault.shape) if family is not None else None
    if isinstance(shape, MembershipShape):
        back = "" if shape.start == "add" else f", and votes again {for_} later"
        return f"{whom}: {_CHANGES[shape.start]}{back}"
    return f"{whom}: {fault.kind} {fault.shape}, for {for_}"


def _whom(targets: tuple[str, ...]) -> str:
    words = {"@": "the triggering node", "@leader": "its leader"}
    return ", ".join(words.get(target, target) for target in targets)


def _duration(nanoseconds: int) -> str:
    if nanoseconds < SECOND:
        return f"{nanoseconds / 1e6:g} ms"
    return f"{nanoseconds / SECOND:g} s"
