"""The night in OpenMetrics text format, for a node exporter's textfile collector or a gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from kraftwreck.nightly.record import Record
from kraftwreck.nightly.totals import Night

_PREFIX = "kraftwreck_night"


def metrics(night: Night, records: Sequence[Record]) -> str:
    """Return ``metrics.txt``. All metrics are gauges of one night, so the next may have less."""
    name = {"night": night.name}
    by_run = Counter(
        (r.system, r.cluster, r.tree, _word(r.valid), r.klass or "none") for r in records
    )
    labels = ("system", "cluster", "tree", "valid", "class")
    families: list[tuple[str, str, Iterable[tuple[Mapping[str, str], float]]]] = [
        (
            "runs", "Finished runs by verdict and class.",
            [({**name, **dict(zip(labels, key, strict=True))}, n) for key, n in by_run.items()],
        ),
        ("duration_seconds", "Time the night has spent.", [(name, night.spent_s)]),
        ("cpu_seconds", "CPU time of all runs.", [(name, night.cpu_s)]),
        ("simulated_seconds", "Virtual time of all runs.", [(name, night.sim_s)]),
        ("failure_kinds", "Different ways in which builds failed.", _kinds(night)),
        (
            "suspicious_runs", "Runs with suspicions, by whether one came back.",
            [
                ({**name, "back": _word(back)},
                 sum(bool(r.suspicions) and bool(r.raised) is back for r in records))
                for back in (False, True)
            ],
        ),
        ("planted_bugs", "Builds with a planted bug.", _planted(night)),
        (
            "fault_pairs", "Ordered pairs of fault classes that occurred, by kind of cluster.",
            [({**name, "cluster": c}, s["pairs"][0]) for c, s in night.coverage.items()],
        ),
        ("sessions", "Processes that worked on the night.", [(name, night.sessions)]),
        ("complete", "Whether the night finished.", [(name, night.state == "complete")]),
        ("began_timestamp_seconds", "When it began.", _time(name, night.began)),
        ("ended_timestamp_seconds", "When it ended.", _time(name, night.ended)),
    ]  # fmt: skip
    if night.exit_code is not None:
        families.append(("exit_code", "Exit code of the night.", [(name, night.exit_code)]))
    lines = []
    for family, about, samples in families:
        full = f"{_PREFIX}_{family}"
        lines.append(f"# TYPE {full} gauge")
        if family.endswith("_seconds"):
            lines.append(f"# UNIT {full} seconds")
        lines.append(f"# HELP {full} {about}")
        lines += [f"{full}{{{_labels(named)}}} {_number(value)}" for named, value in samples]
    return "\n".join([*lines, "# EOF", ""])


def _kinds(night: Night) -> Iterable[tuple[Mapping[str, str], float]]:
    for planted in (False, True):
        count = sum((kind.tree != "clean") is planted for kind in night.kinds)
        yield {"night": night.name, "planted": _word(planted)}, count


def _planted(night: Night) -> Iterable[tuple[Mapping[str, str], float]]:
    for found in (False, True):
        count = sum(bool(bug.found) is found for bug in night.planted)
        yield {"night": night.name, "found": _word(found)}, count


def _time(name: Mapping[str, str], when: str | None) -> list[tuple[Mapping[str, str], float]]:
    return [] if when is None else [(name, datetime.fromisoformat(when).timestamp())]


def _word(value: object) -> str:
    return str(value).lower()


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
