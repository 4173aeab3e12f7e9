"""Make ``docs/client-suites.md`` of the records in ``bench/results/suites``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.suites.outcomes import PASSED
from bench.suites.sources import KAFKA_PYTHON, LIBRDKAFKA
from kraftwreck.oracle.quorum import KAFKA, OURS
from kraftwreck.oracle.release import kafka_version

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "suites"
PAGE = ROOT / "docs" / "client-suites.md"
SOURCES = {source.name: source for source in (KAFKA_PYTHON, LIBRDKAFKA)}

Rows = Mapping[str, Mapping[str, Any]]


def is_due(row: Mapping[str, Any]) -> bool:
    """Whether a test must pass against ours: it passes against Apache Kafka, and needs nothing
    that this project does not serve."""
    return bool(row.get(KAFKA) == PASSED and not row.get("needs"))


def page(suites: Mapping[str, Rows]) -> str:
    """Return the page for the records of the suites."""
    lines = [
        "# Test suites of Kafka clients",
        "",
        "Kafka clients bring tests of their own, by people who know nothing of this project. Here"
        f" they run against Apache Kafka {kafka_version()}",
        "and against ours, each on a fresh cluster, one test after another. A test is due if it"
        " passes against Apache Kafka and needs",
        "no group, transaction, ACL or SASL. The requests that a test sent, in Apache Kafka's"
        " request log, show its needs.",
        "Made by `make suite-kafka-python` and `make suite-librdkafka`.",
    ]
    for name, rows in suites.items():
        if rows:
            lines += ["", f"## {name} {SOURCES[name].version}", "", *_suite(rows)]
    return "\n".join(lines) + "\n"


def _suite(rows: Rows) -> list[str]:
    due = {test: row for test, row in rows.items() if is_due(row)}
    passed = sum(row.get(OURS) == PASSED for row in due.values())
    others = [row for row in rows.values() if row.get(KAFKA) != PASSED]
    needing = [row for row in rows.values() if row.get(KAFKA) == PASSED and row.get("needs")]
    counts = Counter(need for row in needing for need in row["needs"])
    needed = ", ".join(f"{need} {count}" for need, count in sorted(counts.items()))
    waiting = sum(OURS not in row for row in due.values())
    lines = [
        f"{len(rows)} recorded tests. {len(due)} are due, of which {passed} pass against ours"
        f" and {waiting} have no record.",
        f"{len(needing)} need what ours do not serve ({needed or 'nothing'}).",
        f"{len(others)} do not pass against Apache Kafka here.",
        "",
        "| due | ours | why not |",
        "|---|---|---|",
    ]
    for test, row in due.items():
        said = str(row.get(f"{OURS} said", "")).replace("|", "\\|").replace("`", "'")
        lines.append(f"| `{test}` | {row.get(OURS, 'not run')} | {f'`{said}`' if said else ''} |")
    lines += ["", "| not due | Apache Kafka | needs |", "|---|---|---|"]
    for test, row in rows.items():
        if test not in due:
            lines.append(
                f"| `{test}` | {row.get(KAFKA, 'not run')} | {', '.join(row.get('needs', []))} |"
            )
    return lines
