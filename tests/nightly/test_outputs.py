"""Outputs of a night: exit code, night.json, JUnit, Markdown, OpenMetrics, of the same runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast
from xml.etree import ElementTree as Tree

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.junit import junit
from kraftwreck.nightly.metrics import metrics
from kraftwreck.nightly.record import Failure, Record
from kraftwreck.nightly.summary import headline, summary
from kraftwreck.nightly.totals import Night, exit_code, total

families_of = cast(Callable[[str], Iterable[Any]], text_string_to_metric_families)

NASTY = 'a|b <script>alert("x")</script> `c` [d](e)\n# f\x00\\'


def run(n: int, **fields: Any) -> Record:
    values: dict[str, Any] = {
        "n": n, "kind": "cell", "cell": "kraft register kill sim clean", "system": "kraft",
        "workload": "register", "faults": ["kill"], "cluster": "sim", "tree": "clean",
        "planted": False, "seed": 100 + n, "valid": True, "seconds": 1.5, "cpu_s": 1.0,
        "sim_s": 30.0, "repeat": f"kraftwreck sim --seeds {n}",
    }  # fmt: skip
    return Record(**(values | fields))


def red(n: int, kind: str = "lost", **fields: Any) -> Record:
    failure = Failure(checker="committed", type=kind, explanation=NASTY)
    values: dict[str, Any] = {
        "valid": False,
        "klass": "system",
        "failures": [failure],
        "why": NASTY,
    }
    return run(n, **(values | fields))


LATE = Failure(checker="invariants", type="C16", explanation=NASTY)
PLANTED: dict[str, Any] = {
    "tree": "mutant:R02",
    "planted": True,
    "cell": "kraft register kill sim mutant:R02",
}
RECORDS = [
    run(0, kind="corpus", cell="cases/a.json"),
    run(1),
    red(2),
    red(3, like=2),
    red(4, "forked", case="reds/000004/case.json", shrunk="reds/000004/shrunk.json"),
    run(5, klass="harness", valid="unknown", why="KeyError: 'n1'"),
    run(6, klass="environment", valid="unknown", why="no space left", cluster="netns"),
    run(7, klass="flake", was="harness", why="no failure at the second attempt"),
    run(8, valid="unknown", why="epochs: out of time"),
    red(9, **PLANTED),
    run(10, **PLANTED),
    run(11, **(PLANTED | {"tree": "mutant:S01", "cell": "kraft register kill sim mutant:S01"})),
]


@pytest.fixture
def night() -> Night:
    made = Night(
        id="20260101T210000.000Z-example", name="example", seed=7, state="complete",
        began="2026-01-01T21:00:00.000+00:00", ended="2026-01-02T05:00:00.000+00:00",
        spent_s=28800.0, planned=12, exit_code=1,
    )  # fmt: skip
    total(made, RECORDS, {"sim": Coverage(runs=9, follows={"kill/a > kill/b": 3})})
    return made


def test_totals_count_existing_runs(night: Night) -> None:
    assert night.counts == {
        "runs": 12, "valid": 5, "invalid": 4, "unknown": 3,
        "system": 4, "harness": 1, "environment": 1, "flake": 1, "suspected": 0, "raised": 0,
    }  # fmt: skip
    kinds = [(kind.tree, kind.type, kind.count, kind.first) for kind in night.kinds]
    assert kinds == [
        ("clean", "lost", 2, 2), ("clean", "forked", 1, 4), ("mutant:R02", "lost", 1, 9),
    ]  # fmt: skip
    assert [(bug.tree, bug.runs, bug.found) for bug in night.planted] == [
        ("mutant:R02", 2, 1), ("mutant:S01", 1, 0),
    ]  # fmt: skip
    assert night.coverage["sim"]["pairs"][0] == 1
    assert msgspec.json.decode(msgspec.json.encode(night), type=Night) == night


def test_lines_are_read_as_they_were_written() -> None:
    line = msgspec.json.encode(RECORDS[4])
    assert b'"class":"system"' in line
    assert msgspec.json.decode(line, type=Record) == RECORDS[4]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([run(0)], 0),
        ([], 0),
        ([run(0), run(1, valid="unknown")], 2),
        ([run(0, klass="flake")], 2),
        ([run(0, suspicions=[LATE])], 0),
        ([run(0, suspicions=[LATE], raised=[LATE])], 2),
        ([run(0, valid="unknown"), run(1, klass="environment")], 255),
        ([run(0, klass="harness"), red(1)], 1),
    ],
)
def test_the_worst_decides_the_exit_code(records: list[Record], code: int) -> None:
    assert exit_code(records, planted_fail=True) == code


def test_planted_bugs_that_were_found_count_if_asked_for() -> None:
    found = [run(0), red(1, **PLANTED)]
    assert exit_code(found, planted_fail=True) == 1
    assert exit_code(found, planted_fail=False) == 0
    late = [run(0, **PLANTED, suspicions=[LATE], raised=[LATE])]
    assert [exit_code(late, planted_fail=fail) for fail in (True, False)] == [2, 0]
    broken = [run(0, **PLANTED, klass="harness")]
    assert exit_code(broken, planted_fail=False) == 255
    assert exit_code([run(0)], planted_fail=False, failed=True) == 255


def test_junit_has_a_case_per_cell_and_says_how_to_repeat(night: Night) -> None:
    root = Tree.fromstring(junit(night, RECORDS))  # noqa: S314 - written by the line itself
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["corpus", "clean", "mutant:R02", "mutant:S01"]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "2", "0")
    failure = suites["clean"].find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "system"
    assert "3 of 8 runs" in str(failure.get("message"))
    assert "kraftwreck sim --seeds 2" in str(failure.text)
    assert suites["corpus"].find("testcase/failure") is None
    only_ours = Tree.fromstring(junit(night, [RECORDS[5]]))  # noqa: S314 - as above
    assert only_ours.find("testsuite/testcase/error") is not None


def test_the_summary_names_failures_and_escapes_their_text(night: Night) -> None:
    text = summary(night, RECORDS)
    assert text.startswith("# Night example: 3 runs of the clean build failed, in 2 ways\n")
    assert "1 of 2 were found" in text
    assert "**not found**" in text
    assert "| 5 | harness |" in text
    assert "(shrunk)" in text
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "\n# f" not in text
    assert "a\\|b" in text
    assert len(text) < 6000


def test_suspicions_are_listed_those_that_came_back_first(night: Night) -> None:
    records = [run(0), run(1, suspicions=[LATE]), run(2, suspicions=[LATE], raised=[LATE])]
    total(night, records, {})
    assert (night.counts["suspected"], night.counts["raised"]) == (2, 1)
    rows = summary(night, records).partition("## Suspicions\n")[2].splitlines()[3:5]
    assert [row[:8] for row in rows] == ["| 2 | **", "| 1 | no"]
    assert "invariants: C16: a\\|b" in rows[0]
    root = Tree.fromstring(junit(night, records))  # noqa: S314 - written by the line itself
    assert (root.get("failures"), root.get("errors")) == ("0", "1")
    assert 'suspicious_runs{night="example",back="true"} 1' in metrics(night, records)


def test_a_good_night_says_so(night: Night) -> None:
    good = [run(0), run(1)]
    night.exit_code = 0
    total(night, good, {})
    assert summary(night, good).startswith("# Night example: all is well\n")


@pytest.mark.parametrize(
    ("records", "changes", "said"),
    [
        ([run(0)], {"state": "interrupted", "reason": "interrupted", "exit_code": 130},
         "the clean build held; it was interrupted; exit code 130"),
        ([run(0)], {"state": "interrupted", "reason": "disk", "exit_code": 255},
         "the clean build held; it was interrupted (disk); exit code 255"),
        ([run(0), run(1, **PLANTED)], {"exit_code": 0},
         "the clean build held; 1 of 1 planted bug missed"),
        ([run(0), red(1, **PLANTED)], {"exit_code": 1},
         "the clean build held; 1 planted bug found; exit code 1"),
        ([run(0), red(1, **PLANTED)], {"exit_code": 0}, "all is well; 1 planted bug found"),
        ([run(0)], {"given_up": {"netns": "no"}, "exit_code": 255},
         "the clean build held; netns was abandoned; exit code 255"),
        ([run(0, suspicions=[LATE])], {"exit_code": 0}, "all is well"),
        ([run(0, suspicions=[LATE], raised=[LATE])], {"exit_code": 2},
         "the clean build held; a suspicion came back in 1 run; exit code 2"),
        ([], {"exit_code": 0}, "nothing was run"),
    ],
)  # fmt: skip
def test_a_night_is_only_well_if_it_ended_with_all_that_was_wanted(
    night: Night, records: list[Record], changes: dict[str, Any], said: str
) -> None:
    night.exit_code = None
    for name, value in changes.items():
        setattr(night, name, value)
    total(night, records, {})
    assert headline(night) == said


def test_metrics_are_openmetrics(night: Night) -> None:
    names = [*RECORDS, run(12, cluster='hosts:a"b\\c\nd')]
    text = metrics(night, names)
    families = {f.name: f for f in families_of(text)}
    runs = families["kraftwreck_night_runs"]
    assert sum(sample.value for sample in runs.samples) == len(names)
    reds = [
        sample.value for sample in runs.samples
        if sample.labels["class"] == "system" and sample.labels["tree"] == "clean"
    ]  # fmt: skip
    assert reds == [3.0]
    assert families["kraftwreck_night_duration_seconds"].samples[0].value == 28800
    assert families["kraftwreck_night_exit_code"].samples[0].value == 1
    assert any(sample.labels["cluster"] == 'hosts:a"b\\c\nd' for sample in runs.samples)
    assert text.endswith("# EOF\n")


def test_metrics_of_a_night_under_way_are_openmetrics_too(night: Night) -> None:
    night.ended, night.exit_code, night.state = None, None, "running"
    total(night, [], {})
    families = list(families_of(metrics(night, [])))
    assert "kraftwreck_night_exit_code" not in {family.name for family in families}
