"""JUnit files that continuous integration understands."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Tree

import msgspec
import pytest

from kraftwreck.histories.verdict import Anomaly, CheckerResult, Suspicion, Verdict
from kraftwreck.reports.junit import write_junit
from kraftwreck.reports.run_folder import RunFolderError


def read(path: Path) -> Tree.Element:
    return Tree.parse(path).getroot()  # noqa: S314 - written by us a moment ago


def test_one_case_per_checker_failing_or_undecided(run_copy: Path) -> None:
    suite = read(write_junit(run_copy))
    assert suite.get("name") == "kraft-register"
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "2", "1")
    cases = {c.get("name"): [child.tag for child in c] for c in suite.iter("testcase")}
    assert cases == {
        "stats": [],
        "epochs": ["failure"],
        "linearizable": ["failure"],
        "committed": ["error"],
    }
    failure = suite.find("testcase[@name='linearizable']/failure")
    assert failure is not None
    assert "lost-write: The write of" in (failure.text or "")


def test_seed_and_repeat_are_properties(run_copy: Path) -> None:
    suite = read(write_junit(run_copy))
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties["seed"] == "7"
    assert (properties["repeat"] or "").startswith("kraftwreck run kraft -w register")


def test_characters_that_xml_cannot_hold_are_replaced(run_copy: Path) -> None:
    bad = CheckerResult(
        valid=False, anomalies=[Anomaly(type="x\x00", explanation="bell \x07 and <b> & done")]
    )
    (run_copy / "results.json").write_bytes(msgspec.json.encode(Verdict.of({"c": bad})))
    failure = read(write_junit(run_copy)).find("testcase/failure")
    assert failure is not None
    assert failure.text == "x\ufffd: bell \ufffd and <b> & done"


def test_a_suspicion_is_a_property_and_no_failure(run_copy: Path) -> None:
    late = Suspicion(type="I18", explanation="n1 still leads.", why="A machine may stand still.")
    verdict = Verdict.of({"c": CheckerResult(valid=True, suspicions=[late])})
    (run_copy / "results.json").write_bytes(msgspec.json.encode(verdict))
    suite = read(write_junit(run_copy))
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    properties = [p.get("value") for p in suite.iter("property") if p.get("name") == "suspicion"]
    assert properties == ["c: I18: n1 still leads. A machine may stand still."]
    assert [list(case) for case in suite.iter("testcase")] == [[]]


def test_a_run_without_verdict_is_an_error(run_copy: Path) -> None:
    (run_copy / "results.json").unlink()
    suite = read(write_junit(run_copy))
    assert suite.get("errors") == "1"


def test_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is missing"):
        write_junit(tmp_path)
