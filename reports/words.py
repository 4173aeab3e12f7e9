"""Verdicts, options and times in plain words, without markup."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from kraftwreck.checkers import strength
from kraftwreck.histories.system_name import system_of
from kraftwreck.histories.verdict import CheckerResult, Validity, Verdict

LABELS: dict[Validity | None, str] = {
    True: "valid",
    False: "INVALID",
    "unknown": "unknown",
    None: "not checked",
}
CLASSES: dict[Validity | None, str] = {
    True: "valid",
    False: "invalid",
    "unknown": "unknown",
    None: "unknown",
}
SIGNS: dict[Validity | None, str] = {True: "✓", False: "✗", "unknown": "?", None: "?"}


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Return ``1 fault`` or ``1,234 faults``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def seconds_text(microseconds: float) -> str:
    """Return a time as seconds with milliseconds, ``12.345 s``."""
    return f"{microseconds / 1e6:,.3f} s"


def span_text(microseconds: float) -> str:
    """Return a duration in a suitable unit: µs, ms or s."""
    if microseconds < 1000:
        return f"{microseconds:.0f} µs"
    if microseconds < 1e6:
        return f"{microseconds / 1000:.3g} ms" if microseconds < 999_500 else "1 s"
    return f"{microseconds / 1e6:.3g} s" if microseconds < 1e9 else f"{microseconds / 1e6:.0f} s"


def verdict_sentence(verdict: Verdict | None, found: int, scope: str) -> str:
    """Describe the findings, the reason for the verdict, and its strength, in a few sentences.

    ``found`` counts anomalies, each once even if several checkers report it. ``scope`` names what
    was judged.
    """
    text = " ".join(filter(None, [_found(verdict, found, scope), suspected_sentence(verdict)]))
    measured = verdict.checkers.get(strength.NAME) if verdict is not None else None
    if measured is None or not measured.stats:
        return text
    return f"{text} It rests on {strength.sentence(measured.stats)}."


def run_scope(operations: int, final: int, events: int, faults: int) -> str:
    """Name what the checkers of a run judged.

    ``operations`` are those on which the verdict's strength rests; ``final`` ones, which read the
    state after the last heal, are counted apart.
    """
    parts = [plural(operations, "operation")]
    if final:
        parts.append(plural(final, "final operation"))
    parts.append(plural(events, "trace event"))
    return f"{', '.join(parts)} and {plural(faults, 'fault')}"


def _found(verdict: Verdict | None, found: int, scope: str) -> str:
    if verdict is None:
        return f"No checker has judged this run of {scope}."
    checkers = verdict.checkers
    undecided = [name for name, result in checkers.items() if result.valid == "unknown"]
    if verdict.valid is False:
        guilty = [name for name, result in checkers.items() if result.valid is False]
        text = (
            f"{plural(found, 'anomaly', 'anomalies')} in {scope}, found by "
            f"{', '.join(guilty) or 'no named checker'}."
        )
        if undecided:
            text += f" Undecided: {', '.join(undecided)}."
        return text
    if verdict.valid == "unknown":
        return (
            f"No anomaly was found in {scope}, but {', '.join(undecided) or 'a checker'} could "
            "not decide, so the run proves nothing."
        )
    return f"{plural(len(checkers), 'checker')} found no anomaly in {scope}."


def suspected_sentence(verdict: Verdict | None) -> str:
    """Count the suspicions of ``verdict`` in a sentence; empty without any."""
    suspected = {} if verdict is None else verdict.suspected
    if not suspected:
        return ""
    count = sum(suspected.values())
    return (
        f"{plural(count, 'suspicion')} of {', '.join(suspected)} {'is' if count == 1 else 'are'} "
        "no proof on hosts."
    )


def checker_reason(result: CheckerResult) -> str:
    """Give the reason for a checker's verdict in a few words, and its suspicions."""
    reason = _reason(result)
    if not result.suspicions:
        return reason
    return f"{reason}; {plural(len(result.suspicions), 'suspicion')}"


def _reason(result: CheckerResult) -> str:
    if result.error:
        return result.error
    if result.anomalies:
        kinds: dict[str, int] = {}
        for anomaly in result.anomalies:
            kinds[anomaly.type] = kinds.get(anomaly.type, 0) + 1
        return ", ".join(f"{n:,} × {kind}" for kind, n in kinds.items())
    if result.valid is True:
        return "no anomaly"
    return "no reason given"


def repeat_command(test: Mapping[str, Any]) -> str:
    """Return the shell command that repeats a run: the recorded one, or one from its options."""
    recorded = test.get("repeat")
    if isinstance(recorded, str) and recorded:
        return recorded
    faults = test.get("faults")
    nodes = test.get("nodes")
    words = ["kraftwreck", "run", system_of(test)]
    options: list[tuple[str, Any]] = [
        ("-w", test.get("workload")),
        ("-n", ",".join(map(str, faults)) or "none" if isinstance(faults, list) else faults),
        ("-t", test.get("time_limit_s")),
        ("-c", test.get("cluster")),
        ("--nodes", len(nodes) if isinstance(nodes, list) else nodes),
        ("--seed", test.get("seed")),
        ("--rate", test.get("rate")),
        ("--concurrency", test.get("concurrency")),
        ("--mutant", test.get("mutant")),
        ("--patch", test.get("patch")),
    ]
    for flag, value in options:
        if value is not None:
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def run_name(test: Mapping[str, Any]) -> str:
    """Return ``<system>-<workload>``, or the name that the test was given."""
    name = test.get("name")
    if isinstance(name, str) and name:
        return name
    return f"{test.get('system', 'unknown')}-{test.get('workload', 'unknown')}"


def brief_facts(test: Mapping[str, Any]) -> str:
    """Describe the test in one sentence."""
    nodes, faults = test.get("nodes"), test.get("faults")
    count = len(nodes) if isinstance(nodes, list) else 0
    what = f"{test.get('system', 'an unknown system')}, workload {test.get('workload', 'unknown')}"
    if count:
        what += f", on {plural(count, 'node')}"
    if test.get("cluster"):
        what += f" ({test['cluster']})"
    if isinstance(faults, list):
        what += f", with faults {', '.join(map(str, faults))}" if faults else ", without faults"
    if test.get("mutant"):
        what += f", with the planted bug {test['mutant']}"
    limit = test.get("time_limit_s")
    return what + (f", for {limit:g} s." if isinstance(limit, int | float) else ".")


def facts(test: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the properties of the test as (label, text) pairs, in reading order."""
    nodes, faults, versions = test.get("nodes"), test.get("faults"), test.get("versions")
    rows: list[tuple[str, Any]] = [
        ("System", test.get("system")),
        ("Workload", test.get("workload")),
        ("Faults", ", ".join(map(str, faults)) or "none" if isinstance(faults, list) else faults),
        ("Nodes", ", ".join(map(str, nodes)) if isinstance(nodes, list) else nodes),
        ("Cluster", test.get("cluster")),
        ("Seed", test.get("seed")),
        ("Planted bug", test.get("mutant")),
        ("Patch", test.get("patch")),
        ("Started", started(test)),
        ("Time limit", _with_unit(test.get("time_limit_s"), "s")),
        ("Rate", _with_unit(test.get("rate"), "operations/s")),
        ("Clients", test.get("concurrency")),
        ("Client", _client(test.get("client"))),
    ]
    if isinstance(versions, dict):
        rows.append(("Versions", ", ".join(f"{k} {v}" for k, v in versions.items())))
    return [(label, str(value)) for label, value in rows if value is not None]


def _client(client: Any) -> str | None:
    """Describe the clients of records and their configuration; None without a description."""
    if not isinstance(client, dict):
        return None
    file, version = client.get("file"), client.get("version")
    text = " ".join(filter(None, (client.get("name"), version, file and f"with {file}")))
    for field in ("properties", "defaults", "topics"):
        values = client.get(field)
        if isinstance(values, dict) and values:
            listed = ", ".join(f"{name}={value}" for name, value in values.items())
            text += f"; {field}: {listed}"
    return text


def started(test: Mapping[str, Any]) -> str | None:
    """Return when a run started: UTC, or ``in virtual time``; None if unknown."""
    if test.get("simulated"):
        return "in virtual time"
    wall = test.get("started_wall")
    return wall if isinstance(wall, str) else None


def _with_unit(value: Any, unit: str) -> str | None:
    if value is None:
        return None
    return f"{value:g} {unit}" if isinstance(value, int | float) else f"{value} {unit}"
