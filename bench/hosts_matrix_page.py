"""Make docs/hosts-matrix.md of the records written by :mod:`bench.hosts_matrix`.

    .venv/bin/python -m bench.hosts_matrix_page STORE [STORE ...] > docs/hosts-matrix.md

Alarms and unknown verdicts are listed with their causes from bench/results/hosts-alarms.toml, or as
without a cause.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.hosts_matrix import records

CAUSES = Path(__file__).parent / "results" / "hosts-alarms.toml"
VERDICTS = {0: "valid", 1: "invalid", 2: "unknown"}

Record = dict[str, Any]


def page(stores: Sequence[tuple[str, Sequence[Record]]], causes: Sequence[Record]) -> str:
    """Return the page for the records of ``stores``, each with its title."""
    lines = [
        "# Everything on hosts",
        "",
        "The clean build on real hosts, over workloads, fault families, run lengths, quorums and"
        " brokers.",
        "Made by `python -m bench.hosts_matrix_page` from the records of `make test-hosts`.",
    ]
    for name, every in stores:
        found = list({record["number"]: record for record in every}.values())
        lines += ["", f"## {name}", "", *_overview(found)]
        lines += ["", *_table(found, "faults"), "", *_table(found, "workload")]
        lines += ["", *_by_length(found)]
        lines += ["", *_alarms(every, causes)]
    return "\n".join(lines) + "\n"


def _overview(found: Sequence[Record]) -> list[str]:
    counts = Counter(VERDICTS.get(record["exit"], "failed") for record in found)
    told = ", ".join(f"{counts[name]} {name}" for name in (*VERDICTS.values(), "failed"))
    loads = sorted(record["load"] for record in found)
    clusters = ", ".join(sorted({record["cluster"] for record in found}))
    seconds = sum(record["cell"]["seconds"] for record in found)
    return [
        f"{len(found)} runs on {clusters}, {seconds / 3600:.1f} hours of faults: {told}. Load of"
        f" the machine: median {loads[len(loads) // 2]:g}, at most {loads[-1]:g}.",
    ]


def _table(found: Sequence[Record], key: str) -> list[str]:
    return _rows(found, key, lambda record: str(record["cell"][key]))


def _by_length(found: Sequence[Record]) -> list[str]:
    def name(record: Record) -> str:
        cell = record["cell"]
        return f"{cell['seconds']} s, {cell['quorum']} quorum, {cell['nodes']} brokers".replace(
            "combined brokers", "combined roles"
        ).replace("brokers brokers", "two brokers")

    return _rows(found, "length, quorum, brokers", name)


def _rows(found: Sequence[Record], title: str, name: Callable[[Record], str]) -> list[str]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in found:
        groups[name(record)].append(record)
    lines = [
        f"| {title} | runs | valid | invalid | unknown | acknowledged | time with a leader |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for group, of in sorted(groups.items()):
        counts = Counter(record["exit"] for record in of)
        strengths = [record["strength"] for record in of if record["strength"]]
        share = _median([s.get("share") for s in strengths])
        led = _median([s.get("led") for s in strengths])
        lines.append(
            f"| {group} | {len(of)} | {counts[0]} | {counts[1]} | {counts[2]} | {share} | {led} |"
        )
    return lines


def _median(values: Sequence[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    return f"{known[len(known) // 2]:.0%}" if known else "–"


def _alarms(found: Sequence[Record], causes: Sequence[Record]) -> list[str]:
    alarms = [record for record in found if record["exit"] != 0]
    if not alarms:
        return ["No run was invalid, unknown or failed."]
    last = {record["number"]: record for record in found}
    lines = ["| command | verdict | first finding | cause | repeated |", "|---|---|---|---|---|"]
    for record in alarms:
        first = [*record["anomalies"], *record["errors"], *record["said"], "none"][0]
        verdict = VERDICTS.get(record["exit"], "failed")
        lines.append(
            f"| `{record['command']}` | {verdict} | {_cell(first)} | {_cause(first, causes)}"
            f" | {_repeated(record, last[record['number']])} |"
        )
    return lines


def _repeated(record: Record, last: Record) -> str:
    return "no" if record is last else VERDICTS.get(last["exit"], "failed")


def _cause(finding: str, causes: Sequence[Record]) -> str:
    for cause in causes:
        if cause["finding"] in finding:
            return _cell(cause["cause"])
    return "not known yet"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:300]


def main() -> None:
    """Print the page."""
    if len(sys.argv) < 2:
        sys.exit("bench.hosts_matrix_page: name at least one store of bench.hosts_matrix")
    stores = []
    for word in sys.argv[1:]:
        found = records(Path(word) / "matrix.jsonl")
        if not found:
            sys.exit(f"{word}/matrix.jsonl: no records; run python -m bench.hosts_matrix {word}")
        stores.append((Path(word).name, found))
    causes = tomllib.loads(CAUSES.read_text())["alarm"] if CAUSES.exists() else []
    sys.stdout.write(page(stores, causes))


if __name__ == "__main__":
    main()
